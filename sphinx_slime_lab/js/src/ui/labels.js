// @ts-check
/** Names and values of choices in the words of the page. */

/**
 * @param {any} data
 * @param {"zh"|"en"} language
 */
export function createLabels(data, language) {
  const { words } = data;
  const fields = new Map(data.catalog.fields.map((/** @type {any} */ field) => [field.name, field]));
  const label = (/** @type {string} */ name) => (fields.has(name) ? fields.get(name).label[language] : name);
  return {
    label,
    /** Labels in one sentence, each once. */
    list: (/** @type {string[]} */ names) => [...new Set(names.map(label))].join(words.comma),
    /** @param {string} name @param {any} value */
    value(name, value) {
      const field = fields.get(name);
      if (field.type === "enum") return field.values.find((/** @type {any} */ one) => one.value === value).label[language];
      if (field.type === "bool") return value ? words.yes_ : words.no_;
      return value === "" ? words.empty : String(value);
    },
  };
}
