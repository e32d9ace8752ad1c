// @ts-check
/** A against B; twin of `slime/experiment/comparison.py`. */

import { conversionLines, environmentLines, launcherLines, referenceLines } from "./argument_table.js";
import { artifacts } from "./artifacts.js";
import { change } from "./choices.js";
import { namesOf } from "./tables.js";
import { accounting, findings } from "./validation.js";

/** @typedef {import("./tables.js").Tables} Tables */
/** @typedef {import("./tables.js").State} State */
/** @typedef {import("./tables.js").Scalar} Scalar */
/** @typedef {import("./texts.js").Text} Text */
/** @typedef {import("./validation.js").Finding} Finding */
/** @typedef {{name: string, text: string, why: Text, fields: string[]}} Line */
/**
 * @typedef {object} LineDifference
 * @property {string} part
 * @property {"added" | "removed" | "changed"} kind
 * @property {string} name the flag or variable
 * @property {string | null} a
 * @property {string | null} b
 * @property {Text} why
 * @property {string[]} fields
 */

/**
 * Everything that a page shows of A against B. Steps without a difference are left out.
 * @param {Tables} tables
 * @param {State} a the experiment that was put aside
 * @param {State} b the one that is edited
 */
export function compare(tables, a, b) {
  const { fields, steps } = tables.data;
  /** @type {any[]} */
  const differing = fields.filter((/** @type {any} */ choice) => a[choice.name] !== b[choice.name]);
  const causes = causesOf(tables, a, b, differing.map((choice) => choice.name));
  const found = differing.map((choice) => difference(tables, choice, a, b, causes));
  return {
    steps: steps
      .map((/** @type {any} */ step) => ({
        step: step.id,
        label: step.label,
        differences: found.filter((one) => one.step === step.id),
      }))
      .filter((/** @type {any} */ step) => step.differences.length > 0),
    lines: linesOf(tables, a, b),
    files: filesOf(tables, a, b),
    findings: findingsOf(tables, a, b),
    totals: { a: accounting(tables, namesOf(tables, a)), b: accounting(tables, namesOf(tables, b)) },
  };
}

/**
 * The choices whose values differ, in order.
 * @param {Tables} tables
 * @param {State} before
 * @param {State} after
 * @returns {{field: string, before: Scalar, after: Scalar}[]}
 */
export function differences(tables, before, after) {
  return tables.data.fields
    .filter((/** @type {any} */ { name }) => before[name] !== after[name])
    .map((/** @type {any} */ { name }) => ({ field: name, before: before[name], after: after[name] }));
}

/**
 * A value in words; an empty text is said to be empty.
 * @param {Tables} tables
 * @param {any} choice
 * @param {Scalar} value
 * @returns {Text}
 */
export function showValue(tables, choice, value) {
  const { messages } = tables.data;
  if (choice.type === "enum") return choice.values.find((/** @type {any} */ one) => one.value === value).label;
  if (choice.type === "bool") return messages[value ? "on" : "off"];
  return value === "" ? messages.empty : { zh: String(value), en: String(value) };
}

/**
 * For each difference that another one brings along: that other one, and the sentence about it.
 * @param {Tables} tables
 * @param {State} a
 * @param {State} b
 * @param {string[]} names
 */
function causesOf(tables, a, b, names) {
  /** @type {Map<string, {follows: string, because: Text}>} */
  const causes = new Map();
  for (const name of names) {
    for (const link of change(tables, a, name, b[name]).linked) {
      const isTaken = causes.has(link.field) || causes.get(name)?.follows === link.field;
      if (names.includes(link.field) && link.field !== name && link.after === b[link.field] && !isTaken) {
        causes.set(link.field, { follows: name, because: link.announce });
      }
    }
  }
  return causes;
}

/**
 * @param {Tables} tables
 * @param {any} choice
 * @param {State} a
 * @param {State} b
 * @param {Map<string, {follows: string, because: Text}>} causes
 */
function difference(tables, choice, a, b, causes) {
  const left = a[choice.name];
  const right = b[choice.name];
  return {
    field: choice.name,
    step: choice.step,
    label: choice.label,
    a: left,
    b: right,
    shown_a: showValue(tables, choice, left),
    shown_b: showValue(tables, choice, right),
    private: !choice.share,
    follows: causes.get(choice.name)?.follows ?? null,
    because: causes.get(choice.name)?.because ?? null,
  };
}

/**
 * @param {Tables} tables
 * @param {State} a
 * @param {State} b
 * @returns {LineDifference[]}
 */
function linesOf(tables, a, b) {
  const flags = (/** @type {any[]} */ lines) => lines.map((one) => ({ ...one, name: one.flag }));
  const reference = (/** @type {string} */ role) => (/** @type {State} */ state) => {
    const roles = state.layout !== "external" ? [] : state.pd ? ["prefill", "decode"] : ["regular"];
    return roles.includes(role) ? flags(referenceLines(tables, state, role)) : [];
  };
  /** @type {Record<string, (state: State) => Line[]>} */
  const parts = {
    train: (state) => flags(launcherLines(tables, state)),
    environment: (state) => environmentLines(tables, state),
    convert: (state) => flags(conversionLines(tables, state)),
    regular: reference("regular"),
    prefill: reference("prefill"),
    decode: reference("decode"),
  };
  return Object.entries(parts).flatMap(([part, lines]) => pair(part, lines(a), lines(b)));
}

/**
 * Lines by name and the how-manieth of that name.
 * @param {Line[]} lines
 */
function numbered(lines) {
  /** @type {Map<string, number>} */
  const counts = new Map();
  /** @type {Map<string, Line>} */
  const found = new Map();
  for (const line of lines) {
    const count = (counts.get(line.name) ?? 0) + 1;
    counts.set(line.name, count);
    found.set(`${line.name} ${count}`, line);
  }
  return found;
}

/**
 * Removed lines in A's order, then added and changed lines in B's order.
 * @param {string} part
 * @param {Line[]} a
 * @param {Line[]} b
 * @returns {LineDifference[]}
 */
function pair(part, a, b) {
  const left = numbered(a);
  const right = numbered(b);
  /** @type {LineDifference[]} */
  const pairs = [];
  for (const [key, { name, text, why, fields }] of left) {
    if (!right.has(key)) pairs.push({ part, kind: "removed", name, a: text, b: null, why, fields });
  }
  for (const [key, { name, text, why, fields }] of right) {
    const old = left.get(key);
    if (old === undefined) pairs.push({ part, kind: "added", name, a: null, b: text, why, fields });
    else if (old.text !== text) pairs.push({ part, kind: "changed", name, a: old.text, b: text, why, fields });
  }
  return pairs;
}

/**
 * Every file that either side has; experiment.json is the record itself and is left out.
 * @param {Tables} tables
 * @param {State} a
 * @param {State} b
 */
function filesOf(tables, a, b) {
  const left = artifacts(tables, a, null);
  const right = artifacts(tables, b, null);
  return [...new Set([...Object.keys(left), ...Object.keys(right)])]
    .filter((name) => name !== "experiment.json")
    .map((name) => ({ name, in_a: name in left, in_b: name in right, same: left[name] === right[name] }));
}

/**
 * Findings of B in its order, then those that only A has. One finding is its id, severity and choices.
 * @param {Tables} tables
 * @param {State} a
 * @param {State} b
 */
function findingsOf(tables, a, b) {
  const left = findings(tables, a);
  const right = findings(tables, b);
  const partner = (/** @type {Finding[]} */ all, /** @type {Finding} */ one) =>
    all.find((other) => other.id === one.id && other.severity === one.severity && String(other.fields) === String(one.fields));
  const entry = (/** @type {Finding} */ one, /** @type {Text | null} */ inA, /** @type {Text | null} */ inB) => ({
    id: one.id,
    severity: one.severity,
    fields: one.fields,
    a: inA,
    b: inB,
  });
  return [
    ...right.map((one) => entry(one, partner(left, one)?.message ?? null, one.message)),
    ...left.filter((one) => partner(right, one) === undefined).map((one) => entry(one, one.message, null)),
  ];
}
