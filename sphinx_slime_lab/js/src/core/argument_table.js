// @ts-check
/** The argument table rendered for one state; twin of `slime/experiment/argument_table.py`. */

import { ExpressionError } from "./errors.js";
import { evaluate, test } from "./expression.js";
import { quote, word } from "./quoting.js";
import { namesOf } from "./tables.js";

/** @typedef {import("./tables.js").Tables} Tables */
/** @typedef {import("./tables.js").State} State */
/** @typedef {import("./texts.js").Text} Text */
/** @typedef {{shell: string, plain: string | null}} Word */
/**
 * @typedef {object} ArgumentLine
 * @property {string} flag
 * @property {string[]} values finished shell words
 * @property {string} text the whole line
 * @property {Text} why
 * @property {string} group
 * @property {string} target
 * @property {string[]} fields the choices that cause it
 * @property {"runs" | "planned" | "other"} status
 * @property {boolean} literal a text which a user typed stands in it
 */

const DECIMAL = /^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$/;

/**
 * True when the runtime does not run the flag, or not with this value (null: a switch, or a shell variable).
 * @param {any} status
 * @param {string | null} value
 */
function isPlanned(status, value) {
  if (!status.runs) return true;
  if (status.only === null) return false;
  if (value === null) return status.switch && !status.only.includes("true");
  return !status.only.some((/** @type {string} */ one) => sameValue(status, value, one));
}

/**
 * @param {any} status
 * @param {string} left
 * @param {string} right
 */
function sameValue(status, left, right) {
  if (left === right) return true;
  return status.numeric && DECIMAL.test(left) && DECIMAL.test(right) && Number(left) === Number(right);
}

/**
 * The flags of `slime train`, in the order of the table.
 * @param {Tables} tables
 * @param {State} state
 */
export function launcherLines(tables, state) {
  return lines(tables, state, ["train", "serving"], "train");
}

/**
 * The flags of the checkpoint conversion.
 * @param {Tables} tables
 * @param {State} state
 */
export function conversionLines(tables, state) {
  return lines(tables, state, ["convert"], "train");
}

/**
 * The flags of an SGLang server that someone else starts, under SGLang's own names.
 * @param {Tables} tables
 * @param {State} state
 * @param {string} role
 */
export function referenceLines(tables, state, role) {
  return lines(tables, state, ["serving", "reference"], role);
}

/**
 * The training job's environment.
 * @param {Tables} tables
 * @param {State} state
 * @returns {{name: string, text: string, why: Text, fields: string[]}[]}
 */
export function environmentLines(tables, state) {
  const names = namesOf(tables, state, { role: "train" });
  /** @type {any[]} */
  const own = tables.data.models[/** @type {string} */ (state.model)].environment;
  const result = [];
  for (const row of tables.data.environment) {
    if (!test(row.when, names)) continue;
    if (row.splice !== undefined) {
      for (const one of own) {
        result.push({ name: one.name, text: quote(`${one.name}=${one.value}`), why: one.why, fields: row.fields });
      }
    } else if (!own.some((one) => one.name === row.name)) {
      const text = row.value === undefined ? `${row.name}=${row.shell}` : assignment(row, names);
      result.push({ name: row.name, text, why: row.why, fields: row.fields });
    }
  }
  return result;
}

/**
 * @param {any} row
 * @param {Record<string, any>} names
 */
function assignment(row, names) {
  return quote(`${row.name}=${scalar(evaluate(row.value, names), row.name)}`);
}

/**
 * @param {any} value
 * @param {string} owner
 */
function scalar(value, owner) {
  if (typeof value !== "string" && typeof value !== "number") {
    throw new ExpressionError("type", `${owner} needs a text or an integer, got ${JSON.stringify(value)}`);
  }
  return String(value);
}

/**
 * @param {Tables} tables
 * @param {State} state
 * @param {string[]} targets
 * @param {string} role
 * @returns {ArgumentLine[]}
 */
function lines(tables, state, targets, role) {
  const names = namesOf(tables, state, { role });
  /** @type {ArgumentLine[]} */
  const result = [];
  for (const row of tables.data.arguments) {
    if (!targets.includes(row.target) || !test(row.when, names)) continue;
    if (row.splice !== undefined) {
      for (const one of tables.data.models[/** @type {string} */ (state.model)][row.splice]) {
        const words = one.value === null ? [] : [{ shell: word(one.value, false), plain: one.value }];
        result.push(...line(tables, row, one.flag, words, one.why, false, role));
      }
    } else {
      result.push(...line(tables, row, row.flag, rowWords(row, names), row.why, row.literal, role));
    }
  }
  return result;
}

/**
 * @param {any} row
 * @param {Record<string, any>} names
 * @returns {Word[]}
 */
function rowWords(row, names) {
  /** @type {any[]} */
  let values = [];
  if (row.value !== undefined) values = [evaluate(row.value, names)];
  else if (row.each !== undefined) {
    const list = evaluate(row.each, names);
    if (!Array.isArray(list)) throw new ExpressionError("type", `${row.flag}: each needs a list`);
    values = list;
  }
  const words = values.map((value) => {
    const plain = scalar(value, row.flag);
    return { shell: typeof value === "number" ? plain : word(plain, row.literal), plain };
  });
  return [...words, ...row.shell.map((/** @type {string} */ shell) => ({ shell, plain: null }))];
}

/**
 * @param {Tables} tables
 * @param {any} row
 * @param {string} flag
 * @param {Word[]} words
 * @param {Text} why
 * @param {boolean} literal
 * @param {string} role
 * @returns {ArgumentLine[]}
 */
function line(tables, row, flag, words, why, literal, role) {
  /** @type {ArgumentLine["status"]} */
  let status = "other";
  let name = flag;
  if (role !== "train") {
    if (flag.startsWith("--rollout-")) return [];
    if (row.target === "serving") name = flag.replace("--sglang-", "--");
  } else if (row.target !== "convert") {
    const plain = words.length > 0 ? words.map((one) => one.plain) : [null];
    status = plain.some((value) => isPlanned(tables.data.flags[flag], value)) ? "planned" : "runs";
  }
  const values = words.map((one) => one.shell);
  const text = [name, ...values].join(" ");
  return [{ flag: name, values, text, why, group: row.group, target: row.target, fields: row.fields, status, literal }];
}
