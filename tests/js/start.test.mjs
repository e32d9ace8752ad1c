import assert from "node:assert/strict";
import { test } from "node:test";

import { createEngine } from "../../sphinx_slime_lab/js/src/core/engine.js";
import { fragmentAfterEdit, start } from "../../sphinx_slime_lab/js/src/model/start.js";
import { corpus } from "./support.mjs";

const engine = createEngine(corpus.catalog);
const page = engine.preset("first");
const none = { fragment: "", keptB: null, keptA: null, page };

test("without a link and anything kept, the page's experiment is shown", () => {
  const shown = start(engine, none);
  assert.equal(shown.source, "page");
  assert.deepEqual(shown.state, page);
  assert.equal(shown.a, null);
  assert.equal(start(engine, { ...none, fragment: "#a-heading" }).source, "page");
});

test("what was kept goes before the page, with what of it no longer fits", () => {
  const shown = start(engine, { ...none, keptB: { model: "tiny", layout: "sideways" }, keptA: { nodes: 2 } });
  assert.equal(shown.source, "kept");
  assert.equal(shown.state.model, "tiny");
  assert.equal(shown.a.nodes, 2);
  assert.deepEqual(shown.ignored.map((one) => one.key), ["layout"]);
});

test("a link goes before what was kept and is only visited", () => {
  const keptB = engine.preset("laptop");
  const shown = start(engine, { ...none, fragment: "#lab=1;scale", keptB, keptA: page });
  assert.equal(shown.source, "link");
  assert.deepEqual(shown.state, engine.preset("scale"));
  assert.deepEqual(shown.a, page);
  assert.equal(shown.isVisiting, true);
  const edited = engine.change(shown.state, "pd", false).state;
  const fragment = fragmentAfterEdit(engine, { isVisiting: true, state: edited, a: null });
  assert.deepEqual(start(engine, { ...none, fragment, keptB }).state, edited);
});

test("a link to what is kept already, or to a browser that kept nothing, is no visit", () => {
  const keptB = engine.change(engine.preset("scale"), "ib", "mlx5_0").state;
  const shown = start(engine, { ...none, fragment: "lab=1;scale", keptB });
  assert.equal(shown.isVisiting, false);
  assert.equal(shown.state.ib, "mlx5_0");
  assert.equal(start(engine, { ...none, fragment: "lab=1;scale" }).isVisiting, false);
  assert.equal(fragmentAfterEdit(engine, { isVisiting: false, state: keptB, a: null }), "");
});

test("a comparison's link brings its own A and leaves the kept one alone", () => {
  const shown = start(engine, { ...none, fragment: "lab=1;first&lab-a=1;laptop", keptA: { nodes: 4 } });
  assert.equal(shown.a.model, "tiny");
  assert.equal(shown.isVisiting, true);
});

test("a link that is refused leaves what was kept, with the reason", () => {
  const shown = start(engine, { ...none, fragment: "lab=7;first", keptB: { model: "tiny" } });
  assert.equal(shown.source, "kept");
  assert.equal(shown.state.model, "tiny");
  assert.match(shown.problem.en, /version 7/);
});
