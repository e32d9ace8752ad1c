// @ts-check
/** Repairs, proven on a copy before anyone sees them; twin of `slime/experiment/repairs.py`. */

import { evaluateSet, normalise } from "./choices.js";
import { ChoiceError, ExpressionError } from "./errors.js";
import { test } from "./expression.js";
import { namesOf } from "./tables.js";
import { fill, nearest } from "./texts.js";
import { accounting, findings, ruleFindings } from "./validation.js";

/** @typedef {import("./tables.js").Tables} Tables */
/** @typedef {import("./tables.js").State} State */
/** @typedef {import("./validation.js").Finding} Finding */

/** @type {WeakMap<State, {tables: Tables, result: ReturnType<typeof judge>}>} */
const judged = new WeakMap();

/**
 * Findings with the repairs that work, and the accounting. A frozen state keeps its answer: files ask for it again.
 * @param {Tables} tables
 * @param {State} state
 */
export function validate(tables, state) {
  const known = judged.get(state);
  if (known?.tables === tables) return known.result;
  const result = judge(tables, state);
  if (Object.isFrozen(state)) judged.set(state, { tables, result });
  return result;
}

/** @param {Tables} tables @param {State} state */
function judge(tables, state) {
  const plain = findings(tables, state);
  const names = namesOf(tables, state);
  return {
    findings: plain.map((finding) => withRepairs(tables, state, plain, finding, names)),
    accounting: accounting(tables, names),
  };
}

/**
 * @param {Tables} tables
 * @param {string} id
 * @returns {any[]}
 */
function rowsOf(tables, id) {
  return tables.data.rules.find((/** @type {any} */ rule) => rule.id === id)?.repair ?? [];
}

/**
 * @param {Tables} tables
 * @param {State} state
 * @param {Finding[]} plain
 * @param {Finding} finding
 * @param {Record<string, any>} names
 * @returns {Finding}
 */
function withRepairs(tables, state, plain, finding, names) {
  const rows = rowsOf(tables, finding.id).filter((row) => test(row.when, names));
  if (rows.length === 0) return finding;
  const works = rows.filter((row) => attempt(tables, state, plain, finding.id, row, names) !== null);
  const repairs = works.map((row) => ({ id: row.id, title: fill(row.title, names) }));
  return { ...finding, repairs, repair_note: works.length > 0 ? null : tables.data.messages.no_repair };
}

/**
 * The changed state and what the rules say of it, or null when the repair does not keep its promise.
 * @param {Tables} tables
 * @param {State} state
 * @param {Finding[]} plain
 * @param {string} id
 * @param {any} row
 * @param {Record<string, any>} names
 * @returns {{after: State, remaining: Finding[]} | null}
 */
function attempt(tables, state, plain, id, row, names) {
  let values;
  try {
    values = evaluateSet(tables, row.set, names);
  } catch (error) {
    if (error instanceof ExpressionError && error.code === "range") return null;
    throw error;
  }
  const after = { ...state, ...values };
  normalise(tables, after);
  const remaining = ruleFindings(tables, after);
  const before = new Set(plain.filter((one) => one.severity === "error").map((one) => one.id));
  const fresh = remaining.some((one) => one.severity === "error" && !before.has(one.id));
  const unchanged = Object.keys(after).every((name) => after[name] === state[name]);
  if (unchanged || fresh || remaining.some((one) => one.id === id)) return null;
  return { after, remaining };
}

/**
 * What one offered repair would do. Throws `ChoiceError` when it is not offered.
 * @param {Tables} tables
 * @param {State} state
 * @param {string} findingId
 * @param {string} repairId
 */
export function preview(tables, state, findingId, repairId) {
  const plain = findings(tables, state);
  const names = namesOf(tables, state);
  const rows = plain.some((finding) => finding.id === findingId) ? rowsOf(tables, findingId) : [];
  const row = rows.find((one) => one.id === repairId && test(one.when, names));
  const result = row === undefined ? null : attempt(tables, state, plain, findingId, row, names);
  if (row === undefined || result === null) {
    const reason = fill(tables.data.messages.no_such_repair, { finding: findingId, repair: repairId });
    throw new ChoiceError("repair", reason, nearest(repairId, rowsOf(tables, findingId).map((one) => one.id)));
  }
  const { after, remaining } = result;
  return {
    finding: findingId,
    repair: repairId,
    title: fill(row.title, names),
    changes: tables.data.fields
      .filter((/** @type {any} */ choice) => state[choice.name] !== after[choice.name])
      .map((/** @type {any} */ { name }) => ({ field: name, before: state[name], after: after[name] })),
    state: after,
    before: accounting(tables, names),
    allocation: accounting(tables, namesOf(tables, after)),
    remaining: remaining.filter((finding) => finding.severity === "error"),
  };
}
