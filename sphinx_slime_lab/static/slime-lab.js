/* Built by `python -m sphinx_slime_lab.bundle` from js/src; edit the sources, not this file. */
(() => {
"use strict";

/* core/errors.js */
const m0 = (() => {

class ExpressionError extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

class ChoiceError extends Error {
  constructor(field, reason, nearest) {
    super(reason.en + (nearest === null ? "" : ` Did you mean ${nearest}?`));
    this.field = field;
    this.reason = reason;
    this.nearest = nearest;
  }
}

class LoadError extends Error {
  constructor(reason) {
    super(reason.en);
    this.reason = reason;
  }
}
return { ExpressionError, ChoiceError, LoadError };
})();

/* core/predicates.js */
const m1 = (() => {

const IMPORT_PATH = /^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+$/;
const RUN_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const ENDPOINT =
  /^(https?:\/\/)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*\]):([1-9][0-9]{0,4})$/;
const DECIMAL = /^([0-9]{1,32}(\.[0-9]{1,32})?|\.[0-9]{1,32})([eE][+-]?[0-9]{1,2})?$/;
const DEVICE = /^[A-Za-z0-9][A-Za-z0-9._:-]*$/;

function splitOnSpaces(text) {
  return text.split(" ").filter((part) => part !== "");
}

function isEndpoint(text) {
  const match = ENDPOINT.exec(text);
  return match !== null && Number(match[3]) <= 65535;
}

const PREDICATES = {
  is_absolute_path: (text) => text.startsWith("/"),
  is_import_path: (text) => IMPORT_PATH.test(text),
  is_run_id: (text) => RUN_ID.test(text),
  is_endpoint_list: (text) => {
    const parts = splitOnSpaces(text);
    return parts.length > 0 && parts.every(isEndpoint);
  },
  is_positive_decimal: (text) => DECIMAL.test(text) && /[1-9]/.test(text.split(/[eE]/)[0]),
  is_device_list: (text) => text.split(",").every((part) => DEVICE.test(part)),
};
return { splitOnSpaces, PREDICATES };
})();

/* core/functions.js */
const m2 = (() => {

const { ExpressionError } = m0;
const { PREDICATES, splitOnSpaces } = m1;


function shown(value) {
  return JSON.stringify(value);
}

function wantInt(value) {
  if (typeof value !== "number") throw new ExpressionError("type", `expected an integer, got ${shown(value)}`);
  if (!Number.isSafeInteger(value)) throw new ExpressionError("range", `${value} leaves the range of exact integers`);
  return value === 0 ? 0 : value;
}

function wantText(value) {
  if (typeof value !== "string") throw new ExpressionError("type", `expected a text, got ${shown(value)}`);
  return value;
}

function wantList(value) {
  if (!Array.isArray(value)) throw new ExpressionError("type", `expected a list, got ${shown(value)}`);
  return value;
}

function wantStep(value) {
  const step = wantInt(value);
  if (step <= 0) throw new ExpressionError("zero", `expected a positive integer, got ${step}`);
  return step;
}

function multiple(value, step, half) {
  const whole = wantInt(value);
  const unit = wantStep(step);
  return wantInt(Math.floor(wantInt(whole + half(unit)) / unit) * unit);
}

function roundTo(value, step) {
  const whole = wantInt(value);
  const unit = wantStep(step);
  const doubled = wantInt(2 * whole + unit);
  const twice = wantInt(2 * unit);
  return wantInt(Math.floor(doubled / twice) * unit);
}

function gcd(left, right) {
  let a = wantStep(left);
  let b = wantStep(right);
  while (b > 0) [a, b] = [b, a % b];
  return a;
}

function split(text, separator) {
  if (separator === undefined) return splitOnSpaces(wantText(text));
  if (wantText(separator) === "") throw new ExpressionError("empty", "split needs a separator that is not empty");
  return wantText(text)
    .split(separator)
    .filter((part) => part !== "");
}

function first(values) {
  if (wantList(values).length === 0) throw new ExpressionError("empty", "first of an empty list");
  return values[0];
}

function len(value) {
  return typeof value === "string" ? [...value].length : wantList(value).length;
}

const FUNCTIONS = {
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
  starts_with: [2, 2, (text, start) => wantText(text).startsWith(wantText(start))],
  ends_with: [2, 2, (text, end) => wantText(text).endsWith(wantText(end))],
  ...Object.fromEntries(
    Object.entries(PREDICATES).map(([name, test]) => [
      name,
      /** @type {[number, number, (value: any) => boolean]} */ ([1, 1, (value) => test(wantText(value))]),
    ]),
  ),
};

function call(name, values) {
  const [fewest, most, apply] = FUNCTIONS[name];
  if (values.length < fewest || values.length > most) {
    throw new ExpressionError("arity", `${name} cannot take ${values.length} arguments`);
  }
  return apply(...values);
}
return { wantInt, wantText, wantList, FUNCTIONS, call };
})();

/* core/expression.js */
const m3 = (() => {

const { ExpressionError } = m0;
const { call, FUNCTIONS, wantInt } = m2;


function wantBool(value) {
  if (typeof value !== "boolean") {
    throw new ExpressionError("type", `expected true or false, got ${JSON.stringify(value)}`);
  }
  return value;
}

function same(left, right) {
  return !Array.isArray(left) && left === right;
}

function evaluate(tree, names) {
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

function contains(list, item) {
  if (!Array.isArray(list)) throw new ExpressionError("type", `expected a list, got ${JSON.stringify(list)}`);
  return list.some((one) => same(one, item));
}

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

function test(tree, names) {
  return tree === undefined || wantBool(evaluate(tree, names));
}
return { evaluate, test };
})();

/* core/quoting.js */
const m4 = (() => {

const BARE = /^[A-Za-z0-9_./:=@%+,-]+$/;

function quote(text) {
  return `'${text.replaceAll("'", "'\"'\"'")}'`;
}

function word(value, literal) {
  if (typeof value === "number") return String(value);
  return !literal && BARE.test(value) ? value : quote(value);
}
return { quote, word };
})();

/* core/tables.js */
const m5 = (() => {

const { evaluate } = m3;


function createTables(data) {
  return { data, byName: new Map(data.fields.map((/** @type {any} */ field) => [field.name, field])) };
}

function namesOf(tables, state, extra = {}) {
  const facts = tables.data.models[/** @type {string} */ (state.model)].facts;
  const names = Object.assign(Object.create(null), state, facts, extra);
  for (const derived of tables.data.derived) names[derived.name] = evaluate(derived.value, names);
  return names;
}

function sorted(value) {
  if (Array.isArray(value)) return value.map(sorted);
  if (value === null || typeof value !== "object") return value;
  const keys = Object.keys(value).sort();
  return Object.fromEntries(keys.map((key) => [key, sorted(value[key])]));
}
return { createTables, namesOf, sorted };
})();

/* core/argument_table.js */
const m6 = (() => {

const { ExpressionError } = m0;
const { evaluate, test } = m3;
const { quote, word } = m4;
const { namesOf } = m5;


const DECIMAL = /^[+-]?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?$/;

function isPlanned(status, value) {
  if (!status.runs) return true;
  if (status.only === null) return false;
  if (value === null) return status.switch && !status.only.includes("true");
  return !status.only.some((/** @type {string} */ one) => sameValue(status, value, one));
}

function sameValue(status, left, right) {
  if (left === right) return true;
  return status.numeric && DECIMAL.test(left) && DECIMAL.test(right) && Number(left) === Number(right);
}

function launcherLines(tables, state) {
  return lines(tables, state, ["train", "serving"], "train");
}

function conversionLines(tables, state) {
  return lines(tables, state, ["convert"], "train");
}

function referenceLines(tables, state, role) {
  return lines(tables, state, ["serving", "reference"], role);
}

function environmentLines(tables, state) {
  const names = namesOf(tables, state, { role: "train" });
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

function assignment(row, names) {
  return quote(`${row.name}=${scalar(evaluate(row.value, names), row.name)}`);
}

function scalar(value, owner) {
  if (typeof value !== "string" && typeof value !== "number") {
    throw new ExpressionError("type", `${owner} needs a text or an integer, got ${JSON.stringify(value)}`);
  }
  return String(value);
}

function lines(tables, state, targets, role) {
  const names = namesOf(tables, state, { role });
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

function rowWords(row, names) {
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

function line(tables, row, flag, words, why, literal, role) {
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
return { launcherLines, conversionLines, referenceLines, environmentLines };
})();

/* core/texts.js */
const m7 = (() => {


const SLOT = /\{([A-Za-z][A-Za-z0-9_]*)\}/g;
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
const LONE_SURROGATE = /[\ud800-\udfff]/gu;
const SHOWN_CHARACTERS = 64;

function show(value) {
  return Array.isArray(value) ? value.map(show).join(", ") : String(value);
}

function fill(template, slots) {
  const one = (language) =>
    template[language].replace(SLOT, (written, name) => {
      if (!Object.hasOwn(slots, name)) return written;
      const value = slots[name];
      const isText = value !== null && typeof value === "object" && !Array.isArray(value);
      return isText ? value[language] : show(value);
    });
  return { zh: one("zh"), en: one("en") };
}

function isWellFormed(text) {
  return text.search(LONE_SURROGATE) < 0;
}

function clean(text) {
  const kept = text.replace(CONTROL, "");
  let start = 0;
  let end = kept.length;
  while (start < end && kept[start] === " ") start += 1;
  while (end > start && kept[end - 1] === " ") end -= 1;
  return kept.slice(start, end);
}

function shorten(text) {
  const safe = [...clean(text.replace(LONE_SURROGATE, "\ufffd"))];
  return safe.length <= SHOWN_CHARACTERS ? safe.join("") : `${safe.slice(0, SHOWN_CHARACTERS).join("")}…`;
}

function lowerAscii(text) {
  return text.replace(/[A-Z]/g, (letter) => letter.toLowerCase());
}

function editDistance(left, right) {
  let before = [];
  let above = Array.from({ length: right.length + 1 }, (_, index) => index);
  for (let i = 1; i <= left.length; i += 1) {
    const row = [i];
    for (let j = 1; j <= right.length; j += 1) {
      let best = Math.min(above[j] + 1, row[j - 1] + 1, above[j - 1] + (left[i - 1] === right[j - 1] ? 0 : 1));
      if (i > 1 && j > 1 && left[i - 1] === right[j - 2] && left[i - 2] === right[j - 1]) {
        best = Math.min(best, before[j - 2] + 1);
      }
      row.push(best);
    }
    [before, above] = [above, row];
  }
  return above[right.length];
}

function nearest(name, known) {
  const wanted = [...lowerAscii(shorten(name))];
  let allowed = wanted.length <= 3 ? 1 : wanted.length <= 7 ? 2 : 3;
  let best = null;
  for (const candidate of known) {
    const distance = editDistance(wanted, [...lowerAscii(candidate)]);
    if (distance <= allowed) {
      best = candidate;
      allowed = distance - 1;
    }
  }
  return best;
}

function byCodePoint(left, right) {
  const a = [...left];
  const b = [...right];
  for (let index = 0; index < Math.min(a.length, b.length); index += 1) {
    const difference = /** @type {number} */ (a[index].codePointAt(0)) - /** @type {number} */ (b[index].codePointAt(0));
    if (difference !== 0) return difference;
  }
  return a.length - b.length;
}
return { show, fill, isWellFormed, clean, shorten, nearest, byCodePoint };
})();

/* core/choices.js */
const m8 = (() => {

const { ChoiceError, ExpressionError } = m0;
const { evaluate, test } = m3;
const { namesOf } = m5;
const { byCodePoint, clean, fill, isWellFormed, nearest, shorten } = m7;


const MAXIMUM_FOREIGN = 64;

function kindOf(value) {
  if (value === null || value === undefined) return "kind_null";
  if (typeof value === "boolean") return "kind_bool";
  if (typeof value === "number") {
    if (!Number.isInteger(value)) return "kind_number";
    return Number.isSafeInteger(value) ? "kind_int" : "kind_huge";
  }
  if (typeof value === "string") return "kind_text";
  return Array.isArray(value) ? "kind_list" : "kind_mapping";
}

function isMapping(value) {
  return kindOf(value) === "kind_mapping";
}

function readValue(tables, choice, value) {
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

function readInt(messages, choice, value) {
  if (choice.minimum <= value && value <= choice.maximum) return { ok: true, value };
  const slots = { key: choice.name, got: value, minimum: choice.minimum, maximum: choice.maximum };
  const close = Math.min(Math.max(value, choice.minimum), choice.maximum);
  return { ok: false, reason: fill(messages.out_of_range, slots), nearest: String(close) };
}

function readEnum(messages, choice, value) {
  const legal = choice.values.map((/** @type {any} */ one) => one.value);
  if (legal.includes(value)) return { ok: true, value };
  const slots = { key: choice.name, got: shorten(value), wanted: legal.join(", ") };
  return { ok: false, reason: fill(messages.not_a_value, slots), nearest: nearest(value, legal) };
}

function readText(messages, choice, value) {
  if (!isWellFormed(value)) return { ok: false, reason: fill(messages.malformed, { key: choice.name }), nearest: null };
  const text = clean(value);
  const length = [...text].length;
  if (length <= choice.max_length) return { ok: true, value: text };
  const slots = { key: choice.name, got: length, maximum: choice.max_length };
  return { ok: false, reason: fill(messages.too_long, slots), nearest: null };
}

function defaults(tables) {
  const state = {};
  for (const choice of tables.data.fields) state[choice.name] = choice.default;
  return Object.assign(state, tables.data.models[/** @type {string} */ (state.model)].defaults);
}

function unwrap(tables, raw) {
  if (!isMapping(raw) || !Object.hasOwn(raw, "schema")) return [raw, []];
  if (raw.schema === 1 || raw.schema === 2) return [Object.hasOwn(raw, "choices") ? raw.choices : null, []];
  const messages = tables.data.messages;
  const kind = kindOf(raw.schema);
  const got = kind === "kind_int" ? String(raw.schema === 0 ? 0 : raw.schema) : messages[kind];
  return [{}, [{ key: "schema", kind: "invalid", reason: fill(messages.schema, { got }), nearest: null }]];
}

function sanitise(tables, raw) {
  const messages = tables.data.messages;
  const [choices, ignored] = unwrap(tables, raw);
  let state = defaults(tables);
  if (!isMapping(choices)) {
    const reason = fill(messages.not_mapping, { got: messages[kindOf(choices)] });
    return { state, ignored: [...ignored, { key: "", kind: "invalid", reason, nearest: null }] };
  }
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

function change(tables, state, name, value) {
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

function followed(tables, state, old, next) {
  const follows = (/** @type {string} */ name) =>
    !tables.byName.get(name).keep_edited || state[name] === old.defaults[name];
  return Object.fromEntries(Object.entries(next.defaults).filter(([name]) => follows(name)));
}

function normalise(tables, state) {
  const rows = tables.data.transitions.filter((/** @type {any} */ row) => row.on === "sanitise");
  return rows.flatMap((row) => apply(tables, state, row, {}));
}

function apply(tables, state, row, extra) {
  const names = namesOf(tables, state, extra);
  if (!test(row.when, names)) return [];
  return assign(tables, state, evaluateSet(tables, row.set, names), fill(row.announce, names));
}

function evaluateSet(tables, wanted, names) {
  const values = {};
  for (const choice of tables.data.fields) {
    if (!Object.hasOwn(wanted, choice.name)) continue;
    const read = readValue(tables, choice, evaluate(wanted[choice.name], names));
    if (!read.ok) throw new ExpressionError("range", read.reason.en);
    values[choice.name] = read.value;
  }
  return values;
}

function assign(tables, state, values, announce) {
  const linked = [];
  for (const { name } of tables.data.fields) {
    if (Object.hasOwn(values, name) && state[name] !== values[name]) {
      linked.push({ field: name, before: state[name], after: values[name], announce });
      state[name] = values[name];
    }
  }
  return linked;
}

function merge(linked) {
  const merged = new Map();
  for (const link of linked) {
    const before = merged.has(link.field) ? /** @type {Linked} */ (merged.get(link.field)).before : link.before;
    merged.set(link.field, { ...link, before });
  }
  return [...merged.values()].filter((link) => link.before !== link.after);
}

function preset(tables, id) {
  const known = tables.data.presets.map((/** @type {any} */ one) => one.id);
  const found = tables.data.presets.find((/** @type {any} */ one) => one.id === id);
  if (found !== undefined) return sanitise(tables, found.set).state;
  const slots = { key: "preset", got: shorten(id), wanted: known.join(", ") };
  throw new ChoiceError("preset", fill(tables.data.messages.not_a_value, slots), nearest(id, known));
}
return { kindOf, isMapping, readValue, defaults, unwrap, sanitise, change, normalise, evaluateSet, preset };
})();

/* core/validation.js */
const m9 = (() => {

const { launcherLines } = m6;
const { evaluate, test } = m3;
const { namesOf } = m5;
const { fill } = m7;


const SHOWN_FLAGS = 3;

function accounting(tables, names) {
  return Object.fromEntries(tables.data.accounting.map((/** @type {string} */ name) => [name, names[name]]));
}

function findings(tables, state) {
  return [...ruleFindings(tables, state), ...planned(tables, state)];
}

function ruleFindings(tables, state) {
  const names = namesOf(tables, state);
  const found = [];
  for (const rule of tables.data.rules) {
    for (const name of rule.each.length > 0 ? rule.each : [null]) {
      const finding = judge(tables, rule, state, names, name);
      if (finding !== null) found.push(finding);
    }
  }
  return found;
}

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

function describeChoice(tables, choice, value) {
  if (choice.type === "text") return choice.label;
  let shown = { zh: String(value), en: String(value) };
  if (choice.type === "enum") shown = choice.values.find((/** @type {any} */ one) => one.value === value).label;
  if (choice.type === "bool") shown = tables.data.messages[value ? "on" : "off"];
  return { zh: `${choice.label.zh}：${shown.zh}`, en: `${choice.label.en}: ${shown.en}` };
}

function planned(tables, state) {
  const byCause = new Map();
  for (const line of launcherLines(tables, state)) {
    if (line.status !== "planned") continue;
    const cause = line.fields.length > 0 ? line.fields[0] : "model";
    const name = tables.data.flags[line.flag].runs && !line.literal ? line.text : line.flag;
    const flags = byCause.get(cause) ?? [];
    if (!flags.includes(name)) flags.push(name);
    byCause.set(cause, flags);
  }
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
return { accounting, findings, ruleFindings, describeChoice };
})();

/* core/repairs.js */
const m10 = (() => {

const { evaluateSet, normalise } = m8;
const { ChoiceError, ExpressionError } = m0;
const { test } = m3;
const { namesOf } = m5;
const { fill, nearest } = m7;
const { accounting, findings, ruleFindings } = m9;


function validate(tables, state) {
  const plain = findings(tables, state);
  const names = namesOf(tables, state);
  return {
    findings: plain.map((finding) => withRepairs(tables, state, plain, finding, names)),
    accounting: accounting(tables, names),
  };
}

function rowsOf(tables, id) {
  return tables.data.rules.find((/** @type {any} */ rule) => rule.id === id)?.repair ?? [];
}

function withRepairs(tables, state, plain, finding, names) {
  const rows = rowsOf(tables, finding.id).filter((row) => test(row.when, names));
  if (rows.length === 0) return finding;
  const works = rows.filter((row) => attempt(tables, state, plain, finding.id, row, names) !== null);
  const repairs = works.map((row) => ({ id: row.id, title: fill(row.title, names) }));
  return { ...finding, repairs, repair_note: works.length > 0 ? null : tables.data.messages.no_repair };
}

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

function preview(tables, state, findingId, repairId) {
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
return { validate, preview };
})();

/* core/artifacts.js */
const m11 = (() => {

const { conversionLines, environmentLines, launcherLines, referenceLines } = m6;
const { evaluate, test } = m3;
const { word } = m4;
const { validate } = m10;
const { namesOf, sorted } = m5;
const { show } = m7;


const SLOT = /@([A-Z][A-Z0-9_]*)@/g;
const BLOCK_LINE = /^[ \t]*@([A-Z][A-Z0-9_]*)@$/;
const SCHEMA = 2;

function artifacts(tables, state, provenance) {
  const validation = validate(tables, state);
  const writer = createWriter(tables, state, validation, provenance);
  const files = { "experiment.sh": writer.script("experiment.sh.in") };
  const sglang = writer.block("SGLANG_YAML");
  if (sglang.length > 0) files["sglang.yaml"] = sglang.map((line) => `${line}\n`).join("");
  if (state.layout === "external") files["serving-reference.sh"] = writer.script("serving-reference.sh.in");
  files["experiment.json"] = experimentJson(tables, state, validation, provenance);
  return files;
}

function commitText(provenance) {
  if (provenance === null || provenance === undefined || provenance.commit === null) return "unknown";
  return provenance.commit + (provenance.dirty === true ? " (modified)" : "");
}

function experimentJson(tables, state, validation, provenance) {
  const ids = (severity) =>
    validation.findings
      .filter((/** @type {any} */ finding) => finding.severity === severity)
      .map((/** @type {any} */ finding) => finding.id);
  const model = /** @type {string} */ (state.model);
  const record = {
    schema: SCHEMA,
    generator: "slime lab",
    choices: Object.fromEntries(tables.data.fields.map((/** @type {any} */ { name }) => [name, state[name]])),
    model: tables.data.models[model].facts.display,
    validation: {
      errors: ids("error"),
      notes: ids("note"),
      planned: ids("planned"),
      accounting: validation.accounting,
    },
    provenance: selectSources(provenance, model),
  };
  return `${JSON.stringify(record, null, 2)}\n`;
}

function selectSources(provenance, model) {
  if (provenance === null || provenance === undefined) return null;
  const sources = provenance.sources.filter((/** @type {any} */ one) => one.model === null || one.model === model);
  return sorted({ ...provenance, sources });
}

function createWriter(tables, state, validation, provenance) {
  const { data } = tables;
  const names = namesOf(tables, state, { role: "train" });

  const builtIn = {
    TRAIN_ARGUMENTS: () => grouped(data.groups, launcherLines(tables, state)),
    CONVERT_ARGUMENTS: () => grouped(data.groups, conversionLines(tables, state)),
    SERVING_ARGUMENTS: () => indented(referenceLines(tables, state, state.pd ? "prefill" : "regular")),
    DECODE_ARGUMENTS: () => (state.pd ? indented(referenceLines(tables, state, "decode")) : []),
    ENVIRONMENT: () => indented(environmentLines(tables, state)),
    PLANNED: () =>
      validation.findings
        .filter((/** @type {any} */ finding) => finding.severity === "planned")
        .map((/** @type {any} */ finding) => `# planned: ${finding.message.en}`),
  };

  function block(name) {
    if (Object.hasOwn(builtIn, name)) return builtIn[name]();
    const parts = Object.hasOwn(data.blocks, name) ? data.blocks[name] : [];
    return parts
      .filter((/** @type {any} */ part) => test(part.when, names))
      .flatMap((/** @type {any} */ part) => expand(part.text));
  }

  function expand(text) {
    let end = text.length;
    while (end > 0 && text[end - 1] === "\n") end -= 1;
    return text
      .slice(0, end)
      .split("\n")
      .flatMap((line) => {
        const match = BLOCK_LINE.exec(line);
        const isBlock = match !== null && (Object.hasOwn(builtIn, match[1]) || Object.hasOwn(data.blocks, match[1]));
        return isBlock ? block(match[1]) : [line.replace(SLOT, (written, name) => slot(name, written))];
      });
  }

  function slot(name, written) {
    if (name === "COMMIT") return commitText(provenance);
    if (!Object.hasOwn(data.slots, name)) return written;
    const { value: tree, as, literal } = data.slots[name];
    const value = evaluate(tree, names);
    if (as === "plain") return show(value);
    return word(typeof value === "number" ? value : show(value), literal);
  }

  function script(template) {
    return expand(data.templates[template])
      .map((line) => `${line}\n`)
      .join("");
  }

  return { block, script };
}

function indented(lines) {
  return lines.map((line) => `    ${line.text}`);
}

function grouped(groups, lines) {
  const titles = new Map(groups.map((group) => [group.id, group.title.en]));
  let last = null;
  return lines.flatMap((line) => {
    const head = line.group === last ? [] : [`    # ${titles.get(line.group)}`];
    last = line.group;
    return [...head, `    ${line.text}`];
  });
}
return { artifacts };
})();

/* core/comparison.js */
const m12 = (() => {

const { conversionLines, environmentLines, launcherLines, referenceLines } = m6;
const { artifacts } = m11;
const { change } = m8;
const { namesOf } = m5;
const { accounting, findings } = m9;


function compare(tables, a, b) {
  const { fields, steps } = tables.data;
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

function differences(tables, before, after) {
  return tables.data.fields
    .filter((/** @type {any} */ { name }) => before[name] !== after[name])
    .map((/** @type {any} */ { name }) => ({ field: name, before: before[name], after: after[name] }));
}

function showValue(tables, choice, value) {
  const { messages } = tables.data;
  if (choice.type === "enum") return choice.values.find((/** @type {any} */ one) => one.value === value).label;
  if (choice.type === "bool") return messages[value ? "on" : "off"];
  return value === "" ? messages.empty : { zh: String(value), en: String(value) };
}

function causesOf(tables, a, b, names) {
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

function linesOf(tables, a, b) {
  const flags = (/** @type {any[]} */ lines) => lines.map((one) => ({ ...one, name: one.flag }));
  const reference = (/** @type {string} */ role) => (/** @type {State} */ state) => {
    const roles = state.layout !== "external" ? [] : state.pd ? ["prefill", "decode"] : ["regular"];
    return roles.includes(role) ? flags(referenceLines(tables, state, role)) : [];
  };
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

function numbered(lines) {
  const counts = new Map();
  const found = new Map();
  for (const line of lines) {
    const count = (counts.get(line.name) ?? 0) + 1;
    counts.set(line.name, count);
    found.set(`${line.name} ${count}`, line);
  }
  return found;
}

function pair(part, a, b) {
  const left = numbered(a);
  const right = numbered(b);
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

function filesOf(tables, a, b) {
  const left = artifacts(tables, a, null);
  const right = artifacts(tables, b, null);
  return [...new Set([...Object.keys(left), ...Object.keys(right)])]
    .filter((name) => name !== "experiment.json")
    .map((name) => ({ name, in_a: name in left, in_b: name in right, same: left[name] === right[name] }));
}

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
return { compare, differences, showValue };
})();

/* core/json_text.js */
const m13 = (() => {

const { LoadError } = m0;
const { fill, shorten } = m7;


const MAXIMUM_BYTES = 256 * 1024;
const MAXIMUM_DEPTH = 32;
const NEAR_CHARACTERS = 24;

const STRING = /"[^"\\\u0000-\u001f]*(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\u0000-\u001f]*)*"/.source;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/.source;
const SPACE = /[ \t\n\r]*/y;
const SCALAR = new RegExp(`${STRING}|${NUMBER}|true|false|null`, "y");
const KEY = new RegExp(`(${STRING})[ \\t\\n\\r]*:`, "y");

function readJson(messages, text) {
  if (isLarge(text)) throw new LoadError(fill(messages.json_large, { maximum: MAXIMUM_BYTES }));
  const body = text.startsWith("\ufeff") ? text.slice(1) : text;
  walk(messages, body);
  return JSON.parse(body);
}

function isLarge(text) {
  if (text.length > MAXIMUM_BYTES) return true;
  return text.length * 3 > MAXIMUM_BYTES && new TextEncoder().encode(text).length > MAXIMUM_BYTES;
}

function lineOf(text, at) {
  let line = 1;
  for (let index = text.indexOf("\n"); index >= 0 && index < at; index = text.indexOf("\n", index + 1)) line += 1;
  return line;
}

function syntaxError(messages, text, at) {
  const line = lineOf(text, at);
  if (at >= text.length) return new LoadError(fill(messages.json_cut, { line }));
  const near = [...text.slice(at, at + 2 * NEAR_CHARACTERS)].slice(0, NEAR_CHARACTERS).join("");
  return new LoadError(fill(messages.json_syntax, { line, near: shorten(near) }));
}

function walk(messages, text) {
  const keysOfOpen = [];
  let expect = "value";
  let at = 0;
  for (;;) {
    at = endOf(messages, SPACE, text, at);
    const mark = text.charAt(at);
    if (expect === "more") {
      if (keysOfOpen.length === 0) break;
      const isList = keysOfOpen[keysOfOpen.length - 1] === null;
      if (mark === (isList ? "]" : "}")) keysOfOpen.pop();
      else if (mark === ",") expect = isList ? "value" : "key";
      else throw syntaxError(messages, text, at);
      at += 1;
    } else if ((mark === "]" || mark === "}") && expect.endsWith(mark)) {
      keysOfOpen.pop();
      expect = "more";
      at += 1;
    } else if (expect.startsWith("key")) {
      at = readKey(messages, text, at, /** @type {Set<string>} */ (keysOfOpen[keysOfOpen.length - 1]));
      expect = "value";
    } else if (mark === "[" || mark === "{") {
      if (keysOfOpen.length === MAXIMUM_DEPTH) {
        throw new LoadError(fill(messages.json_deep, { line: lineOf(text, at), maximum: MAXIMUM_DEPTH }));
      }
      keysOfOpen.push(mark === "[" ? null : new Set());
      expect = mark === "[" ? "value or ]" : "key or }";
      at += 1;
    } else {
      at = endOf(messages, SCALAR, text, at);
      expect = "more";
    }
  }
  if (at < text.length) throw syntaxError(messages, text, at);
}

function endOf(messages, pattern, text, at) {
  pattern.lastIndex = at;
  if (!pattern.test(text)) throw syntaxError(messages, text, at);
  return pattern.lastIndex;
}

function readKey(messages, text, at, seen) {
  KEY.lastIndex = at;
  const match = KEY.exec(text);
  if (match === null) throw syntaxError(messages, text, at);
  const key = JSON.parse(match[1]);
  if (seen.has(key)) {
    throw new LoadError(fill(messages.json_twice, { line: lineOf(text, at), key: shorten(key) }));
  }
  seen.add(key);
  return KEY.lastIndex;
}
return { readJson };
})();

/* core/importing.js */
const m14 = (() => {

const { isMapping, kindOf, sanitise, unwrap } = m8;
const { LoadError } = m0;
const { readJson } = m13;
const { byCodePoint, fill, shorten } = m7;


const MAXIMUM_KEYS = 256;

function load(tables, text) {
  const raw = readJson(tables.data.messages, text);
  const [choices, problems] = unwrap(tables, raw);
  if (problems.length > 0) throw new LoadError(problems[0].reason);
  const result = sanitise(tables, knownMapping(tables, choices));
  const isExport = Object.hasOwn(raw, "schema");
  const others = Object.keys(raw).filter((key) => key !== "schema" && key !== "choices");
  const unused = isExport ? others.sort(byCodePoint).slice(0, MAXIMUM_KEYS).map(shorten) : [];
  return { ...result, schema: isExport ? raw.schema : null, unused };
}

function knownMapping(tables, choices) {
  const { messages } = tables.data;
  if (!isMapping(choices)) throw new LoadError(fill(messages.not_mapping, { got: messages[kindOf(choices)] }));
  const keys = Object.keys(choices);
  if (keys.length > MAXIMUM_KEYS) {
    const slots = { got: keys.length, maximum: MAXIMUM_KEYS, known: tables.data.fields.length };
    throw new LoadError(fill(messages.too_many_keys, slots));
  }
  if (!keys.some((key) => tables.byName.has(key))) throw new LoadError(messages.nothing_known);
  return choices;
}
return { load, knownMapping };
})();

/* core/layout.js */
const m15 = (() => {

const { namesOf } = m5;
const { fill } = m7;
const { accounting } = m9;


const SINGLE_GPUS = 16;
const SINGLE_NODES = 32;
const COLUMNS = 8;
const CELL = 24;
const GAP = 4;
const PAD = 12;
const HEAD = 26;
const ARROW = 76;

function layout(tables, state) {
  const texts = tables.data.layout_texts;
  const names = namesOf(tables, state);
  const totals = accounting(tables, names);
  const unit = names.device === "cpu" ? "cpu" : "gpu";
  const size = names.gpus_per_node;
  const pools = poolsOf(texts, state, totals);
  const path = texts[weightPath(state, names)];
  const placed = place(texts, pools.map((pool) => draw(texts, pool, size, unit)), path);
  return {
    width: placed.width,
    height: placed.height,
    title: fill(texts.title, names),
    description: describe(texts, state, totals, unit, path),
    shapes: placed.shapes,
    table: table(texts, pools, totals, names, unit, size),
  };
}

function countText(texts, number, kind) {
  return fill(texts[`${kind}_${number === 1 ? "one" : "many"}`], { n: number });
}

function weightPath(state, names) {
  if (state.layout === "colocate" && state.transport === "nccl") return names.device === "cpu" ? "memory" : "ipc";
  return /** @type {string} */ (state.transport);
}

function poolsOf(texts, state, totals) {
  if (state.layout === "colocate") {
    return [{ cls: "pool shared", name: texts.shared, sections: partsOf(texts, totals, "shared") }];
  }
  const external = state.layout === "external";
  const parts = partsOf(texts, totals, "rollout");
  const train = { cls: "train", name: texts.train, gpus: Math.max(totals.train_gpus, 0) };
  return [
    {
      cls: external ? "pool external" : "pool rollout",
      name: external ? texts.external : texts.rollout,
      sections: external ? parts.map((part) => ({ ...part, cls: `${part.cls} external` })) : parts,
    },
    { cls: "pool train", name: texts.train, sections: [train] },
  ];
}

function partsOf(texts, totals, cls) {
  if (totals.prefill_gpus <= 0 && totals.decode_gpus <= 0) {
    return [{ cls, name: texts[cls], gpus: Math.max(totals.rollout_gpus, 0) }];
  }
  const suffix = cls === "shared" ? " shared" : "";
  return [
    { cls: `prefill${suffix}`, name: texts.prefill, gpus: Math.max(totals.prefill_gpus, 0) },
    { cls: `decode${suffix}`, name: texts.decode, gpus: Math.max(totals.decode_gpus, 0) },
  ];
}

function countsOf(gpus, size) {
  if (gpus <= SINGLE_GPUS) return Array.from({ length: gpus }, () => 1);
  const nodes = Math.floor((gpus + size - 1) / size);
  if (nodes > SINGLE_NODES) return [gpus];
  return Array.from({ length: nodes }, (_, start) => Math.min(size, gpus - start * size));
}

function draw(texts, pool, size, unit) {
  const inner = COLUMNS * (CELL + GAP) - GAP;
  const shapes = [];
  let y = HEAD;
  for (const section of pool.sections) {
    const count = countText(texts, section.gpus, unit);
    const label = pool.sections.length > 1 ? fill(texts.pool, { name: section.name, gpus: count }) : count;
    y += HEAD - GAP;
    shapes.push({ shape: "text", cls: "section", x: PAD, y: y - 2 * GAP, w: 0, h: 0, label });
    const counts = countsOf(section.gpus, size);
    if (counts.length === 1 && counts[0] > SINGLE_GPUS) {
      shapes.push(box(section, PAD, y, inner, nodeText(texts, section.gpus, size, unit)));
      y += CELL + GAP;
      continue;
    }
    counts.forEach((count, index) => {
      const x = PAD + (index % COLUMNS) * (CELL + GAP);
      const text = section.gpus <= SINGLE_GPUS ? null : { zh: String(count), en: String(count) };
      shapes.push(box(section, x, y + Math.floor(index / COLUMNS) * (CELL + GAP), CELL, text));
    });
    y += Math.floor((counts.length + COLUMNS - 1) / COLUMNS) * (CELL + GAP);
  }
  const width = inner + 2 * PAD;
  const height = y + PAD - GAP;
  return {
    width,
    height,
    shapes: [
      { shape: "rect", cls: pool.cls, x: 0, y: 0, w: width, h: height, label: null },
      { shape: "text", cls: "pool-name", x: PAD, y: HEAD - GAP, w: 0, h: 0, label: pool.name },
      ...shapes,
    ],
  };
}

function box(section, x, y, w, label) {
  const cls = `${label === null ? "gpu" : "node"} ${section.cls}`;
  return { shape: section.cls === "train" ? "rect" : "round", cls, x, y, w, h: CELL, label };
}

function nodeText(texts, gpus, size, unit) {
  if (gpus < size) return countText(texts, gpus, unit);
  const nodes = countText(texts, Math.floor(gpus / size), "node");
  return fill(texts[gpus % size === 0 ? "nodes" : "nodes_rest"], { nodes, size, rest: gpus % size });
}

function place(texts, pools, path) {
  const tallest = Math.max(...pools.map((pool) => pool.height));
  const shapes = [];
  let x = PAD;
  pools.forEach((pool, index) => {
    for (const shape of pool.shapes) shapes.push({ ...shape, x: shape.x + x, y: shape.y + PAD });
    x += pool.width;
    if (index + 1 < pools.length) {
      const y = PAD + HEAD + CELL / 2;
      const w = ARROW - 2 * GAP;
      shapes.push({ shape: "arrow", cls: "arrow samples", x: x + GAP, y, w, h: 0, label: texts.samples });
      x += ARROW;
    }
  });
  const under = PAD + tallest + HEAD;
  const single = pools.length === 1;
  const first = single ? PAD + PAD : PAD + Math.floor(pools[0].width / 2);
  const last = single ? x - PAD : x - Math.floor(pools[pools.length - 1].width / 2);
  shapes.push({ shape: "arrow", cls: "arrow weights", x: last, y: under, w: first - last, h: 0, label: path });
  return { width: x + PAD, height: under + PAD, shapes };
}

function describe(texts, state, totals, unit, path) {
  const slots = {
    train: countText(texts, totals.train_gpus, unit),
    rollout: countText(texts, totals.rollout_gpus, unit),
    engines: countText(texts, totals.engines, "engine"),
    ray: countText(texts, totals.ray_gpus, unit),
    prefill: totals.prefill_gpus,
    decode: totals.decode_gpus,
    path,
  };
  const key = state.layout === "external" ? "external_text" : /** @type {string} */ (state.layout);
  const said = fill(texts[key], slots);
  if (totals.prefill_gpus <= 0 && totals.decode_gpus <= 0) return said;
  const split = fill(texts.pd_text, slots);
  return { zh: said.zh + split.zh, en: `${said.en} ${split.en}` };
}

function table(texts, pools, totals, names, unit, size) {
  const engines = fill(texts.engines, {
    engines: countText(texts, totals.engines, "engine"),
    size: countText(texts, names.engine, unit),
  });
  const parts = pools
    .flatMap((pool) => pool.sections)
    .filter((section) => section.cls.startsWith("prefill") || section.cls.startsWith("decode"))
    .map((section) => ({ what: section.name, gpus: section.gpus, detail: nodeText(texts, section.gpus, size, unit) }));
  return [
    { what: texts.train, gpus: totals.train_gpus, detail: fill(texts.parallel, names) },
    { what: texts.rollout, gpus: totals.rollout_gpus, detail: engines },
    ...parts,
    { what: texts.ray, gpus: totals.ray_gpus, detail: texts.ray_detail },
  ];
}
return { layout };
})();

/* core/sharing.js */
const m16 = (() => {

const { readValue, sanitise } = m8;
const { LoadError } = m0;
const { knownMapping } = m14;
const { readJson } = m13;
const { PREDICATES } = m1;
const { byCodePoint, fill, nearest, shorten } = m7;


const MAXIMUM_CHARACTERS = 8192;
const MAXIMUM_PARTS = 128;
const OWN = "lab";
const BASELINE = "lab-a";
const EARLIER_OWN = "experiment";
const EARLIER_BASELINE = "baseline";
const VERSION = /^[1-9][0-9]{0,3}$/;
const INTEGER = /^(0|-?[1-9][0-9]{0,14})$/;

function share(tables, state, a = null) {
  const own = encode(tables, state);
  const withheld = withheldOf(tables, state, own);
  if (a === null) return { fragment: `${OWN}=${own}`, withheld, withheld_a: [] };
  const other = encode(tables, a);
  return { fragment: `${OWN}=${own}&${BASELINE}=${other}`, withheld, withheld_a: withheldOf(tables, a, other) };
}

function receive(tables, link) {
  if (link.length > 2 * MAXIMUM_CHARACTERS || [...link].length > MAXIMUM_CHARACTERS) throw tooLarge(tables);
  const found = parameters(tables, link.slice(link.indexOf("#") + 1));
  const own = found.get(OWN);
  const baseline = found.get(BASELINE);
  if (own !== undefined) {
    const [version, b] = decode(tables, own);
    return { version, b, a: baseline === undefined ? null : decode(tables, baseline)[1] };
  }
  const earlier = found.get(EARLIER_OWN);
  const earlierA = found.get(EARLIER_BASELINE);
  if (earlier === undefined) return null;
  const a = earlierA === undefined ? null : decodeEarlier(tables, earlierA);
  return { version: 0, b: decodeEarlier(tables, earlier), a };
}

function tooLarge(tables) {
  return new LoadError(fill(tables.data.messages.link_large, { maximum: MAXIMUM_CHARACTERS }));
}

function parameters(tables, fragment) {
  const { messages } = tables.data;
  const found = new Map();
  for (const part of fragment.split("&")) {
    const [name, value] = splitOnce(part);
    if (value === null || ![OWN, BASELINE, EARLIER_OWN, EARLIER_BASELINE].includes(name)) continue;
    if (found.has(name)) throw new LoadError(fill(messages.link_twice, { key: name }));
    try {
      found.set(name, decodeURIComponent(value));
    } catch (error) {
      if (error instanceof URIError) throw new LoadError(messages.link_encoding);
      throw error;
    }
  }
  return found;
}

function splitOnce(part) {
  const at = part.indexOf("=");
  return at < 0 ? [part, null] : [part.slice(0, at), part.slice(at + 1)];
}

function isDecimal(text) {
  return PREDICATES.is_positive_decimal(text);
}

function travels(choice, value) {
  return choice.share && (choice.type !== "text" || value === "" || isDecimal(String(value)));
}

function encode(tables, state) {
  const { fields, links } = tables.data;
  let best = null;
  for (const one of links.baselines) {
    if (one.version !== links.version) continue;
    const parts = [String(one.version), one.preset];
    for (const choice of fields) {
      const value = state[choice.name];
      const isSame = Object.hasOwn(one.values, choice.name) && one.values[choice.name] === value;
      if (travels(choice, value) && !isSame) parts.push(`${choice.name}=${encodeURIComponent(String(value))}`);
    }
    const text = parts.join(";");
    if (best === null || text.length < best.length) best = text;
  }
  return String(best);
}

function withheldOf(tables, state, encoded) {
  const arrived = decode(tables, decodeURIComponent(encoded))[1].state;
  const names = tables.data.fields.map((/** @type {any} */ choice) => choice.name);
  return names.filter((/** @type {string} */ name) => arrived[name] !== state[name]);
}

function decode(tables, text) {
  const { links, messages } = tables.data;
  const parts = text.split(";");
  if (parts.length > MAXIMUM_PARTS) throw tooLarge(tables);
  const version = versionOf(tables, parts[0]);
  const starts = links.baselines.filter((/** @type {any} */ one) => one.version === version);
  const start = starts.find((/** @type {any} */ one) => one.preset === (parts[1] ?? ""));
  if (start === undefined) {
    const wanted = starts.map((/** @type {any} */ one) => one.preset).join(", ");
    throw new LoadError(fill(messages.link_start, { version, got: shorten(parts[1] ?? ""), wanted }));
  }
  const ignored = [];
  const given = new Map();
  for (const part of parts.slice(2)) {
    const [name, value] = splitOnce(part);
    if (value === null) ignored.push(problem(tables, "link_part", part));
    else if (given.has(name)) ignored.push(problem(tables, "link_twice", name));
    else given.set(name, value);
  }
  const values = Object.entries(start.values).map(([name, value]) => [name, String(value)]);
  const before = migrate(tables, version, new Map(values), true);
  return [version, readSide(tables, before, migrate(tables, version, given), ignored)];
}

function versionOf(tables, text) {
  const { links, messages } = tables.data;
  if (!VERSION.test(text)) throw new LoadError(fill(messages.link_version, { got: shorten(text) }));
  const version = Number(text);
  if (version <= links.version) return version;
  throw new LoadError(fill(messages.link_newer, { got: version, known: links.version }));
}

function migrate(tables, version, given, isStart = false) {
  const { links } = tables.data;
  let current = given;
  for (let number = version; number < links.version; number += 1) {
    for (const migration of links.migrations) {
      if (migration.from !== number) continue;
      const next = new Map(isStart ? Object.entries(migration.set) : []);
      for (const [name, value] of current) {
        if (migration.drop.includes(name)) continue;
        const words = Object.hasOwn(migration.values, name) ? migration.values[name] : {};
        const renamed = Object.hasOwn(migration.rename, name) ? migration.rename[name] : name;
        next.set(renamed, Object.hasOwn(words, value) ? words[value] : value);
      }
      current = next;
    }
  }
  return current;
}

function decodeEarlier(tables, text) {
  const raw = knownMapping(tables, readJson(tables.data.messages, text));
  const ignored = [];
  const given = new Map();
  for (const key of Object.keys(raw).sort(byCodePoint)) {
    const value = raw[key];
    const isScalar = typeof value === "string" || typeof value === "boolean";
    if (isScalar || (Number.isInteger(value) && Math.abs(value) < 1e15)) given.set(key, String(value));
    else if (tables.byName.has(key)) {
      const read = readValue(tables, tables.byName.get(key), value);
      if (!read.ok) ignored.push({ key, kind: "invalid", reason: read.reason, nearest: read.nearest });
    } else given.set(key, "");
  }
  return readSide(tables, migrate(tables, 1, new Map(), true), migrate(tables, 1, given), ignored);
}

function readSide(tables, before, given, ignored) {
  const values = Object.create(null);
  for (const [name, text] of before) if (tables.byName.has(name)) take(tables, name, text, values, ignored);
  for (const [name, text] of given) {
    const retired = tables.data.retired.find((/** @type {any} */ one) => one.name === name);
    if (tables.byName.has(name)) take(tables, name, text, values, ignored);
    else if (retired !== undefined) ignored.push({ key: name, kind: "retired", reason: retired.why, nearest: null });
    else {
      const reason = fill(tables.data.messages.unknown, { key: shorten(name) });
      ignored.push({ key: shorten(name), kind: "unknown", reason, nearest: nearest(name, tables.byName.keys()) });
    }
  }
  const result = sanitise(tables, { ...values });
  return { state: result.state, ignored: [...ignored, ...result.ignored] };
}

function take(tables, name, text, values, ignored) {
  const { legacy, messages } = tables.data;
  const choice = tables.byName.get(name);
  if (!choice.share) {
    ignored.push(problem(tables, "link_private", name, {}, "private"));
    return;
  }
  const value = name === "model" && Object.hasOwn(legacy, text) ? legacy[text] : parse(choice, text);
  if (value === null) {
    const wanted = messages[choice.type === "int" ? "kind_int" : choice.type === "bool" ? "kind_bool" : "kind_decimal"];
    ignored.push(problem(tables, "link_value", name, { got: shorten(text), wanted }));
    return;
  }
  const read = readValue(tables, choice, value);
  if (read.ok) values[name] = read.value;
  else ignored.push({ key: name, kind: "invalid", reason: read.reason, nearest: read.nearest });
}

function parse(choice, text) {
  if (choice.type === "bool") return text === "true" ? true : text === "false" ? false : null;
  if (choice.type === "int") return INTEGER.test(text) ? Number(text) : null;
  return choice.type === "enum" || text === "" || isDecimal(text) ? text : null;
}

function problem(tables, message, name, slots = {}, kind = "invalid") {
  const key = shorten(name);
  return { key, kind, reason: fill(tables.data.messages[message], { key, ...slots }), nearest: null };
}
return { share, receive };
})();

/* core/engine.js */
const m17 = (() => {

const { environmentLines, launcherLines } = m6;
const { artifacts } = m11;
const { change, defaults, preset, sanitise } = m8;
const { compare } = m12;
const { test } = m3;
const { load } = m14;
const { layout } = m15;
const { preview, validate } = m10;
const { receive, share } = m16;
const { createTables, namesOf } = m5;


const FORMAT = 1;

function view(tables, state) {
  const names = namesOf(tables, state);
  const visible = [];
  const disabled = [];
  for (const field of tables.data.fields) {
    if (test(field.visible, names)) visible.push(field.name);
    for (const option of field.options) {
      if (test(option.when, names)) disabled.push({ field: field.name, value: option.value, why: option.why });
    }
  }
  return { visible, disabled };
}

function createEngine(catalog) {
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
    arguments: (/** @type {State} */ state) => launcherLines(tables, state),
    environment: (/** @type {State} */ state) => environmentLines(tables, state),
    artifacts: (/** @type {State} */ state, /** @type {any} */ provenance = null) =>
      artifacts(tables, state, provenance),
  };
}
return { createEngine };
})();

/* ui/dom.js */
const m18 = (() => {

function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

function show(element, shown) {
  if (element.hidden === shown) element.hidden = !shown;
}

function fill(text, slots) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in slots ? String(slots[name]) : whole));
}

function reconcile(parent, items, keyOf, create, update) {
  const old = new Map();
  for (const child of Array.from(parent.children)) old.set(child.getAttribute("data-key"), child);
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let child = old.get(key);
    old.delete(key);
    if (!child) {
      child = create(item);
      child.setAttribute("data-key", key);
    }
    update(child, item);
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
  for (const child of old.values()) child.remove();
}
return { h, svg, setText, show, fill, reconcile };
})();

/* ui/fields.js */
const m19 = (() => {
const { fill, h, setText, show } = m18;

const DOUBLING_FROM = 64;

function createField(field, context, actions, id) {
  const make = { enum: cards, bool: toggle, int: number, text: text }[/** @type {"enum"} */ (field.type)];
  const refused = h("p", { class: "slime-lab__refused", hidden: true });
  const edit = (/** @type {any} */ value) => {
    const reason = actions.change(field.name, value);
    setText(refused, reason ?? "");
    show(refused, reason !== null);
    if (reason !== null) context.say(reason);
    return reason === null;
  };
  const control = make(field, context, edit, id);
  control.element.append(refused);
  control.element.classList.add("slime-lab__field");
  control.element.dataset.field = field.name;
  let last = null;
  return {
    name: field.name,
    step: field.step,
    element: control.element,
    focus: control.focus,
    update(now, erring) {
      show(control.element, now.view.visible.includes(field.name));
      control.element.classList.toggle("slime-lab__field--error", erring.has(field.name));
      const disabled = now.view.disabled.filter((/** @type {any} */ one) => one.field === field.name);
      control.update(now.state[field.name], disabled);
      if (last !== now.state[field.name]) show(refused, false);
      last = now.state[field.name];
    },
  };
}

function help(field, context) {
  return h("p", { class: "slime-lab__help" }, field.help[context.language]);
}

function cards(field, context, edit, id) {
  const inputs = new Map();
  const holder = h("div", { class: "slime-lab__cards" });
  for (const value of field.values) {
    const why = h("span", { class: "slime-lab__card-why", hidden: true });
    const input = h("input", {
      type: "radio",
      name: `${id}-${field.name}`,
      value: value.value,
      onchange: () => edit(value.value),
    });
    const words = h("span", {}, h("span", { class: "slime-lab__card-name" }, value.label[context.language]));
    if (value.help) words.append(h("span", { class: "slime-lab__card-help" }, value.help[context.language]));
    words.append(why);
    holder.append(h("label", { class: "slime-lab__card" }, input, words));
    inputs.set(value.value, { input, why });
  }
  const legend = h("legend", {}, field.label[context.language]);
  return {
    element: h("fieldset", {}, legend, help(field, context), holder),
    focus: () => (holder.querySelector("input:checked") || holder.querySelector("input")).focus(),
    update(/** @type {string} */ current, /** @type {any[]} */ disabled) {
      for (const [value, { input, why }] of inputs) {
        const block = disabled.find((one) => one.value === value);
        input.checked = value === current;
        disable(input, why, block, context);
      }
    },
  };
}

function disable(/** @type {any} */ input, /** @type {HTMLElement} */ why, /** @type {any} */ block, /** @type {any} */ context) {
  input.disabled = Boolean(block) && !input.checked;
  setText(why, block ? block.why[context.language] : "");
  show(why, Boolean(block));
}

function toggle(field, context, edit, id) {
  const why = h("span", { class: "slime-lab__card-why", hidden: true });
  const input = h("input", { type: "checkbox", name: `${id}-${field.name}`, onchange: () => edit(input.checked) });
  const card = h(
    "label",
    { class: "slime-lab__card" },
    input,
    h("span", {}, h("span", { class: "slime-lab__card-name slime-lab__field-name" }, field.label[context.language]),
      h("span", { class: "slime-lab__card-help" }, field.help[context.language]), why),
  );
  return {
    element: h("div", {}, card),
    focus: () => input.focus(),
    update(/** @type {boolean} */ current, /** @type {any[]} */ disabled) {
      input.checked = current;
      disable(input, why, disabled.find((one) => one.value === true || one.value === "true"), context);
    },
  };
}

function number(field, context, edit, id) {
  const { words } = context;
  const doubling = field.maximum > DOUBLING_FROM;
  const inputId = `${id}-${field.name}`;
  let current = field.minimum;
  const clamp = (/** @type {number} */ value) => Math.min(Math.max(value, field.minimum), field.maximum);
  const move = (/** @type {number} */ way) => {
    const next = doubling ? (way > 0 ? current * 2 : Math.floor(current / 2)) : current + way;
    edit(clamp(next));
  };
  const input = h("input", {
    type: "number", id: inputId, class: "slime-lab__input", min: field.minimum, max: field.maximum, step: 1,
    inputmode: "numeric", "aria-describedby": `${inputId}-limits`,
    onchange: () => {
      const written = /^\d{1,15}$/.test(input.value) ? Number(input.value) : input.value;
      if (!edit(written)) input.value = String(current);
    },
  });
  const step = (/** @type {string} */ sign, /** @type {string} */ label, /** @type {number} */ way) =>
    h("button", { type: "button", class: "slime-lab__button", "aria-label": `${label}: ${field.label[context.language]}`, onclick: () => move(way) }, sign);
  const less = step(doubling ? "÷2" : "−", words.less, -1);
  const more = step(doubling ? "×2" : "+", words.more, 1);
  const limits = fill(words.limits, { minimum: field.minimum, maximum: field.maximum });
  const unit = field.unit ? `${field.unit[context.language]}, ${limits}` : limits;
  return {
    element: h(
      "fieldset", {},
      h("label", { class: "slime-lab__field-name", for: inputId }, field.label[context.language]),
      help(field, context),
      h("div", { class: "slime-lab__number" }, less, input, more, h("span", { class: "slime-lab__unit", id: `${inputId}-limits` }, unit)),
    ),
    focus: () => input.focus(),
    update(/** @type {number} */ value) {
      current = value;
      if (input.value !== String(value)) input.value = String(value);
      less.setAttribute("aria-disabled", String(value <= field.minimum));
      more.setAttribute("aria-disabled", String(value >= field.maximum));
    },
  };
}

function text(field, context, edit, id) {
  const inputId = `${id}-${field.name}`;
  let current = "";
  const input = h("input", {
    type: "text", id: inputId, class: "slime-lab__input", maxlength: field.max_length, spellcheck: "false",
    autocapitalize: "off", autocomplete: "off", placeholder: field.example ?? null,
    onchange: () => {
      if (!edit(input.value)) input.value = current;
    },
  });
  return {
    element: h(
      "fieldset", {},
      h("label", { class: "slime-lab__field-name", for: inputId }, field.label[context.language]),
      help(field, context),
      input,
    ),
    focus: () => input.focus(),
    update(/** @type {string} */ value) {
      current = value;
      if (input.value !== value) input.value = value;
    },
  };
}
return { createField };
})();

/* ui/controls.js */
const m20 = (() => {
const { fill, h, setText, show } = m18;
const { createField } = m19;

function createControls(context, actions) {
  const { data, page, language, words } = context;
  const steps = data.catalog.steps;
  const fields = data.catalog.fields.map((/** @type {any} */ field) => createField(field, context, actions, page.uid));
  let open = 0;

  const panels = steps.map((/** @type {any} */ step, /** @type {number} */ at) => {
    const title = h("h3", { class: "slime-lab__step-title", tabindex: "-1" }, step.label[language]);
    const own = fields.filter((/** @type {any} */ field) => field.step === step.id);
    const element = h("div", { class: "slime-lab__panel", "data-step": step.id }, title, ...own.map((/** @type {any} */ field) => field.element));
    element.append(walk(at));
    return { title, element };
  });

  const buttons = steps.map((/** @type {any} */ step, /** @type {number} */ at) => {
    const mark = h("span", { class: "slime-lab__step-mark", hidden: true }, "▲", h("span", { class: "slime-lab__offscreen" }, words.step_errors));
    const label = h("span", {}, step.label[language]);
    const element = h("button", { type: "button", class: "slime-lab__step", onclick: () => go(at, false) }, label, mark);
    return { element, mark };
  });

  function walk(at) {
    const last = at === steps.length - 1;
    const button = (/** @type {string} */ label, /** @type {() => void} */ onclick, /** @type {boolean} */ main) =>
      h("button", { type: "button", class: `slime-lab__button${main ? " slime-lab__button--main" : ""}`, onclick }, label);
    const files = () => {
      const target = form.closest(".slime-lab").querySelector(".slime-lab__files");
      target.scrollIntoView({ block: "start" });
      target.querySelector("[role=tab][aria-selected=true]")?.focus({ preventScroll: true });
    };
    return h(
      "div", { class: "slime-lab__walk" },
      at === 0 ? h("span") : button(words.previous, () => go(at - 1, true), false),
      last ? button(words.to_files, files, true) : button(words.next, () => go(at + 1, true), true),
    );
  }

  function go(at, focus) {
    open = at;
    panels.forEach((/** @type {any} */ panel, /** @type {number} */ index) => show(panel.element, index === at));
    buttons.forEach((/** @type {any} */ button, /** @type {number} */ index) => {
      if (index === at) button.element.setAttribute("aria-current", "step");
      else button.element.removeAttribute("aria-current");
    });
    setText(counter, fill(words.step_of, { at: at + 1, count: steps.length }));
    if (focus) panels[at].title.focus({ preventScroll: true });
  }

  const counter = h("span", { class: "slime-lab__offscreen", "aria-live": "polite" });
  const nav = h("nav", { class: "slime-lab__steps", "aria-label": words.steps },
    h("ol", {}, ...buttons.map((/** @type {any} */ button) => h("li", {}, button.element))), counter);
  const form = h("form", { class: "slime-lab__controls", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
    ...panels.map((/** @type {any} */ panel) => panel.element));
  go(open, false);

  return {
    steps: nav,
    form,
    goTo(/** @type {string} */ name) {
      const field = fields.find((/** @type {any} */ one) => one.name === name);
      if (!field) return;
      go(steps.findIndex((/** @type {any} */ step) => step.id === field.step), false);
      field.element.scrollIntoView({ block: "nearest" });
      field.focus();
    },
    update(/** @type {any} */ now) {
      const errors = now.validation.findings.filter((/** @type {any} */ one) => one.severity === "error");
      const erring = new Set(errors.flatMap((/** @type {any} */ one) => one.fields));
      for (const field of fields) field.update(now, erring);
      steps.forEach((/** @type {any} */ step, /** @type {number} */ at) => {
        show(buttons[at].mark, fields.some((/** @type {any} */ field) => field.step === step.id && erring.has(field.name)));
      });
    },
  };
}
return { createControls };
})();

/* ui/highlight.js */
const m21 = (() => {

const SHELL = /(#.*$)|('(?:[^'])*'|"(?:[^"\\]|\\.)*")|(\$\{?[A-Za-z_0-9@#]+)|(\s--?[a-z][\w-]*)|(\b(?:if|then|else|elif|fi|for|do|done|case|esac|while|return|exit|export|local|set|function)\b)/g;
const SHELL_CLASSES = ["c1", "s2", "nv", "na", "k"];
const YAML = /(#.*$)|("(?:[^"\\]|\\.)*")|(\b(?:true|false|null)\b|\b\d+\b)|([\w.-]+(?=:))/g;
const YAML_CLASSES = ["c1", "s2", "m", "nt"];

function highlight(line, name) {
  const shell = name.endsWith(".sh");
  const pattern = shell ? SHELL : YAML;
  const classes = shell ? SHELL_CLASSES : YAML_CLASSES;
  if (shell && /^\s*#/.test(line)) return [span("c1", line)];
  const pieces = [];
  let at = 0;
  for (const match of line.matchAll(pattern)) {
    const start = /** @type {number} */ (match.index);
    if (match[1] !== undefined && start > 0 && line[start - 1] !== " ") continue;
    if (start > at) pieces.push(line.slice(at, start));
    const kind = classes.findIndex((_, group) => match[group + 1] !== undefined);
    pieces.push(span(classes[kind], match[0]));
    at = start + match[0].length;
  }
  if (at < line.length) pieces.push(line.slice(at));
  return pieces;
}

function span(name, text) {
  const element = document.createElement("span");
  element.className = name;
  element.textContent = text;
  return element;
}
return { highlight };
})();

/* ui/code.js */
const m22 = (() => {
const { h, setText } = m18;
const { highlight } = m21;

function createCode(element, name, context) {
  const { data, words, language } = context;
  const shell = name.endsWith(".sh");
  const written = element.querySelector(".slime-lab__code");
  const pre = /** @type {HTMLElement} */ (written ? written.querySelector("pre") : h("pre"));
  const block = written || h("div", { class: "slime-lab__code notranslate" }, h("div", { class: "highlight" }, pre));
  const reason = h("p", { class: "slime-lab__reason", "aria-live": "polite" }, shell ? words.line_hint : "");
  pre.tabIndex = 0;
  pre.setAttribute("aria-label", name);
  let lines = [];
  let rows = [];
  let reasons = new Map();
  let chosen = null;
  let settled = false;

  const createRow = (line, changed) => {
    const row = h("span", { class: `slime-lab__row${changed && settled ? " slime-lab__row--changed" : ""}` }, ...highlight(line, name), "\n");
    row.slimeLine = line;
    return row;
  };

  const choose = (row) => {
    if (chosen) chosen.classList.remove("slime-lab__row--chosen");
    chosen = row;
    if (!row) return;
    row.classList.add("slime-lab__row--chosen");
    const one = reasons.get(/** @type {any} */ (row).slimeLine.trim());
    if (!one) return;
    const from = one.fields.map((/** @type {string} */ field) => data.catalog.fields.find((/** @type {any} */ f) => f.name === field).label[language]);
    reason.replaceChildren(h("code", {}, one.text), ` ${one.why[language]}`, from.length ? ` (${words.caused_by} ${from.join(", ")})` : "");
  };
  pre.addEventListener("pointerover", (event) => {
    const row = /** @type {HTMLElement} */ (event.target).closest(".slime-lab__row[data-why]");
    if (row) choose(/** @type {HTMLElement} */ (row));
  });
  pre.addEventListener("keydown", (event) => {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const known = rows.filter((row) => row.hasAttribute("data-why"));
    if (!way || !known.length || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const at = chosen ? known.indexOf(chosen) + way : way > 0 ? 0 : known.length - 1;
    const row = known[Math.min(Math.max(at, 0), known.length - 1)];
    choose(row);
    row.scrollIntoView({ block: "nearest" });
  });

  return {
    element: block,
    reason,
    settle: () => (settled = true),
    update(text, now) {
      const wanted = text.replace(/\n$/, "").split("\n");
      rows = replaceRows(pre, rows, lines, wanted, createRow);
      lines = wanted;
      if (!shell) return;
      reasons = new Map([...now.environment, ...now.arguments].map((one) => [one.text, one]));
      for (const row of rows) {
        const known = reasons.has(/** @type {any} */ (row).slimeLine.trim());
        if (known !== row.hasAttribute("data-why")) row.toggleAttribute("data-why", known);
      }
      if (chosen && !chosen.isConnected) {
        choose(null);
        setText(reason, words.line_hint);
      }
    },
  };
}

function replaceRows(pre, rows, before, after, createRow) {
  if (!rows.length) {
    const all = after.map((line) => createRow(line, false));
    pre.replaceChildren(...all);
    return all;
  }
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  let end = 0;
  const room = Math.min(before.length, after.length) - start;
  while (end < room && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
  const gone = new Map();
  for (const line of before.slice(start, before.length - end)) gone.set(line, (gone.get(line) || 0) + 1);
  const fresh = after.slice(start, after.length - end).map((line) => {
    const left = gone.get(line) || 0;
    gone.set(line, left - 1);
    return createRow(line, left <= 0);
  });
  const tail = rows.slice(rows.length - end);
  for (const row of rows.slice(start, rows.length - end)) row.remove();
  if (tail.length) tail[0].before(...fresh);
  else pre.append(...fresh);
  return [...rows.slice(0, start), ...fresh, ...tail];
}
return { createCode };
})();

/* ui/export.js */
const m23 = (() => {

async function copyText(text) {
  if (navigator.clipboard && window.isSecureContext) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch (error) {
    }
  }
  return copyBySelection(text);
}

function copyBySelection(text) {
  const focused = /** @type {HTMLElement|null} */ (document.activeElement);
  const area = document.createElement("textarea");
  area.value = text;
  area.setAttribute("readonly", "");
  area.className = "slime-lab__offscreen";
  document.body.append(area);
  area.select();
  let done = false;
  try {
    done = document.execCommand("copy");
  } catch (error) {
    done = false;
  }
  area.remove();
  if (focused) focused.focus({ preventScroll: true });
  return done;
}

function download(name, text) {
  const type = name.endsWith(".json") ? "application/json" : "text/plain";
  const url = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
return { copyText, download };
})();

/* ui/files.js */
const m24 = (() => {
const { createCode } = m22;
const { copyText, download } = m23;
const { fill, h, setText, show } = m18;

const ALWAYS = "experiment.json";

function createFiles(section, context) {
  const { page, words } = context;
  const holder = /** @type {HTMLElement} */ (section.querySelector(".slime-lab__files"));
  const tablist = h("div", { class: "slime-lab__tabs", role: "tablist", "aria-label": words.files });
  for (const old of Array.from(holder.querySelectorAll(":scope > .slime-lab__blocked"))) old.remove();
  holder.prepend(tablist);
  const files = new Map();
  let selected = "experiment.sh";

  function open(name) {
    const found = holder.querySelector(`[data-file="${name}"]`);
    const element = found || h("section", { class: "slime-lab__file", "data-file": name });
    if (!found) holder.append(element);
    const file = createFile(/** @type {HTMLElement} */ (element), name, context);
    const id = `${page.uid}-${name.replace(/\W/g, "-")}`;
    element.id = id;
    element.setAttribute("role", "tabpanel");
    const tab = h("button", { type: "button", class: "slime-lab__tab", role: "tab", id: `${id}-tab`, "aria-controls": id, onclick: () => select(name), onkeydown: move }, name);
    element.setAttribute("aria-labelledby", `${id}-tab`);
    tablist.append(tab);
    const entry = { ...file, element, tab };
    files.set(name, entry);
    return entry;
  }

  function select(name) {
    selected = name;
    for (const [other, file] of files) {
      const chosen = other === name;
      show(file.element, chosen);
      file.tab.setAttribute("aria-selected", String(chosen));
      file.tab.tabIndex = chosen ? 0 : -1;
    }
  }

  function move(event) {
    const names = [...files.keys()].filter((name) => !files.get(name).tab.hidden);
    const at = names.indexOf(selected);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const name = names[(to + names.length) % names.length];
    select(name);
    files.get(name).tab.focus();
  }

  return {
    update(/** @type {any} */ now) {
      const blocked = now.validation.findings.some((/** @type {any} */ one) => one.severity === "error");
      const names = Object.keys(now.artifacts);
      for (const name of names) {
        const file = files.get(name) || open(name);
        show(file.tab, true);
        file.update(now.artifacts[name], now, blocked && name !== ALWAYS);
      }
      for (const [name, file] of files) if (!names.includes(name)) show(file.tab, false);
      for (const name of names) tablist.append(files.get(name).tab);
      select(names.includes(selected) ? selected : names[0]);
    },
    settle() {
      for (const file of files.values()) file.settle();
    },
  };
}

function createFile(element, name, context) {
  const { words, say } = context;
  let current = "";
  const take = async () => say(fill((await copyText(current)) ? words.copied : words.copy_failed, { name }));
  const save = (/** @type {Event} */ event) => {
    event.preventDefault();
    download(name, current);
    say(fill(words.downloaded, { name }));
  };
  const copyButton = h("button", { type: "button", class: "slime-lab__button", "data-action": "copy", onclick: take }, words.copy);
  const saveButton = h("button", { type: "button", class: "slime-lab__button slime-lab__button--main", "data-action": "download", onclick: save }, words.download);
  const actions = h("span", { class: "slime-lab__actions" }, copyButton, saveButton);
  const withheld = h("p", { class: "slime-lab__blocked", hidden: true }, words.blocked);
  const code = createCode(element, name, context);
  const bar = h("div", { class: "slime-lab__file-bar" }, code.reason, actions);
  const why = element.querySelector("details");
  element.replaceChildren(bar, withheld, code.element);
  if (why) element.append(why);
  return {
    update(/** @type {string} */ text, /** @type {any} */ now, /** @type {boolean} */ blocked) {
      current = text;
      code.update(text, now);
      show(withheld, blocked);
      show(code.element, !blocked);
      show(bar, !blocked);
      if (why) show(/** @type {HTMLElement} */ (why), !blocked);
    },
    settle: code.settle,
  };
}
return { createFiles };
})();

/* ui/history.js */
const m25 = (() => {

const LIMIT = 100;

function createHistory(initial, changed) {
  let past = [];
  let future = [];
  let present = Object.freeze({ ...initial });

  const move = (/** @type {Record<string, any>} */ state) => {
    present = Object.freeze({ ...state });
    changed(present);
  };

  return {
    get present() {
      return present;
    },
    get canUndo() {
      return past.length > 0;
    },
    get canRedo() {
      return future.length > 0;
    },
    commit(/** @type {Record<string, any>} */ state) {
      if (same(state, present)) return false;
      past = [...past, present].slice(-LIMIT);
      future = [];
      move(state);
      return true;
    },
    undo() {
      const state = past.pop();
      if (state === undefined) return false;
      future.push(present);
      move(state);
      return true;
    },
    redo() {
      const state = future.pop();
      if (state === undefined) return false;
      past.push(present);
      move(state);
      return true;
    },
  };
}

function same(left, right) {
  const keys = Object.keys(left);
  return keys.length === Object.keys(right).length && keys.every((key) => left[key] === right[key]);
}
return { createHistory };
})();

/* ui/picture.js */
const m26 = (() => {
const { svg } = m18;

const ROUND = 6;
const HEAD_LENGTH = 8;
const HEAD_WIDTH = 5;

function drawPicture(layout, uid, language) {
  const title = `${uid}-picture-title`;
  const description = `${uid}-picture-description`;
  const frame = {
    viewBox: `0 0 ${layout.width} ${layout.height}`,
    width: Math.floor((layout.width * 5) / 4),
    height: Math.floor((layout.height * 5) / 4),
    role: "img",
    "aria-labelledby": `${title} ${description}`,
  };
  return svg(
    "svg",
    frame,
    svg("title", { id: title }, layout.title[language]),
    svg("desc", { id: description }, layout.description[language]),
    ...layout.shapes.flatMap((/** @type {any} */ shape) => marks(shape, language)),
  );
}

function marks(shape, language) {
  const label = shape.label === null ? "" : shape.label[language];
  if (shape.shape === "text") return [svg("text", { class: classes(shape.cls), x: shape.x, y: shape.y }, label)];
  if (shape.shape === "arrow") return arrow(shape, label);
  const names = shape.cls.split(" ");
  const found = [box(shape)];
  if (names.includes("shared") && !names.includes("pool")) found.push(half(shape));
  if (shape.label !== null) {
    const x = shape.x + Math.floor(shape.w / 2);
    const y = shape.y + Math.floor(shape.h / 2) + 4;
    found.push(svg("text", { class: "sl-count", x, y }, label));
  }
  return found;
}

function box(shape) {
  const rx = shape.shape === "round" ? ROUND : null;
  return svg("rect", { class: classes(shape.cls), x: shape.x, y: shape.y, width: shape.w, height: shape.h, rx });
}

function half(shape) {
  const right = shape.x + shape.w;
  const bottom = shape.y + shape.h;
  const d = `M${right} ${shape.y + ROUND}V${bottom - ROUND}Q${right} ${bottom} ${right - ROUND} ${bottom}H${shape.x + ROUND}Z`;
  return svg("path", { class: "sl-half", d });
}

function arrow(shape, label) {
  const kind = classes(shape.cls);
  const end = shape.x + shape.w;
  const back = shape.w > 0 ? end - HEAD_LENGTH : end + HEAD_LENGTH;
  const points = `${end},${shape.y} ${back},${shape.y - HEAD_WIDTH} ${back},${shape.y + HEAD_WIDTH}`;
  return [
    svg("line", { class: `${kind} sl-line`, x1: shape.x, y1: shape.y, x2: back, y2: shape.y }),
    svg("polygon", { class: `${kind} sl-head`, points }),
    svg("text", { class: `${kind} sl-arrow-label`, x: Math.floor((shape.x + end) / 2), y: shape.y - 8 }, label),
  ];
}

function classes(names) {
  return names
    .split(" ")
    .map((name) => `sl-${name}`)
    .join(" ");
}
return { drawPicture };
})();

/* ui/repair.js */
const m27 = (() => {
const { h, reconcile, setText } = m18;

function createRepair(element, buttons, context, actions) {
  const { engine, words, language } = context;
  const group = h("div", { class: "slime-lab__finding-actions" });
  buttons.append(group);
  let state = null;
  let preview = null;

  const toggle = (finding, offer, button) => {
    const wasOpen = preview !== null && preview.dataset.repair === offer.id;
    close();
    if (wasOpen) return;
    const plan = engine.repair(state, finding, offer.id);
    preview = drawPlan(plan, context, () => actions.adopt(plan.state, plan.title[language]));
    preview.dataset.repair = offer.id;
    element.append(preview);
    button.setAttribute("aria-expanded", "true");
  };
  const close = () => {
    if (preview) preview.remove();
    preview = null;
    for (const button of Array.from(group.querySelectorAll("button"))) button.setAttribute("aria-expanded", "false");
  };

  return (/** @type {any} */ one, /** @type {any} */ now) => {
    state = now.state;
    close();
    reconcile(
      group,
      one.repairs,
      (offer) => offer.id,
      (offer) => {
        const button = h("button", { type: "button", class: "slime-lab__button", "aria-expanded": "false", onclick: () => toggle(one.id, offer, button) });
        return button;
      },
      (button, offer) => setText(button, `${words.repair}: ${offer.title[language]}`),
    );
  };
}

function drawPlan(plan, context, apply) {
  const { data, words, language } = context;
  const label = (/** @type {string} */ name) => data.catalog.fields.find((/** @type {any} */ field) => field.name === name).label[language];
  const rows = plan.changes.map((/** @type {any} */ one) => h("li", {}, `${label(one.field)}: ${one.before} → ${one.after}`));
  rows.push(h("li", {}, `${words.gpus_ray}: ${plan.before.ray_gpus} → ${plan.allocation.ray_gpus}`));
  const open = plan.remaining.map((/** @type {any} */ one) => h("li", {}, `${one.id} ${one.message[language]}`));
  return h(
    "div",
    { class: "slime-lab__plan" },
    h("ul", {}, ...rows),
    open.length ? h("p", {}, words.stays_open) : null,
    open.length ? h("ul", {}, ...open) : null,
    h("button", { type: "button", class: "slime-lab__button slime-lab__button--main", onclick: apply }, words.apply),
  );
}
return { createRepair };
})();

/* ui/live.js */
const m28 = (() => {
const { fill, h, reconcile, setText, show } = m18;
const { drawPicture } = m26;
const { createRepair } = m27;

const TOTALS = ["train_gpus", "rollout_gpus", "ray_gpus", "engines", "dp"];

function createLive(section, context, actions) {
  const figure = /** @type {HTMLElement} */ (section.querySelector(".slime-lab__picture"));
  const totals = createTotals(/** @type {HTMLElement} */ (section.querySelector("[data-part=totals] ul")), context);
  const findings = createFindings(/** @type {HTMLElement} */ (section.querySelector("[data-part=findings]")), context, actions);
  return {
    update(/** @type {any} */ now) {
      figure.replaceChildren(drawPicture(now.layout, context.page.uid, context.language));
      totals(now);
      findings(now);
    },
  };
}

function createTotals(list, context) {
  list.replaceChildren();
  return (/** @type {any} */ now) => {
    const unit = now.facts.device === "cpu" ? "processes" : "gpus";
    const items = TOTALS.map((key) => ({
      key,
      label: context.words[key.endsWith("_gpus") ? `${unit}_${key.slice(0, -5)}` : key],
      value: String(now.validation.accounting[key]),
    }));
    reconcile(
      list,
      items,
      (item) => item.key,
      () => h("li", {}, h("p", {}, h("span"), h("strong"))),
      (element, item) => {
        setText(element.querySelector("span"), `${item.label} `);
        setText(element.querySelector("strong"), item.value);
      },
    );
  };
}

function createFindings(part, context, actions) {
  const { data, words, language } = context;
  const fine = h("p", { class: "slime-lab__ok" }, words.no_errors);
  const told = h("ul");
  const planned = h("ul");
  const summary = h("summary");
  const details = h("details", { class: "slime-lab__details", "data-part": "planned" }, summary, planned);
  part.replaceChildren(fine, told, details);
  const write = (/** @type {HTMLElement} */ list, /** @type {any[]} */ found, /** @type {any} */ now) =>
    reconcile(
      list,
      numbered(found),
      (entry) => entry.key,
      (entry) => createFinding(entry.one, context, actions),
      (element, entry) => {
        setText(element.querySelector("[data-part=message]"), entry.one.message[language]);
        element.slimeRepair(entry.one, now);
      },
    );
  return (/** @type {any} */ now) => {
    const all = now.validation.findings;
    const later = all.filter((/** @type {any} */ one) => one.severity === "planned");
    const names = later.map((/** @type {any} */ one) => data.catalog.fields.find((/** @type {any} */ f) => f.name === one.fields[0]).label[language]);
    show(fine, !all.some((/** @type {any} */ one) => one.severity === "error"));
    write(told, all.filter((/** @type {any} */ one) => one.severity !== "planned"), now);
    write(planned, later, now);
    setText(summary, fill(words.planned_intro, { names: [...new Set(names)].join(words.comma) }));
    show(details, later.length > 0);
  };
}

function numbered(found) {
  const seen = new Map();
  return found.map((one) => {
    const kind = `${one.id}:${one.fields.join(",")}`;
    seen.set(kind, (seen.get(kind) || 0) + 1);
    return { one, key: `${kind}:${seen.get(kind)}` };
  });
}

function createFinding(one, context, actions) {
  const { words } = context;
  const buttons = h("div", { class: "slime-lab__finding-actions" });
  const element = h(
    "li",
    { class: `slime-lab__finding--${one.severity}` },
    h("p", {}, h("strong", {}, words[`severity_${one.severity}`]), " ", h("code", {}, one.id), " ", h("span", { "data-part": "message" })),
    buttons,
  );
  if (one.severity === "error" && one.fields.length) {
    buttons.append(h("button", { type: "button", class: "slime-lab__button", onclick: () => actions.goTo(one.fields) }, words.show_field));
  }
  element.slimeRepair = createRepair(element, buttons, context, actions);
  return element;
}
return { createLive };
})();

/* ui/storage.js */
const m29 = (() => {

const SCHEMA = 1;

function createStorage(project, lab) {
  const key = `slime-lab:${SCHEMA}:${project}:${lab}`;
  return {
    load() {
      try {
        const raw = JSON.parse(localStorage.getItem(key) || "null");
        return raw !== null && typeof raw === "object" && !Array.isArray(raw) ? raw : null;
      } catch (error) {
        return null;
      }
    },
    save(state) {
      try {
        localStorage.setItem(key, JSON.stringify(state));
      } catch (error) {
      }
    },
  };
}
return { createStorage };
})();

/* ui/tables.js */
const m30 = (() => {
const { h, reconcile, setText } = m18;

function createTables(section, context) {
  const { data, words, language } = context;
  const fields = new Map(data.catalog.fields.map((/** @type {any} */ field) => [field.name, field]));
  const body = (/** @type {string} */ part) => section.querySelector(`[data-part=${part}] tbody`);
  const layout = body("layout");
  const choices = body("choices");

  const inWords = (name, value) => {
    const field = fields.get(name);
    if (field.type === "enum") return field.values.find((/** @type {any} */ one) => one.value === value).label[language];
    if (field.type === "bool") return value ? words.yes_ : words.no_;
    return value === "" ? words.empty : String(value);
  };

  return {
    update(/** @type {any} */ now) {
      if (layout) {
        rows(layout, now.layout.table.map((/** @type {any} */ row) => [row.what[language], String(row.gpus), row.detail[language]]), []);
        const heads = section.querySelectorAll("[data-part=layout] thead p");
        if (heads[1]) setText(heads[1], now.facts.device === "cpu" ? words.processes : words.gpus);
      }
      if (choices) {
        rows(choices, now.view.visible.map((/** @type {string} */ name) => [fields.get(name).label[language], name, inWords(name, now.state[name])]), [1]);
      }
      const why = body("why");
      if (why) {
        rows(
          why,
          now.arguments.map((/** @type {any} */ line) => [
            line.text,
            line.status === "planned" ? `${line.why[language]} (${words.severity_planned})` : line.why[language],
            line.fields.map((/** @type {string} */ name) => fields.get(name).label[language]).join(", "),
          ]),
          [0],
        );
      }
    },
  };
}

function rows(body, wanted, code) {
  if (!body.hasAttribute("data-live")) {
    body.replaceChildren();
    body.setAttribute("data-live", "");
  }
  reconcile(
    body,
    wanted.map((cells, at) => ({ cells, at })),
    (row) => String(row.at),
    (row) => h("tr", {}, ...row.cells.map((/** @type {string} */ _, /** @type {number} */ column) => h("td", {}, h("p", {}, h(code.includes(column) ? "code" : "span"))))),
    (element, row) => row.cells.forEach((/** @type {string} */ cell, /** @type {number} */ column) => setText(element.children[column].firstChild.firstChild, cell)),
  );
}
return { createTables };
})();

/* ui/lab.js */
const m31 = (() => {
const { createControls } = m20;
const { fill, h, setText } = m18;
const { createFiles } = m24;
const { createHistory } = m25;
const { createLive } = m28;
const { createStorage } = m29;
const { createTables } = m30;

const STATUS_MILLISECONDS = 5000;

function createLab(section, engine, data) {
  const page = JSON.parse(/** @type {any} */ (section.querySelector(".slime-lab__page")).textContent);
  const storage = createStorage(data.project, page.name);
  const status = createStatus();
  const context = { engine, data, page, language: data.language, words: data.words, say: status.say };

  const kept = storage.load();
  const history = createHistory(kept ? engine.sanitise(kept).state : page.state, (state) => {
    storage.save(state);
    show(state);
  });

  const actions = {
    change(/** @type {string} */ field, /** @type {any} */ value) {
      let result;
      try {
        result = engine.change(history.present, field, value);
      } catch (error) {
        const reason = /** @type {any} */ (error).reason;
        if (!reason) throw error;
        return reason[context.language];
      }
      history.commit(result.state);
      const said = new Set(result.linked.map((/** @type {any} */ link) => link.announce[context.language]));
      if (said.size) status.say([...said].join(" "));
      return null;
    },
    adopt(/** @type {any} */ state, /** @type {string} */ message) {
      if (history.commit(state)) status.say(message);
    },
    undo: () => history.undo() && status.say(data.words.undone),
    redo: () => history.redo() && status.say(data.words.redone),
    goTo: (/** @type {string[]} */ fields) => controls.goTo(fields.find((name) => history.present[name] === "") ?? fields[0]),
  };

  const bar = createBar(context, history, actions);
  const controls = createControls(context, actions);
  const live = createLive(section, context, actions);
  const files = createFiles(section, context);
  const tables = createTables(section, context);

  function show(/** @type {any} */ state) {
    const now = {
      state,
      view: engine.view(state),
      validation: engine.validate(state),
      layout: engine.layout(state),
      arguments: engine.arguments(state),
      environment: engine.environment(state),
      artifacts: engine.artifacts(state, data.provenance),
      facts: data.catalog.models[state.model].facts,
    };
    bar.update();
    controls.update(now);
    live.update(now);
    files.update(now);
    tables.update(now);
  }

  const livePanel = /** @type {HTMLElement} */ (section.querySelector(".slime-lab__live"));
  const main = h("div", { class: "slime-lab__main" });
  livePanel.before(bar.element, controls.steps, main);
  main.append(controls.form, livePanel);
  section.append(status.element);
  section.classList.add("slime-lab--ready");
  section.addEventListener("keydown", (event) => keys(event, actions));
  show(history.present);
  files.settle();
  if (kept) status.say(data.words.restored);
}

function keys(event, actions) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (!(event.ctrlKey || event.metaKey) || event.altKey || event.key.toLowerCase() !== "z") return;
  if (target.matches("textarea, input[type=text], input[type=number]")) return;
  event.preventDefault();
  if (event.shiftKey) actions.redo();
  else actions.undo();
}

function createBar(context, history, actions) {
  const { engine, data, page, language, words } = context;
  const button = (/** @type {string} */ label, /** @type {() => void} */ onclick, /** @type {string|null} */ title = null) =>
    h("button", { type: "button", class: "slime-lab__button", onclick, title }, label);
  const undo = button(words.undo, actions.undo, "Ctrl+Z");
  const redo = button(words.redo, actions.redo, "Ctrl+Shift+Z");
  const reset = button(words.reset, () => actions.adopt(page.state, words.was_reset));
  const presets = data.catalog.presets.map((/** @type {any} */ preset) =>
    button(
      preset.label[language],
      () => actions.adopt(engine.preset(preset.id), fill(words.preset_loaded, { name: preset.label[language] })),
      preset.help[language],
    ),
  );
  const element = h(
    "div",
    { class: "slime-lab__bar" },
    h("div", { class: "slime-lab__bar-group", role: "group", "aria-label": words.presets },
      h("span", { class: "slime-lab__bar-label", "aria-hidden": "true" }, words.presets), ...presets),
    h("div", { class: "slime-lab__bar-group" }, undo, redo, reset),
  );
  return {
    element,
    update() {
      undo.setAttribute("aria-disabled", String(!history.canUndo));
      redo.setAttribute("aria-disabled", String(!history.canRedo));
    },
  };
}

function createStatus() {
  const text = h("span");
  const element = h("div", { class: "slime-lab__status", role: "status" }, text);
  let timer = null;
  return {
    element,
    say(/** @type {string} */ message) {
      setText(text, message);
      clearTimeout(timer);
      timer = setTimeout(() => setText(text, ""), STATUS_MILLISECONDS);
    },
  };
}
return { createLab };
})();

/* ui/main.js */
const m32 = (() => {
const { createEngine } = m17;
const { createLab } = m31;

function start() {
  const data = /** @type {any} */ (window).SlimeLabData;
  if (!data) return;
  const engine = createEngine(data.catalog);
  for (const section of Array.from(document.querySelectorAll("[data-slime-lab]"))) {
    createLab(/** @type {HTMLElement} */ (section), engine, data);
  }
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
})();
})();
