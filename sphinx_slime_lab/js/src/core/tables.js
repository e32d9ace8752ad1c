// @ts-check
/** The catalogue ready to be read: indexes, and the names under a state. Twin of `slime/experiment/tables.py`. */

import { evaluate } from "./expression.js";

/** @typedef {string | boolean | number} Scalar */
/** @typedef {Record<string, Scalar>} State */
/**
 * @typedef {object} Tables
 * @property {any} data the catalogue as `Catalog.to_json()` gave it
 * @property {Map<string, any>} byName every choice by its name, in order
 */

/**
 * @param {any} data
 * @returns {Tables}
 */
export function createTables(data) {
  return { data, byName: new Map(data.fields.map((/** @type {any} */ field) => [field.name, field])) };
}

/**
 * Everything an expression may read under a state: choices, facts, derived values and `extra`.
 * @param {Tables} tables
 * @param {State} state
 * @param {Record<string, any>} [extra]
 * @returns {Record<string, any>}
 */
export function namesOf(tables, state, extra = {}) {
  const facts = tables.data.models[/** @type {string} */ (state.model)].facts;
  const image = tables.data.images[/** @type {string} */ (state.image)];
  const names = Object.assign(Object.create(null), state, facts, image, extra);
  for (const derived of tables.data.derived) names[derived.name] = evaluate(derived.value, names);
  return names;
}

/**
 * A mapping with its keys in the order of code points, at every depth.
 * @param {any} value
 * @returns {any}
 */
export function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  const keys = Object.keys(value).sort();
  return Object.fromEntries(keys.map((key) => [key, sorted(value[key])]));
}
