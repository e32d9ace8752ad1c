// @ts-check
/**
 * Evaluate parsed expressions; twin of `slime/experiment/expression.py`, where the semantics are written down.
 * Nothing is parsed here: the catalogue holds lists such as `["==", ["var", "layout"], ["lit", "external"]]`.
 */

import { ExpressionError } from "./errors.js";
import { call, FUNCTIONS, wantInt } from "./functions.js";

/** @typedef {import("./functions.js").Value} Value */
/** @typedef {Record<string, Value>} Names */

/**
 * @param {Value} value
 * @returns {boolean}
 */
function wantBool(value) {
  if (typeof value !== "boolean") {
    throw new ExpressionError("type", `expected true or false, got ${JSON.stringify(value)}`);
  }
  return value;
}

/**
 * @param {Value} left
 * @param {Value} right
 */
function same(left, right) {
  return !Array.isArray(left) && left === right;
}

/**
 * The value of a parsed expression. Throws `ExpressionError`.
 * @param {any[]} tree
 * @param {Names} names
 * @returns {Value}
 */
export function evaluate(tree, names) {
  const [operator, ...parts] = tree;
  switch (operator) {
    case "lit":
      return parts[0];
    case "var":
      if (!Object.hasOwn(names, parts[0])) throw new ExpressionError("name", `unknown name ${parts[0]}`);
      return names[parts[0]];
    case "if":
      return evaluate(wantBool(evaluate(parts[0], names)) ? parts[1] : parts[2], names);
    case "and":
      return parts.every((part) => wantBool(evaluate(part, names)));
    case "or":
      return parts.some((part) => wantBool(evaluate(part, names)));
  }
  const values = parts.map((part) => evaluate(part, names));
  switch (operator) {
    case "list":
      return values;
    case "not":
      return !wantBool(values[0]);
    case "==":
    case "!=":
      return same(values[0], values[1]) === (operator === "==");
    case "in":
    case "not in":
      return contains(values[1], values[0]) === (operator === "in");
  }
  if (Object.hasOwn(FUNCTIONS, operator)) return call(operator, values);
  return arithmetic(operator, wantInt(values[0]), wantInt(values[1]));
}

/**
 * @param {Value} list
 * @param {Value} item
 */
function contains(list, item) {
  if (!Array.isArray(list)) throw new ExpressionError("type", `expected a list, got ${JSON.stringify(list)}`);
  return list.some((one) => same(one, item));
}

/**
 * @param {string} operator
 * @param {number} left
 * @param {number} right
 * @returns {number | boolean}
 */
function arithmetic(operator, left, right) {
  switch (operator) {
    case "<":
      return left < right;
    case "<=":
      return left <= right;
    case ">":
      return left > right;
    case ">=":
      return left >= right;
    case "+":
      return wantInt(left + right);
    case "-":
      return wantInt(left - right);
    case "*":
      return wantInt(left * right);
  }
  if (right <= 0) throw new ExpressionError("zero", `${operator} needs a positive divisor, got ${right}`);
  return operator === "//" ? wantInt(Math.floor(left / right)) : wantInt(((left % right) + right) % right);
}

/**
 * Like `evaluate`, for an expression that must give true or false. An absent condition holds.
 * @param {any[] | undefined} tree
 * @param {Names} names
 * @returns {boolean}
 */
export function test(tree, names) {
  return tree === undefined || wantBool(evaluate(tree, names));
}
