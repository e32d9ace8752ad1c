// Every case of tests/corpus in JavaScript; tests/experiment/test_corpus.py runs the same files in Python.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";

import { createEngine } from "../../sphinx_slime_lab/js/src/core/engine.js";
import { ChoiceError } from "../../sphinx_slime_lab/js/src/core/errors.js";
import { corpus } from "./support.mjs";

const engine = createEngine(corpus.catalog);

function act(state, step) {
  if ("choices" in step) return engine.sanitise(step.choices);
  if ("change" in step) {
    const [[field, value]] = Object.entries(step.change);
    return engine.change(state, field, value);
  }
  if ("preset" in step) return { state: engine.preset(step.preset) };
  return engine.repair(state, step.repair.finding, step.repair.repair);
}

const pick = (object, keys) => Object.fromEntries(keys.map((key) => [key, object[key]]));

function observe(state, answer, key, wanted) {
  const { findings, accounting } = engine.validate(state);
  const first = (id) => findings.find((finding) => finding.id === id);
  const ids = (severity) => findings.filter((one) => one.severity === severity).map((one) => one.id);
  const perKey = (map) => Object.fromEntries(Object.keys(wanted).map((name) => [name, map(name)]));
  switch (key) {
    case "ignored": return answer.ignored.map((one) => one.key).sort();
    case "nearest": return perKey((name) => answer.ignored.find((one) => one.key === name)?.nearest);
    case "state": return pick(state, Object.keys(wanted));
    case "linked": return answer.linked.map((link) => link.field);
    case "errors": return ids("error");
    case "notes": return ids("note");
    case "planned": return ids("planned");
    case "accounting": return pick(accounting, Object.keys(wanted));
    case "repairs": return perKey((id) => first(id).repairs.map((one) => one.id));
    case "remaining": return answer.remaining.map((finding) => finding.id);
    case "message": return perKey((id) => pick(first(id).message, Object.keys(wanted[id])));
  }
  const files = engine.artifacts(state, corpus.provenance);
  const lines = (name) => files[name].split("\n");
  switch (key) {
    case "files": return Object.keys(files);
    case "sha256": return perKey((name) => createHash("sha256").update(files[name]).digest("hex"));
    case "lines": {
      const has = (name, line) => lines(name).some((one) => one.trim() === line.trim());
      return perKey((name) => wanted[name].filter((line) => has(name, line)));
    }
    case "absent": return perKey((name) => wanted[name].filter((part) => !lines(name).some((one) => one.includes(part))));
  }
  throw new Error(`unknown expectation ${key}`);
}

for (const { id, purpose, steps } of corpus.cases) {
  test(`${id}: ${purpose}`, () => {
    let state = engine.defaults();
    steps.forEach((step, index) => {
      const { refused: wanted = false, ...expect } = step.expect ?? {};
      let answer = null;
      let refused = false;
      try {
        answer = act(state, step);
        state = answer.state;
      } catch (error) {
        if (!(error instanceof ChoiceError)) throw error;
        refused = true;
      }
      assert.equal(refused, wanted, `step ${index + 1}: refused`);
      for (const [key, value] of Object.entries(expect)) {
        assert.deepEqual(observe(state, answer, key, value), value, `step ${index + 1}: ${key}`);
      }
    });
  });
}
