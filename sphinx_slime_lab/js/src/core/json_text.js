// @ts-check
/** Strict JSON from outside, judged before anything is built; twin of `slime/experiment/json_text.py`. */

import { LoadError } from "./errors.js";
import { fill, shorten } from "./texts.js";

/** @typedef {import("./texts.js").Text} Text */

const MAXIMUM_BYTES = 256 * 1024;
const MAXIMUM_DEPTH = 32;
const NEAR_CHARACTERS = 24;

const STRING = /"[^"\\\u0000-\u001f]*(?:\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4})[^"\\\u0000-\u001f]*)*"/.source;
const NUMBER = /-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?/.source;
const SPACE = /[ \t\n\r]*/y;
const SCALAR = new RegExp(`${STRING}|${NUMBER}|true|false|null`, "y");
const KEY = new RegExp(`(${STRING})[ \\t\\n\\r]*:`, "y");

/**
 * The data of a JSON text. Throws `LoadError` with the line.
 * @param {Record<string, Text>} messages
 * @param {string} text
 * @returns {any}
 */
export function readJson(messages, text) {
  if (isLarge(text)) throw new LoadError(fill(messages.json_large, { maximum: MAXIMUM_BYTES }));
  const body = text.startsWith("\ufeff") ? text.slice(1) : text;
  walk(messages, body);
  return JSON.parse(body);
}

/** @param {string} text */
function isLarge(text) {
  if (text.length > MAXIMUM_BYTES) return true;
  return text.length * 3 > MAXIMUM_BYTES && new TextEncoder().encode(text).length > MAXIMUM_BYTES;
}

/**
 * @param {string} text
 * @param {number} at
 */
function lineOf(text, at) {
  let line = 1;
  for (let index = text.indexOf("\n"); index >= 0 && index < at; index = text.indexOf("\n", index + 1)) line += 1;
  return line;
}

/**
 * @param {Record<string, Text>} messages
 * @param {string} text
 * @param {number} at
 * @returns {LoadError}
 */
function syntaxError(messages, text, at) {
  const line = lineOf(text, at);
  if (at >= text.length) return new LoadError(fill(messages.json_cut, { line }));
  const near = [...text.slice(at, at + 2 * NEAR_CHARACTERS)].slice(0, NEAR_CHARACTERS).join("");
  return new LoadError(fill(messages.json_syntax, { line, near: shorten(near) }));
}

/**
 * Throws `LoadError` unless the text is one JSON value within the limits.
 * @param {Record<string, Text>} messages
 * @param {string} text
 */
function walk(messages, text) {
  /** @type {(Set<string> | null)[]} null for a list */
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

/**
 * @param {Record<string, Text>} messages
 * @param {RegExp} pattern
 * @param {string} text
 * @param {number} at
 */
function endOf(messages, pattern, text, at) {
  pattern.lastIndex = at;
  if (!pattern.test(text)) throw syntaxError(messages, text, at);
  return pattern.lastIndex;
}

/**
 * @param {Record<string, Text>} messages
 * @param {string} text
 * @param {number} at
 * @param {Set<string>} seen
 */
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
