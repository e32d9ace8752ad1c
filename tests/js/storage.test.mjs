import assert from "node:assert/strict";
import { test } from "node:test";

import { createStorage } from "../../sphinx_slime_lab/js/src/model/storage.js";

/** A browser's storage: one map for all tabs, with a limit of characters. */
function shelf(limit = Infinity) {
  const kept = new Map();
  return {
    kept,
    getItem: (key) => kept.get(key) ?? null,
    removeItem: (key) => void kept.delete(key),
    setItem(key, value) {
      if (value.length > limit) throw new DOMException("no room", "QuotaExceededError");
      kept.set(key, value);
    },
  };
}

const names = { project: "docs", schema: 2, lab: "lab" };
const open = (backend, writer, other = {}) => createStorage(backend, { ...names, writer, ...other });
const [key] = (() => {
  const backend = shelf();
  open(backend, "one").save("b", { nodes: 1 });
  return backend.kept.keys();
})();

test("a reload continues where the page was", () => {
  const backend = shelf();
  assert.deepEqual(open(backend, "one").load("b"), { status: "empty", choices: null });
  const before = open(backend, "one");
  assert.equal(before.save("b", { nodes: 2 }).status, "saved");
  assert.equal(before.save("b", { nodes: 3 }).status, "saved");
  const after = open(backend, "two");
  assert.deepEqual(after.load("b"), { status: "kept", choices: { nodes: 3 } });
  assert.equal(after.save("b", { nodes: 4 }).status, "saved");
});

test("A and B, projects, schemas and labs are kept apart", () => {
  const backend = shelf();
  const store = open(backend, "one");
  store.save("a", { nodes: 1 });
  store.save("b", { nodes: 2 });
  assert.deepEqual(store.load("a").choices, { nodes: 1 });
  for (const other of [{ project: "other" }, { schema: 3 }, { lab: "second" }]) {
    assert.equal(open(backend, "two", other).load("b").status, "empty");
  }
  assert.equal(store.save("a", null).status, "saved");
  assert.equal(open(backend, "two").load("a").status, "empty");
  assert.deepEqual(open(backend, "two").load("b").choices, { nodes: 2 });
});

test("the slower of two tabs is told and nothing is overwritten until the reader chooses", () => {
  const backend = shelf();
  open(backend, "zero").save("b", { nodes: 1 });
  const one = open(backend, "one");
  const two = open(backend, "two");
  one.load("b");
  two.load("b");
  assert.equal(one.save("b", { nodes: 2 }).status, "saved");
  assert.deepEqual(two.save("b", { nodes: 3 }), { status: "conflict", theirs: { nodes: 2 } });
  assert.deepEqual(two.save("b", { nodes: 4 }), { status: "conflict", theirs: { nodes: 2 } });
  assert.equal(open(backend, "three").load("b").choices.nodes, 2);
  assert.equal(two.keepMine("b", { nodes: 4 }).status, "saved");
  assert.deepEqual(one.save("b", { nodes: 5 }), { status: "conflict", theirs: { nodes: 4 } });
  assert.deepEqual(one.takeTheirs("b").choices, { nodes: 4 });
  assert.equal(one.save("b", { nodes: 5 }).status, "saved");
});

test("two tabs that wrote the same revision at once still notice each other", () => {
  const backend = shelf();
  const one = open(backend, "one");
  one.load("b");
  const two = open(backend, "two");
  two.load("b");
  one.save("b", { nodes: 2 });
  const written = backend.kept.get(key);
  backend.kept.delete(key); // as if two had looked before one wrote
  two.save("b", { nodes: 3 });
  assert.equal(JSON.parse(written).revision, JSON.parse(backend.kept.get(key)).revision);
  assert.deepEqual(one.save("b", { nodes: 4 }), { status: "conflict", theirs: { nodes: 3 } });
});

test("clearing A in one tab is a conflict for the other one", () => {
  const backend = shelf();
  const one = open(backend, "one");
  const two = open(backend, "two");
  one.save("a", { nodes: 1 });
  two.load("a");
  one.save("a", null);
  assert.deepEqual(two.save("a", { nodes: 2 }), { status: "conflict", theirs: null });
});

test("a storage event says which side another tab wrote, once", () => {
  const backend = shelf();
  const one = open(backend, "one");
  const two = open(backend, "two");
  one.save("b", { nodes: 2 });
  const event = { key, newValue: backend.kept.get(key) };
  assert.deepEqual(two.noticed(event), { side: "b", theirs: { nodes: 2 } });
  assert.equal(one.noticed(event), null);
  two.takeTheirs("b");
  assert.equal(two.noticed(event), null);
  assert.equal(two.noticed({ key: "another", newValue: "x" }), null);
  assert.equal(two.noticed({ key: null, newValue: null }), null);
  assert.equal(two.noticed({ key, newValue: "{" }), null);
});

test("what cannot be read counts as nothing, is said to be damaged, and is moved aside", () => {
  const broken = ["", "{", "[]", "null", "3", '{"format":1}', '{"format":2,"revision":1,"writer":"x","choices":{}}',
    '{"format":1,"revision":0,"writer":"x","choices":{}}', '{"format":1,"revision":1,"writer":"x","choices":[]}',
    '{"format":1,"revision":1.5,"writer":"x","choices":{}}', '{"format":1,"revision":1,"writer":7,"choices":{}}'];
  for (const text of broken) {
    const backend = shelf();
    backend.kept.set(key, text);
    const store = open(backend, "one");
    assert.deepEqual(store.load("b"), { status: "damaged", choices: null }, text);
    assert.equal(backend.kept.get(`${key}:unreadable`), text);
    assert.equal(store.save("b", { nodes: 1 }).status, "saved");
    assert.deepEqual(open(backend, "two").load("b").choices, { nodes: 1 });
  }
});

test("megabytes in the storage are not parsed", () => {
  const backend = shelf();
  backend.kept.set(key, `{"format":1,"revision":1,"writer":"x","choices":{"hf":"${"x".repeat(4_000_000)}"}}`);
  assert.equal(open(backend, "one").load("b").status, "damaged");
});

test("a full storage is reported and what it held stays", () => {
  const backend = shelf(200);
  const store = open(backend, "one");
  assert.equal(store.save("b", { hf: "/data" }).status, "saved");
  assert.equal(store.save("b", { hf: "x".repeat(200) }).status, "full");
  assert.deepEqual(open(backend, "two").load("b").choices, { hf: "/data" });
  assert.equal(store.save("b", { hf: "/mnt" }).status, "saved");
});

test("a browser that allows no storage is reported, and nothing throws", () => {
  const refuse = () => { throw new DOMException("denied", "SecurityError"); };
  for (const backend of [null, { getItem: refuse, setItem: refuse, removeItem: refuse }]) {
    const store = open(backend, "one");
    assert.deepEqual(store.load("b"), { status: "blocked", choices: null });
    assert.deepEqual(store.save("b", { nodes: 1 }), { status: "blocked", theirs: null });
    assert.deepEqual(store.keepMine("b", { nodes: 1 }), { status: "blocked", theirs: null });
  }
});
