// @ts-check
/** Load an experiment from JSON text; twin of `slime/experiment/importing.py`. */

import { isMapping, kindOf, sanitise, unwrap } from "./choices.js";
import { LoadError } from "./errors.js";
import { readJson } from "./json_text.js";
import { byCodePoint, fill, shorten } from "./texts.js";

/** @typedef {import("./tables.js").Tables} Tables */

const MAXIMUM_KEYS = 256;

/**
 * Read JSON text: an export of schema 1 or 2, or bare choices. Throws `LoadError`.
 * @param {Tables} tables
 * @param {string} text
 * @returns {{state: import("./tables.js").State, ignored: import("./choices.js").Ignored[], schema: number | null,
 *   unused: string[]}}
 */
export function load(tables, text) {
  const raw = readJson(tables.data.messages, text);
  const [choices, problems] = unwrap(tables, raw);
  if (problems.length > 0) throw new LoadError(problems[0].reason);
  const result = sanitise(tables, knownMapping(tables, choices));
  const isExport = Object.hasOwn(raw, "schema");
  const others = Object.keys(raw).filter((key) => key !== "schema" && key !== "choices");
  const unused = isExport ? others.sort(byCodePoint).slice(0, MAXIMUM_KEYS).map(shorten) : [];
  return { ...result, schema: isExport ? raw.schema : null, unused };
}

/**
 * The mapping itself. Throws `LoadError` unless it is one of bearable size with a known choice in it.
 * @param {Tables} tables
 * @param {any} choices
 * @returns {Record<string, any>}
 */
export function knownMapping(tables, choices) {
  const { messages } = tables.data;
  if (!isMapping(choices)) throw new LoadError(fill(messages.not_mapping, { got: messages[kindOf(choices)] }));
  const keys = Object.keys(choices);
  if (keys.length > MAXIMUM_KEYS) {
    const slots = { got: keys.length, maximum: MAXIMUM_KEYS, known: tables.data.fields.length };
    throw new LoadError(fill(messages.too_many_keys, slots));
  }
  if (!keys.some((key) => tables.byName.has(key))) throw new LoadError(messages.nothing_known);
  return choices;
}
