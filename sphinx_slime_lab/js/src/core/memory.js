// @ts-check
/** The estimate of memory, phase by phase and rank by rank; twin of `slime/experiment/memory.py`. */

import { evaluate, test } from "./expression.js";
import { namesOf } from "./tables.js";
import { fill } from "./texts.js";

/** @typedef {import("./texts.js").Text} Text */
/** @typedef {{amount: number, text: string}} Cell */

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];
const COUNT_UNITS = ["", " × 10³", " × 10⁶", " × 10⁹"];

/**
 * The estimate for a state, also for one with errors.
 * @param {import("./tables.js").Tables} tables
 * @param {import("./tables.js").State} state
 */
export function memory(tables, state) {
  const names = namesOf(tables, state);
  extend(names, tables.data.memory.derived);
  return tables.data.memory.phases.map((/** @type {any} */ phase) => phaseOf(phase, names));
}

/**
 * @param {number} amount
 * @param {string[]} units
 * @param {string} gap
 */
function scaled(amount, units, gap) {
  let scale = 1;
  let index = 0;
  while (amount >= scale * 1000 && index + 1 < units.length) {
    scale *= 1000;
    index += 1;
  }
  if (index === 0) return `${amount}${gap}${units[0]}`;
  const tenths = Math.floor((amount * 10 + Math.floor(scale / 2)) / scale);
  return `${Math.floor(tenths / 10)}.${tenths % 10}${gap}${units[index]}`;
}

/** @param {number} amount @param {boolean} isCount @returns {Cell} */
function cellOf(amount, isCount) {
  return { amount, text: isCount ? scaled(amount, COUNT_UNITS, "") : scaled(amount, UNITS, " ") };
}

/** @param {Record<string, any>} names @param {any[]} rows */
function extend(names, rows) {
  for (const row of rows) names[row.name] = evaluate(row.value, names);
}

/** @param {any} phase @param {Record<string, any>} names */
function phaseOf(phase, names) {
  const columns = phase.ranks.filter((/** @type {any} */ rank) => test(rank.when, names)).map((/** @type {any} */ rank) => {
    const own = Object.assign(Object.create(null), names);
    extend(own, rank.values);
    extend(own, phase.derived);
    return { label: fill(rank.label, own), own };
  });
  const rows = phase.terms
    .map((/** @type {any} */ term) => rowOf(term, columns))
    .filter((/** @type {any} */ row) => row.cells.some((/** @type {Cell | null} */ cell) => cell !== null));
  const totals = columns.map((/** @type {any} */ _, /** @type {number} */ index) =>
    cellOf(rows.reduce((/** @type {number} */ sum, /** @type {any} */ row) =>
      sum + (row.unit === "bytes" && row.cells[index] ? row.cells[index].amount : 0), 0), false));
  return {
    id: phase.id,
    label: phase.label,
    what: phase.what,
    ranks: columns.map((/** @type {any} */ one) => one.label),
    rows,
    totals: phase.total ? totals : null,
  };
}

/** @param {any} term @param {{own: Record<string, any>}[]} columns */
function rowOf(term, columns) {
  /** @type {Text[]} */
  const formulas = [];
  const cells = columns.map(({ own }) => {
    if (!test(term.when, own)) return null;
    const formula = fill(term.formula, own);
    if (!formulas.some((one) => one.zh === formula.zh && one.en === formula.en)) formulas.push(formula);
    return cellOf(evaluate(term.bytes, own), term.unit === "count");
  });
  return { id: term.id, label: term.label, formulas, link: term.link, unit: term.unit, cells };
}
