// Every stored link of tests/corpus/links in JavaScript; tests/experiment/test_sharing.py reads the same files.

import assert from "node:assert/strict";
import { test } from "node:test";

import { createEngine } from "../../sphinx_slime_lab/js/src/core/engine.js";
import { LoadError } from "../../sphinx_slime_lab/js/src/core/errors.js";
import { corpus } from "./support.mjs";

const engine = createEngine(corpus.catalog);

function observe(side, wanted) {
  if (wanted === null) return side;
  return {
    state: Object.fromEntries(Object.keys(wanted.state).map((name) => [name, side.state[name]])),
    ignored: side.ignored.map(({ key, kind, nearest }) => ({ key, kind, nearest })),
  };
}

for (const { id, purpose, link, expect } of corpus.links) {
  test(`${id}: ${purpose}`, () => {
    if ("refused" in expect) {
      assert.throws(() => engine.receive(link), (error) => error instanceof LoadError && error.reason.en === expect.refused);
      return;
    }
    const received = engine.receive(link);
    if ("none" in expect) assert.equal(received, null);
    else {
      assert.equal(received.version, expect.version);
      assert.deepEqual(observe(received.b, expect.b), expect.b);
      assert.deepEqual(observe(received.a, expect.a), expect.a);
    }
    assert.equal({}.polluted, undefined);
  });
}

test("megabytes are refused before they are taken apart", () => {
  for (const link of [`lab=1;first;${"nodes=2;".repeat(500_000)}`, "😀".repeat(8193), `experiment=${"[".repeat(1_000_000)}`]) {
    assert.throws(() => engine.receive(link), { message: /longer than 8192 characters/ });
  }
  assert.throws(() => engine.receive(`lab=1;first${";a=b".repeat(1000)}`), { message: /longer than 8192 characters/ });
});
