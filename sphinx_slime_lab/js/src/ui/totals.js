// @ts-check
/** Which numbers of the accounting a page shows, and what they are called. */

export const TOTALS = ["train_gpus", "rollout_gpus", "ray_gpus", "engines", "dp"];

/**
 * @param {Record<string, string>} words
 * @param {string} key
 * @param {boolean} isCpu a recipe for the CPU counts processes
 */
export function totalLabel(words, key, isCpu) {
  return words[key.endsWith("_gpus") ? `${isCpu ? "processes" : "gpus"}_${key.slice(0, -5)}` : key];
}
