// @ts-check
/** Shell words; twin of `slime/experiment/quoting.py`. Everything that a user typed becomes a single-quoted literal. */

const BARE = /^[A-Za-z0-9_./:=@%+,-]+$/;

/**
 * One single-quoted shell word.
 * @param {string} text
 */
export function quote(text) {
  return `'${text.replaceAll("'", "'\"'\"'")}'`;
}

/**
 * Digits as they are, a text quoted when it is a user's (`literal`) or needs it.
 * @param {string | number} value
 * @param {boolean} literal
 */
export function word(value, literal) {
  if (typeof value === "number") return String(value);
  return !literal && BARE.test(value) ? value : quote(value);
}
