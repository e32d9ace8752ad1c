// @ts-check
/** Findings about a state and the GPUs that it takes; twin of `slime/experiment/validation.py`. */

import { launcherLines } from "./argument_table.js";
import { evaluate, test } from "./expression.js";
import { namesOf } from "./tables.js";
import { fill } from "./texts.js";

/** @typedef {import("./tables.js").Tables} Tables */
/** @typedef {import("./tables.js").State} State */
/** @typedef {import("./tables.js").Scalar} Scalar */
/** @typedef {import("./texts.js").Text} Text */
/**
 * @typedef {object} Finding
 * @property {string} id
 * @property {"error" | "note" | "planned"} severity
 * @property {string[]} fields the choices it concerns, the first one first
 * @property {Text} message
 * @property {{id: string, title: Text}[]} repairs
 * @property {Text | null} repair_note
 * @property {string | null} docs
 */
/** @typedef {Record<string, number>} Accounting */

const SHOWN_FLAGS = 3;

/**
 * The accounting part of the derived values.
 * @param {Tables} tables
 * @param {Record<string, any>} names
 * @returns {Accounting}
 */
export function accounting(tables, names) {
  return Object.fromEntries(tables.data.accounting.map((/** @type {string} */ name) => [name, names[name]]));
}

/**
 * Every finding about a state, without repairs.
 * @param {Tables} tables
 * @param {State} state
 * @returns {Finding[]}
 */
export function findings(tables, state) {
  return [...ruleFindings(tables, state), ...planned(tables, state)];
}

/**
 * The findings of the rules alone: errors and notes.
 * @param {Tables} tables
 * @param {State} state
 * @returns {Finding[]}
 */
export function ruleFindings(tables, state) {
  const names = namesOf(tables, state);
  /** @type {Finding[]} */
  const found = [];
  for (const rule of tables.data.rules) {
    for (const name of rule.each.length > 0 ? rule.each : [null]) {
      const finding = judge(tables, rule, state, names, name);
      if (finding !== null) found.push(finding);
    }
  }
  return found;
}

/**
 * @param {Tables} tables
 * @param {any} rule
 * @param {State} state
 * @param {Record<string, any>} base
 * @param {string | null} each
 * @returns {Finding | null}
 */
function judge(tables, rule, state, base, each) {
  const names = each === null ? base : Object.assign(Object.create(null), base, { field: each, value: state[each] });
  if (!test(rule.when, names)) return null;
  const slots = Object.assign(Object.create(null), names);
  for (const [slot, tree] of Object.entries(rule.values)) slots[slot] = evaluate(/** @type {any[]} */ (tree), names);
  if (each !== null) slots.label = tables.byName.get(each).label;
  return {
    id: rule.id,
    severity: rule.severity,
    fields: each === null ? rule.fields : [each],
    message: fill(rule.message, slots),
    repairs: [],
    repair_note: null,
    docs: rule.docs ?? null,
  };
}

/**
 * A choice and its value in words; a user's own text is not repeated.
 * @param {Tables} tables
 * @param {any} choice
 * @param {Scalar} value
 * @returns {Text}
 */
export function describeChoice(tables, choice, value) {
  if (choice.type === "text") return choice.label;
  let shown = { zh: String(value), en: String(value) };
  if (choice.type === "enum") shown = choice.values.find((/** @type {any} */ one) => one.value === value).label;
  if (choice.type === "bool") shown = tables.data.messages[value ? "on" : "off"];
  return { zh: `${choice.label.zh}：${shown.zh}`, en: `${choice.label.en}: ${shown.en}` };
}

/**
 * `R01`: one finding per choice whose flags or values the runtime does not run yet.
 * @param {Tables} tables
 * @param {State} state
 * @returns {Finding[]}
 */
function planned(tables, state) {
  /** @type {Map<string, string[]>} */
  const byCause = new Map();
  for (const line of launcherLines(tables, state)) {
    if (line.status !== "planned") continue;
    const cause = line.fields.length > 0 ? line.fields[0] : "model";
    const name = tables.data.flags[line.flag].runs && !line.literal ? line.text : line.flag;
    const flags = byCause.get(cause) ?? [];
    if (!flags.includes(name)) flags.push(name);
    byCause.set(cause, flags);
  }
  /** @type {Finding[]} */
  const found = [];
  for (const choice of tables.data.fields) {
    const flags = byCause.get(choice.name);
    if (flags === undefined) continue;
    const slots = {
      choice: describeChoice(tables, choice, state[choice.name]),
      flags: flags.slice(0, SHOWN_FLAGS).join(", "),
      more: flags.length - SHOWN_FLAGS,
    };
    const message = tables.data.messages[flags.length <= SHOWN_FLAGS ? "R01" : "R01_more"];
    found.push({
      id: "R01",
      severity: "planned",
      fields: [choice.name],
      message: fill(message, slots),
      repairs: [],
      repair_note: null,
      docs: null,
    });
  }
  return found;
}
