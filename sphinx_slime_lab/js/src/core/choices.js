// @ts-check
/** From outside input to a state, and from one state to the next; twin of `slime/experiment/choices.py`. */

import { ChoiceError, ExpressionError } from "./errors.js";
import { evaluate, test } from "./expression.js";
import { namesOf } from "./tables.js";
import { byCodePoint, clean, fill, isWellFormed, nearest, shorten } from "./texts.js";

/** @typedef {import("./tables.js").Tables} Tables */
/** @typedef {import("./tables.js").State} State */
/** @typedef {import("./tables.js").Scalar} Scalar */
/** @typedef {import("./texts.js").Text} Text */
/** @typedef {{key: string, kind: string, reason: Text, nearest: string | null}} Ignored */
/** @typedef {{field: string, before: Scalar, after: Scalar, announce: Text}} Linked */
/** @typedef {{ok: true, value: Scalar} | {ok: false, reason: Text, nearest: string | null}} Read */

/** Foreign keys that are named one by one: finding the nearest name takes time, and nobody reads thousands. */
const MAXIMUM_FOREIGN = 64;

/**
 * The key of the sentence that says what a foreign value is.
 * @param {any} value
 */
export function kindOf(value) {
  if (value === null || value === undefined) return "kind_null";
  if (typeof value === "boolean") return "kind_bool";
  if (typeof value === "number") {
    if (!Number.isInteger(value)) return "kind_number";
    return Number.isSafeInteger(value) ? "kind_int" : "kind_huge";
  }
  if (typeof value === "string") return "kind_text";
  return Array.isArray(value) ? "kind_list" : "kind_mapping";
}

/** @param {any} value */
export function isMapping(value) {
  return kindOf(value) === "kind_mapping";
}

/**
 * A value as this choice stores it, or why it cannot.
 * @param {Tables} tables
 * @param {any} choice
 * @param {any} value
 * @returns {Read}
 */
export function readValue(tables, choice, value) {
  const messages = tables.data.messages;
  const wanted = { enum: "kind_text", text: "kind_text", bool: "kind_bool", int: "kind_int" }[
    /** @type {"enum" | "text" | "bool" | "int"} */ (choice.type)
  ];
  const got = kindOf(value);
  if (got !== wanted) {
    const slots = { key: choice.name, wanted: messages[wanted], got: messages[got] };
    return { ok: false, reason: fill(messages.wrong_type, slots), nearest: null };
  }
  if (choice.type === "bool") return { ok: true, value };
  if (choice.type === "int") return readInt(messages, choice, value === 0 ? 0 : value);
  return choice.type === "text" ? readText(messages, choice, value) : readEnum(messages, choice, value);
}

/**
 * @param {any} messages
 * @param {any} choice
 * @param {number} value
 * @returns {Read}
 */
function readInt(messages, choice, value) {
  if (choice.minimum <= value && value <= choice.maximum) return { ok: true, value };
  const slots = { key: choice.name, got: value, minimum: choice.minimum, maximum: choice.maximum };
  const close = Math.min(Math.max(value, choice.minimum), choice.maximum);
  return { ok: false, reason: fill(messages.out_of_range, slots), nearest: String(close) };
}

/**
 * @param {any} messages
 * @param {any} choice
 * @param {string} value
 * @returns {Read}
 */
function readEnum(messages, choice, value) {
  const legal = choice.values.map((/** @type {any} */ one) => one.value);
  if (legal.includes(value)) return { ok: true, value };
  const slots = { key: choice.name, got: shorten(value), wanted: legal.join(", ") };
  return { ok: false, reason: fill(messages.not_a_value, slots), nearest: nearest(value, legal) };
}

/**
 * @param {any} messages
 * @param {any} choice
 * @param {string} value
 * @returns {Read}
 */
function readText(messages, choice, value) {
  if (!isWellFormed(value)) return { ok: false, reason: fill(messages.malformed, { key: choice.name }), nearest: null };
  const text = clean(value);
  const length = [...text].length;
  if (length <= choice.max_length) return { ok: true, value: text };
  const slots = { key: choice.name, got: length, maximum: choice.max_length };
  return { ok: false, reason: fill(messages.too_long, slots), nearest: null };
}

/**
 * The starting state.
 * @param {Tables} tables
 * @returns {State}
 */
export function defaults(tables) {
  /** @type {State} */
  const state = {};
  for (const choice of tables.data.fields) state[choice.name] = choice.default;
  return Object.assign(state, tables.data.models[/** @type {string} */ (state.model)].defaults);
}

/**
 * The choices inside an `experiment.json` (schema 1 or 2), or the input itself.
 * @param {Tables} tables
 * @param {any} raw
 * @returns {[any, Ignored[]]}
 */
export function unwrap(tables, raw) {
  if (!isMapping(raw) || !Object.hasOwn(raw, "schema")) return [raw, []];
  const messages = tables.data.messages;
  if (raw.schema === 1 || raw.schema === 2) {
    if (Object.hasOwn(raw, "choices")) return [raw.choices, []];
    const near = nearest("choices", Object.keys(raw).sort(byCodePoint));
    const reason = near === null ? messages.no_choices : fill(messages.no_choices_near, { near: shorten(near) });
    return [{}, [{ key: "choices", kind: "invalid", reason, nearest: null }]];
  }
  const kind = kindOf(raw.schema);
  const got = kind === "kind_int" ? String(raw.schema === 0 ? 0 : raw.schema) : messages[kind];
  return [{}, [{ key: "schema", kind: "invalid", reason: fill(messages.schema, { got }), nearest: null }]];
}

/**
 * Read outside input. Never throws; every key that did not arrive as written is in `ignored`.
 * @param {Tables} tables
 * @param {any} raw
 * @returns {{state: State, ignored: Ignored[]}}
 */
export function sanitise(tables, raw) {
  const messages = tables.data.messages;
  const [choices, ignored] = unwrap(tables, raw);
  let state = defaults(tables);
  if (!isMapping(choices)) {
    const reason = fill(messages.not_mapping, { got: messages[kindOf(choices)] });
    return { state, ignored: [...ignored, { key: "", kind: "invalid", reason, nearest: null }] };
  }
  /** @type {Map<string, any>} */
  const given = new Map();
  for (const name of tables.byName.keys()) if (Object.hasOwn(choices, name)) given.set(name, choices[name]);
  const model = given.get("model");
  if (typeof model === "string") {
    const known = Object.hasOwn(tables.data.legacy, model) ? tables.data.legacy[model] : model;
    given.set("model", known);
    if (Object.hasOwn(tables.data.models, known)) state = change(tables, state, "model", known).state;
  }
  for (const choice of tables.data.fields) {
    if (given.has(choice.name)) take(tables, choice, given.get(choice.name), state, ignored);
  }
  ignored.push(...foreignKeys(tables, Object.keys(choices).filter((key) => !tables.byName.has(key))));
  for (const link of normalise(tables, state)) {
    ignored.push({ key: link.field, kind: "reset", reason: link.announce, nearest: null });
  }
  return { state, ignored };
}

/**
 * @param {Tables} tables
 * @param {any} choice
 * @param {any} value
 * @param {State} state
 * @param {Ignored[]} ignored
 */
function take(tables, choice, value, state, ignored) {
  const read = readValue(tables, choice, value);
  if (!read.ok) {
    ignored.push({ key: choice.name, kind: "invalid", reason: read.reason, nearest: read.nearest });
    return;
  }
  state[choice.name] = read.value;
  if (choice.type === "text" && read.value !== value) {
    const reason = fill(tables.data.messages.cleaned, { key: choice.name });
    ignored.push({ key: choice.name, kind: "cleaned", reason, nearest: null });
  }
}

/**
 * @param {Tables} tables
 * @param {string[]} keys
 * @returns {Ignored[]}
 */
function foreignKeys(tables, keys) {
  const found = keys.sort(byCodePoint).slice(0, MAXIMUM_FOREIGN).map((key) => {
    const retired = tables.data.retired.find((/** @type {any} */ one) => one.name === key);
    if (retired !== undefined) return { key, kind: "retired", reason: retired.why, nearest: null };
    const reason = fill(tables.data.messages.unknown, { key: shorten(key) });
    return { key: shorten(key), kind: "unknown", reason, nearest: nearest(key, tables.byName.keys()) };
  });
  const more = keys.length - MAXIMUM_FOREIGN;
  if (more > 0) {
    const reason = fill(tables.data.messages.more_unknown, { more });
    found.push({ key: "…", kind: "unknown", reason, nearest: null });
  }
  return found;
}

/**
 * One edit and what follows from it. Throws `ChoiceError`; the old state is not modified.
 * @param {Tables} tables
 * @param {State} state
 * @param {string} name
 * @param {any} value
 * @returns {{state: State, linked: Linked[]}}
 */
export function change(tables, state, name, value) {
  const messages = tables.data.messages;
  const choice = tables.byName.get(name);
  if (choice === undefined) {
    const reason = fill(messages.unknown, { key: shorten(name) });
    throw new ChoiceError(name, reason, nearest(name, tables.byName.keys()));
  }
  const read = readValue(tables, choice, value);
  if (!read.ok) throw new ChoiceError(name, read.reason, read.nearest);
  const before = state[name];
  const after = { ...state };
  if (read.value === before) return { state: after, linked: [] };
  after[name] = read.value;
  /** @type {Linked[]} */
  const linked = [];
  if (name === "model") {
    const model = tables.data.models[/** @type {string} */ (read.value)];
    const old = tables.data.models[/** @type {string} */ (before)];
    linked.push(...assign(tables, after, followed(tables, after, old, model), fill(messages.follows_model, model.facts)));
  }
  for (const row of tables.data.transitions) {
    if (row.on === name) linked.push(...apply(tables, after, row, { before }));
  }
  linked.push(...normalise(tables, after));
  return { state: after, linked: merge(linked) };
}

/**
 * The defaults of model `next` that apply when it replaces `old`; a choice with `keep_edited` keeps what was typed.
 * @param {Tables} tables
 * @param {State} state
 * @param {{defaults: State}} old
 * @param {{defaults: State}} next
 * @returns {State}
 */
function followed(tables, state, old, next) {
  const follows = (/** @type {string} */ name) =>
    !tables.byName.get(name).keep_edited || state[name] === old.defaults[name];
  return Object.fromEntries(Object.entries(next.defaults).filter(([name]) => follows(name)));
}

/**
 * Run the `on: sanitise` rows on a state, in place.
 * @param {Tables} tables
 * @param {State} state
 * @returns {Linked[]}
 */
export function normalise(tables, state) {
  /** @type {any[]} */
  const rows = tables.data.transitions.filter((/** @type {any} */ row) => row.on === "sanitise");
  return rows.flatMap((row) => apply(tables, state, row, {}));
}

/**
 * @param {Tables} tables
 * @param {State} state
 * @param {any} row
 * @param {Record<string, any>} extra
 * @returns {Linked[]}
 */
function apply(tables, state, row, extra) {
  const names = namesOf(tables, state, extra);
  if (!test(row.when, names)) return [];
  return assign(tables, state, evaluateSet(tables, row.set, names), fill(row.announce, names));
}

/**
 * The values of a `set` mapping, each legal for its choice. Throws `ExpressionError` with code `range` otherwise.
 * @param {Tables} tables
 * @param {Record<string, any[]>} wanted
 * @param {Record<string, any>} names
 * @returns {State}
 */
export function evaluateSet(tables, wanted, names) {
  /** @type {State} */
  const values = {};
  for (const choice of tables.data.fields) {
    if (!Object.hasOwn(wanted, choice.name)) continue;
    const read = readValue(tables, choice, evaluate(wanted[choice.name], names));
    if (!read.ok) throw new ExpressionError("range", read.reason.en);
    values[choice.name] = read.value;
  }
  return values;
}

/**
 * @param {Tables} tables
 * @param {State} state
 * @param {State} values
 * @param {Text} announce
 * @returns {Linked[]}
 */
function assign(tables, state, values, announce) {
  /** @type {Linked[]} */
  const linked = [];
  for (const { name } of tables.data.fields) {
    if (Object.hasOwn(values, name) && state[name] !== values[name]) {
      linked.push({ field: name, before: state[name], after: values[name], announce });
      state[name] = values[name];
    }
  }
  return linked;
}

/**
 * One entry per choice: from its first value to its last, with the last reason.
 * @param {Linked[]} linked
 */
function merge(linked) {
  /** @type {Map<string, Linked>} */
  const merged = new Map();
  for (const link of linked) {
    const before = merged.has(link.field) ? /** @type {Linked} */ (merged.get(link.field)).before : link.before;
    merged.set(link.field, { ...link, before });
  }
  return [...merged.values()].filter((link) => link.before !== link.after);
}

/**
 * The state of a named starting point. Throws `ChoiceError` for an unknown name.
 * @param {Tables} tables
 * @param {string} id
 * @returns {State}
 */
export function preset(tables, id) {
  const known = tables.data.presets.map((/** @type {any} */ one) => one.id);
  const found = tables.data.presets.find((/** @type {any} */ one) => one.id === id);
  if (found !== undefined) return sanitise(tables, found.set).state;
  const slots = { key: "preset", got: shorten(id), wanted: known.join(", ") };
  throw new ChoiceError("preset", fill(tables.data.messages.not_a_value, slots), nearest(id, known));
}
