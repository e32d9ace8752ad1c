// @ts-check
/** Names and values of choices in the words of the page. */
import { h } from "./dom.js";

/**
 * @param {any} data
 * @param {any} page the lab's own data, with the address of each documented rule
 * @param {"zh"|"en"} language
 */
export function createLabels(data, page, language) {
  const { words } = data;
  const fields = new Map(data.catalog.fields.map((/** @type {any} */ field) => [field.name, field]));
  const label = (/** @type {string} */ name) => (fields.has(name) ? fields.get(name).label[language] : name);
  return {
    label,
    /** The id of a rule, as a link when a page documents it. */
    rule: (/** @type {string} */ id) => (page.rules[id] ? h("a", { href: page.rules[id] }, h("code", {}, id)) : h("code", {}, id)),
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
