import assert from "node:assert/strict";
import { test } from "node:test";

import { evaluate } from "../../sphinx_slime_lab/js/src/core/expression.js";
import { PREDICATES } from "../../sphinx_slime_lab/js/src/core/predicates.js";
import { quote } from "../../sphinx_slime_lab/js/src/core/quoting.js";
import { nearest } from "../../sphinx_slime_lab/js/src/core/texts.js";
import { corpus } from "./support.mjs";

test("expressions give the value or the error code of the table", () => {
  const names = Object.assign(Object.create(null), corpus.expressions.names);
  for (const { expression, tree, value, error } of corpus.expressions.cases) {
    if (error === undefined) assert.deepEqual(evaluate(tree, names), value, expression);
    else assert.throws(() => evaluate(tree, names), { code: error }, expression);
  }
});

test("predicates accept and reject the texts of the table, and the table names them all", () => {
  assert.deepEqual(Object.keys(corpus.predicates).sort(), Object.keys(PREDICATES).sort());
  for (const [name, { accept, reject }] of Object.entries(corpus.predicates)) {
    for (const text of accept) assert.equal(PREDICATES[name](text), true, `${name} ${JSON.stringify(text)}`);
    for (const text of reject) assert.equal(PREDICATES[name](text), false, `${name} ${JSON.stringify(text)}`);
  }
});

test("quote writes the words of the table", () => {
  for (const { text, word } of corpus.quoting) assert.equal(quote(text), word);
});

test("nearest proposes the names of the table", () => {
  for (const one of corpus.nearest) assert.equal(nearest(one.name, one.known), one.nearest, one.name);
});
