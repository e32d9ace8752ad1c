// @ts-check
/** The functions that expressions may call; twin of `slime/experiment/functions.py`. */

import { ExpressionError } from "./errors.js";
import { PREDICATES, splitOnSpaces } from "./predicates.js";

/** @typedef {number | boolean | string | null | any[]} Value */

/** @param {any} value */
function shown(value) {
  return JSON.stringify(value);
}

/**
 * @param {any} value
 * @returns {number}
 */
export function wantInt(value) {
  if (typeof value !== "number") throw new ExpressionError("type", `expected an integer, got ${shown(value)}`);
  if (!Number.isSafeInteger(value)) throw new ExpressionError("range", `${value} leaves the range of exact integers`);
  return value === 0 ? 0 : value;
}

/**
 * @param {any} value
 * @returns {string}
 */
export function wantText(value) {
  if (typeof value !== "string") throw new ExpressionError("type", `expected a text, got ${shown(value)}`);
  return value;
}

/**
 * @param {any} value
 * @returns {any[]}
 */
export function wantList(value) {
  if (!Array.isArray(value)) throw new ExpressionError("type", `expected a list, got ${shown(value)}`);
  return value;
}

/** @param {any} value */
function wantStep(value) {
  const step = wantInt(value);
  if (step <= 0) throw new ExpressionError("zero", `expected a positive integer, got ${step}`);
  return step;
}

/**
 * @param {any} value
 * @param {any} step
 * @param {(unit: number) => number} half
 */
function multiple(value, step, half) {
  const whole = wantInt(value);
  const unit = wantStep(step);
  return wantInt(Math.floor(wantInt(whole + half(unit)) / unit) * unit);
}

/**
 * The nearest multiple; a tie goes up.
 * @param {any} value
 * @param {any} step
 */
function roundTo(value, step) {
  const whole = wantInt(value);
  const unit = wantStep(step);
  const doubled = wantInt(2 * whole + unit);
  const twice = wantInt(2 * unit);
  return wantInt(Math.floor(doubled / twice) * unit);
}

/**
 * @param {any} left
 * @param {any} right
 */
function gcd(left, right) {
  let a = wantStep(left);
  let b = wantStep(right);
  while (b > 0) [a, b] = [b, a % b];
  return a;
}

/**
 * @param {any} text
 * @param {any} [separator]
 */
function split(text, separator) {
  if (separator === undefined) return splitOnSpaces(wantText(text));
  if (wantText(separator) === "") throw new ExpressionError("empty", "split needs a separator that is not empty");
  return wantText(text)
    .split(separator)
    .filter((part) => part !== "");
}

/** @param {any} values */
function first(values) {
  if (wantList(values).length === 0) throw new ExpressionError("empty", "first of an empty list");
  return values[0];
}

/** @param {any} value */
function len(value) {
  return typeof value === "string" ? [...value].length : wantList(value).length;
}

/** @type {Record<string, [number, number, (...values: any[]) => any]>} name -> fewest, most arguments, function */
export const FUNCTIONS = {
  min: [1, Infinity, (...values) => Math.min(...values.map(wantInt))],
  max: [1, Infinity, (...values) => Math.max(...values.map(wantInt))],
  len: [1, 1, len],
  ceil_to: [2, 2, (value, step) => multiple(value, step, (unit) => unit - 1)],
  floor_to: [2, 2, (value, step) => multiple(value, step, () => 0)],
  round_to: [2, 2, roundTo],
  lcm: [2, 2, (left, right) => wantInt((wantStep(left) / gcd(left, right)) * right)],
  gcd: [2, 2, gcd],
  text: [1, 1, (value) => String(wantInt(value))],
  concat: [1, Infinity, (...parts) => parts.map(wantText).join("")],
  join: [1, 2, (parts, between = " ") => wantList(parts).map(wantText).join(wantText(between))],
  split: [1, 2, split],
  first: [1, 1, first],
  distinct: [1, 1, (texts) => [...new Set(wantList(texts).map(wantText))]],
  starts_with: [2, 2, (text, start) => wantText(text).startsWith(wantText(start))],
  ends_with: [2, 2, (text, end) => wantText(text).endsWith(wantText(end))],
  ...Object.fromEntries(
    Object.entries(PREDICATES).map(([name, test]) => [
      name,
      /** @type {[number, number, (value: any) => boolean]} */ ([1, 1, (value) => test(wantText(value))]),
    ]),
  ),
};

/**
 * Apply the function `name` to evaluated values.
 * @param {string} name
 * @param {any[]} values
 */
export function call(name, values) {
  const [fewest, most, apply] = FUNCTIONS[name];
  if (values.length < fewest || values.length > most) {
    throw new ExpressionError("arity", `${name} cannot take ${values.length} arguments`);
  }
  return apply(...values);
}
