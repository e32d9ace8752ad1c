// @ts-check
/** Sentences in both languages and the closest name to a wrong one; twin of `slime/experiment/texts.py`. */

/** @typedef {{zh: string, en: string}} Text */

const SLOT = /\{([A-Za-z][A-Za-z0-9_]*)\}/g;
const CONTROL =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202e\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\u{e0000}-\u{e007f}]/gu;
const LONE_SURROGATE = /[\ud800-\udfff]/gu;
const SHOWN_CHARACTERS = 64;

/**
 * How a value appears inside a sentence.
 * @param {any} value
 * @returns {string}
 */
export function show(value) {
  return Array.isArray(value) ? value.map(show).join(", ") : String(value);
}

/**
 * Put slots into a sentence in one pass; a slot without a value stays as written.
 * @param {Text} template
 * @param {Record<string, any>} slots
 * @returns {Text}
 */
export function fill(template, slots) {
  /** @param {"zh" | "en"} language */
  const one = (language) =>
    template[language].replace(SLOT, (written, name) => {
      if (!Object.hasOwn(slots, name)) return written;
      const value = slots[name];
      const isText = value !== null && typeof value === "object" && !Array.isArray(value);
      return isText ? value[language] : show(value);
    });
  return { zh: one("zh"), en: one("en") };
}

/**
 * False for a text with half a surrogate pair, which no file can hold.
 * @param {string} text
 */
export function isWellFormed(text) {
  return text.search(LONE_SURROGATE) < 0;
}

/**
 * Without control characters, line separators and what cannot be seen, and without outer spaces.
 * @param {string} text
 */
export function clean(text) {
  const kept = text.replace(CONTROL, "");
  let start = 0;
  let end = kept.length;
  while (start < end && kept[start] === " ") start += 1;
  while (end > start && kept[end - 1] === " ") end -= 1;
  return kept.slice(start, end);
}

/**
 * A foreign text made safe to quote in a sentence: cleaned, well-formed and cut.
 * @param {string} text
 */
export function shorten(text) {
  const safe = [...clean(text.replace(LONE_SURROGATE, "\ufffd"))];
  return safe.length <= SHOWN_CHARACTERS ? safe.join("") : `${safe.slice(0, SHOWN_CHARACTERS).join("")}…`;
}

/** @param {string} text */
function lowerAscii(text) {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

/**
 * Insertions, deletions, replacements and swaps of neighbours between two texts.
 * @param {string[]} left
 * @param {string[]} right
 */
function editDistance(left, right) {
  /** @type {number[]} */
  let before = [];
  let above = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let i = 1; i <= left.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= right.length; j += 1) {
      let best = Math.min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (left[i - 1] === right[j - 1] ? 0 : 1));
      if (i > 1 && j > 1 && left[i - 1] === right[j - 2] && left[i - 2] === right[j - 1]) {
        best = Math.min(best, before[j - 2] + 1);
      }
      row.push(best);
    }
    [before, above] = [above, row];
  }
  return above[right.length];
}

/**
 * The known name most like `name` (ASCII case aside), the first of equals, or null.
 * @param {string} name
 * @param {Iterable<string>} known
 * @returns {string | null}
 */
export function nearest(name, known) {
  const wanted = [...lowerAscii(shorten(name))];
  let allowed = wanted.length <= 3 ? 1 : wanted.length <= 7 ? 2 : 3;
  let best = null;
  for (const candidate of known) {
    const distance = editDistance(wanted, [...lowerAscii(candidate)]);
    if (distance <= allowed) {
      best = candidate;
      allowed = distance - 1;
    }
  }
  return best;
}

/**
 * Order of code points, as Python sorts; JavaScript's own order is by UTF-16 units.
 * @param {string} left
 * @param {string} right
 */
export function byCodePoint(left, right) {
  const a = [...left];
  const b = [...right];
  for (let index = 0; index < Math.min(a.length, b.length); index += 1) {
    const difference = /** @type {number} */ (a[index].codePointAt(0)) - /** @type {number} */ (b[index].codePointAt(0));
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}
