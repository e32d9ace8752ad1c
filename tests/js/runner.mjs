// Drives the JavaScript engine for the Python tests: one JSON request per line on stdin, one answer per line on stdout.
// The first line is the catalogue. Mappings are written with sorted keys, so that answers compare as bytes.

import readline from "node:readline";

import { createEngine } from "../../sphinx_slime_lab/js/src/core/engine.js";
import { ChoiceError, ExpressionError, LoadError } from "../../sphinx_slime_lab/js/src/core/errors.js";
import { evaluate } from "../../sphinx_slime_lab/js/src/core/expression.js";
import { PREDICATES } from "../../sphinx_slime_lab/js/src/core/predicates.js";
import { quote } from "../../sphinx_slime_lab/js/src/core/quoting.js";
import { byCodePoint, nearest } from "../../sphinx_slime_lab/js/src/core/texts.js";

const sortKeys = (_key, value) => {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
  return Object.fromEntries(Object.keys(value).sort(byCodePoint).map((key) => [key, value[key]]));
};

const functions = {
  evaluate: (tree, names) => evaluate(tree, names),
  predicate: (name, text) => PREDICATES[name](text),
  quote,
  nearest: (name, known) => nearest(name, known),
};

function answer(engine, method, args) {
  try {
    const apply = functions[method] ?? engine[method];
    return { value: apply(...args) };
  } catch (error) {
    if (error instanceof ExpressionError) return { error: error.code };
    if (error instanceof ChoiceError) return { refused: error.reason, nearest: error.nearest, field: error.field };
    if (error instanceof LoadError) return { refused: error.reason };
    throw error;
  }
}

let engine = null;
for await (const line of readline.createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  if (line === "") continue;
  const request = JSON.parse(line);
  if (engine === null) {
    engine = createEngine(request);
    continue;
  }
  const [method, ...args] = request;
  process.stdout.write(`${JSON.stringify(answer(engine, method, args), sortKeys)}\n`);
}
