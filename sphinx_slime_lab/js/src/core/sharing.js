// @ts-check
/** Links: an experiment in the fragment of an address; twin of `slime/experiment/sharing.py`. */

import { readValue, sanitise } from "./choices.js";
import { LoadError } from "./errors.js";
import { knownMapping } from "./importing.js";
import { readJson } from "./json_text.js";
import { PREDICATES } from "./predicates.js";
import { byCodePoint, fill, nearest, shorten } from "./texts.js";

/** @typedef {import("./tables.js").Tables} Tables */
/** @typedef {import("./tables.js").State} State */
/** @typedef {import("./tables.js").Scalar} Scalar */
/** @typedef {import("./choices.js").Ignored} Ignored */
/** @typedef {{state: State, ignored: Ignored[]}} Side */

const MAXIMUM_CHARACTERS = 8192;
const MAXIMUM_PARTS = 128;
const OWN = "lab";
const BASELINE = "lab-a";
const EARLIER_OWN = "experiment";
const EARLIER_BASELINE = "baseline";
const VERSION = /^[1-9][0-9]{0,3}$/;
const INTEGER = /^(0|-?[1-9][0-9]{0,14})$/;

/**
 * The link of an experiment, and of A beside it; `withheld` are the choices whose values its reader will not get.
 * @param {Tables} tables
 * @param {State} state
 * @param {State | null} [a]
 * @returns {{fragment: string, withheld: string[], withheld_a: string[]}}
 */
export function share(tables, state, a = null) {
  const own = encode(tables, state);
  const withheld = withheldOf(tables, state, own);
  if (a === null) return { fragment: `${OWN}=${own}`, withheld, withheld_a: [] };
  const other = encode(tables, a);
  return { fragment: `${OWN}=${own}&${BASELINE}=${other}`, withheld, withheld_a: withheldOf(tables, a, other) };
}

/**
 * Read an address or its fragment; null when no experiment stands in it. Throws `LoadError`.
 * @param {Tables} tables
 * @param {string} link
 * @returns {{version: number, b: Side, a: Side | null} | null}
 */
export function receive(tables, link) {
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

/** @param {Tables} tables */
function tooLarge(tables) {
  return new LoadError(fill(tables.data.messages.link_large, { maximum: MAXIMUM_CHARACTERS }));
}

/**
 * The parameters that are a link's, percent-decoded; others belong to someone else.
 * @param {Tables} tables
 * @param {string} fragment
 */
function parameters(tables, fragment) {
  const { messages } = tables.data;
  /** @type {Map<string, string>} */
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

/**
 * @param {string} part
 * @returns {[string, string | null]}
 */
function splitOnce(part) {
  const at = part.indexOf("=");
  return at < 0 ? [part, null] : [part.slice(0, at), part.slice(at + 1)];
}

/** @param {string} text */
function isDecimal(text) {
  return PREDICATES.is_positive_decimal(text);
}

/**
 * @param {any} choice
 * @param {Scalar} value
 */
function travels(choice, value) {
  return choice.share && (choice.type !== "text" || value === "" || isDecimal(String(value)));
}

/**
 * The shortest link over the starting points of the newest version; the first of equals.
 * @param {Tables} tables
 * @param {State} state
 * @returns {string}
 */
function encode(tables, state) {
  const { fields, links } = tables.data;
  /** @type {string | null} */
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

/**
 * @param {Tables} tables
 * @param {State} state
 * @param {string} encoded
 * @returns {string[]}
 */
function withheldOf(tables, state, encoded) {
  const arrived = decode(tables, decodeURIComponent(encoded))[1].state;
  const names = tables.data.fields.map((/** @type {any} */ choice) => choice.name);
  return names.filter((/** @type {string} */ name) => arrived[name] !== state[name]);
}

/**
 * @param {Tables} tables
 * @param {string} text
 * @returns {[number, Side]}
 */
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
  /** @type {Ignored[]} */
  const ignored = [];
  /** @type {Map<string, string>} */
  const given = new Map();
  for (const part of parts.slice(2)) {
    const [name, value] = splitOnce(part);
    if (value === null) ignored.push(problem(tables, "link_part", part));
    else if (given.has(name)) ignored.push(problem(tables, "link_twice", name));
    else given.set(name, value);
  }
  /** @type {[string, string][]} */
  const values = Object.entries(start.values).map(([name, value]) => [name, String(value)]);
  const before = migrate(tables, version, new Map(values), true);
  return [version, readSide(tables, before, migrate(tables, version, given), ignored)];
}

/**
 * @param {Tables} tables
 * @param {string} text
 * @returns {number}
 */
function versionOf(tables, text) {
  const { links, messages } = tables.data;
  if (!VERSION.test(text)) throw new LoadError(fill(messages.link_version, { got: shorten(text) }));
  const version = Number(text);
  if (version <= links.version) return version;
  throw new LoadError(fill(messages.link_newer, { got: version, known: links.version }));
}

/**
 * The given values in the names and words of the newest version; a starting point also gets what `set` writes down.
 * @param {Tables} tables
 * @param {number} version
 * @param {Map<string, string>} given
 * @param {boolean} [isStart]
 */
function migrate(tables, version, given, isStart = false) {
  const { links } = tables.data;
  let current = given;
  for (let number = version; number < links.version; number += 1) {
    for (const migration of links.migrations) {
      if (migration.from !== number) continue;
      /** @type {Map<string, string>} */
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

/**
 * Version 0: all choices of an earlier page as JSON.
 * @param {Tables} tables
 * @param {string} text
 * @returns {Side}
 */
function decodeEarlier(tables, text) {
  const raw = knownMapping(tables, readJson(tables.data.messages, text));
  /** @type {Ignored[]} */
  const ignored = [];
  /** @type {Map<string, string>} */
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

/**
 * Read `given` over `before`, the starting point; what cannot be read leaves the starting point's value.
 * @param {Tables} tables
 * @param {Map<string, string>} before
 * @param {Map<string, string>} given
 * @param {Ignored[]} ignored
 * @returns {Side}
 */
function readSide(tables, before, given, ignored) {
  /** @type {State} */
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

/**
 * @param {Tables} tables
 * @param {string} name
 * @param {string} text
 * @param {State} values
 * @param {Ignored[]} ignored
 */
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

/**
 * The value of a choice's own type, or null; nothing is guessed.
 * @param {any} choice
 * @param {string} text
 * @returns {Scalar | null}
 */
function parse(choice, text) {
  if (choice.type === "bool") return text === "true" ? true : text === "false" ? false : null;
  if (choice.type === "int") return INTEGER.test(text) ? Number(text) : null;
  return choice.type === "enum" || text === "" || isDecimal(text) ? text : null;
}

/**
 * @param {Tables} tables
 * @param {string} message
 * @param {string} name
 * @param {Record<string, any>} [slots]
 * @param {string} [kind]
 * @returns {Ignored}
 */
function problem(tables, message, name, slots = {}, kind = "invalid") {
  const key = shorten(name);
  return { key, kind, reason: fill(tables.data.messages[message], { key, ...slots }), nearest: null };
}
