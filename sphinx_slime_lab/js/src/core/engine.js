// @ts-check
/**
 * The engine of the page: the same questions and the same answers, to the byte, as `slime.experiment.Catalog`.
 * No DOM here. `createEngine(catalog)` takes what `Catalog.to_json()` gave; every method is a pure function.
 */

import { environmentLines, launcherLines } from "./argument_table.js";
import { artifacts } from "./artifacts.js";
import { change, defaults, preset, sanitise } from "./choices.js";
import { compare } from "./comparison.js";
import { test } from "./expression.js";
import { load } from "./importing.js";
import { layout } from "./layout.js";
import { memory } from "./memory.js";
import { preview, validate } from "./repairs.js";
import { receive, share } from "./sharing.js";
import { createTables, namesOf } from "./tables.js";

/** @typedef {import("./tables.js").State} State */
/** @typedef {import("./tables.js").Scalar} Scalar */

const FORMAT = 1;

/**
 * Which choices are visible and which values are disabled.
 * @param {import("./tables.js").Tables} tables
 * @param {State} state
 */
function view(tables, state) {
  const names = namesOf(tables, state);
  /** @type {string[]} */
  const visible = [];
  /** @type {{field: string, value: Scalar, why: import("./texts.js").Text}[]} */
  const disabled = [];
  for (const field of tables.data.fields) {
    if (test(field.visible, names)) visible.push(field.name);
    for (const option of field.options) {
      if (test(option.when, names)) disabled.push({ field: field.name, value: option.value, why: option.why });
    }
  }
  return { visible, disabled };
}

/**
 * @param {any} catalog what `Catalog.to_json()` gave
 */
export function createEngine(catalog) {
  if (catalog.format !== FORMAT) throw new Error(`catalogue format ${catalog.format} is unknown; expected ${FORMAT}`);
  const tables = createTables(catalog);
  return {
    tables,
    defaults: () => defaults(tables),
    sanitise: (/** @type {any} */ raw) => sanitise(tables, raw),
    change: (/** @type {State} */ state, /** @type {string} */ field, /** @type {any} */ value) =>
      change(tables, state, field, value),
    preset: (/** @type {string} */ id) => preset(tables, id),
    view: (/** @type {State} */ state) => view(tables, state),
    validate: (/** @type {State} */ state) => validate(tables, state),
    repair: (/** @type {State} */ state, /** @type {string} */ finding, /** @type {string} */ repair) =>
      preview(tables, state, finding, repair),
    compare: (/** @type {State} */ a, /** @type {State} */ b) => compare(tables, a, b),
    load: (/** @type {string} */ text) => load(tables, text),
    share: (/** @type {State} */ state, /** @type {State | null} */ a = null) => share(tables, state, a),
    receive: (/** @type {string} */ link) => receive(tables, link),
    layout: (/** @type {State} */ state) => layout(tables, state),
    memory: (/** @type {State} */ state) => memory(tables, state),
    arguments: (/** @type {State} */ state) => launcherLines(tables, state),
    environment: (/** @type {State} */ state) => environmentLines(tables, state),
    artifacts: (/** @type {State} */ state, /** @type {any} */ provenance = null) =>
      artifacts(tables, state, provenance),
  };
}
