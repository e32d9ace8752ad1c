import assert from "node:assert/strict";
import { test } from "node:test";

import { createEngine } from "../../sphinx_slime_lab/js/src/core/engine.js";
import { createSession } from "../../sphinx_slime_lab/js/src/model/session.js";
import { createStorage } from "../../sphinx_slime_lab/js/src/model/storage.js";
import { corpus } from "./support.mjs";

const engine = createEngine(corpus.catalog);
const page = engine.preset("first");

/** A browser with one storage; each call opens a tab of it. */
function createBrowser() {
  const kept = new Map();
  const backend = {
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => kept.set(key, value),
    removeItem: (key) => kept.delete(key),
  };
  let tabs = 0;
  return {
    kept,
    open(fragment = "") {
      const address = {
        fragment,
        read: () => address.fragment,
        write: (next) => (address.fragment = next),
        leave: () => (address.fragment = ""),
      };
      tabs += 1;
      const storage = createStorage(backend, { project: "p", schema: 1, lab: "lab", writer: `tab-${tabs}` });
      return { session: createSession(engine, storage, page, address), address };
    },
  };
}

const edit = (session, field, value) => {
  const { state, linked } = engine.change(session.state, field, value);
  return session.commit(state, linked.map((one) => one.announce));
};

test("A is no part of B's history and survives edits, undo, redo and a reload", () => {
  const browser = createBrowser();
  const { session } = browser.open();
  session.setA(session.state);
  assert.equal(session.canUndo, false);
  edit(session, "model", "tiny");
  session.undo();
  session.redo();
  assert.deepEqual(session.a, page);
  const again = browser.open().session;
  assert.equal(again.state.model, "tiny");
  assert.deepEqual(again.a, page);
  assert.deepEqual(again.setA(null), page);
  assert.equal(again.state.model, "tiny");
  assert.equal(browser.open().session.a, null);
});

test("a visit keeps nothing, follows its edits in the address, and ends in either experiment", () => {
  const browser = createBrowser();
  edit(browser.open().session, "model", "tiny");
  const before = new Map(browser.kept);
  const { session, address } = browser.open("lab=1;first;model=glm-4-9b");
  assert.equal(session.report.isVisiting, true);
  assert.equal(session.report.mine.model, "tiny");
  edit(session, "nodes", 2);
  session.setA(session.state);
  assert.deepEqual(browser.kept, before);
  assert.match(address.fragment, /nodes=2/);
  assert.match(address.fragment, /lab-a=/);
  session.leaveVisit();
  assert.equal(session.state.model, "tiny");
  assert.equal(address.fragment, "");

  const other = browser.open("lab=1;first;model=glm-4-9b").session;
  assert.equal(other.keepVisited(), null);
  assert.equal(browser.open().session.state.model, "glm-4-9b");
  other.undo();
  assert.equal(browser.open().session.state.model, "tiny");
});

test("a link with an A replaces the kept A only when it is kept, and gives the old one back", () => {
  const browser = createBrowser();
  const first = browser.open().session;
  edit(first, "model", "tiny");
  first.setA(engine.preset("scale"));
  const { session } = browser.open("lab=1;first&lab-a=1;agent");
  assert.deepEqual(browser.open().session.a, engine.preset("scale"));
  assert.deepEqual(session.keepVisited(), engine.preset("scale"));
  assert.deepEqual(browser.open().session.a, engine.preset("agent"));
});

test("a link with an A into an empty browser is kept with the first edit", () => {
  const browser = createBrowser();
  const { session, address } = browser.open("lab=1;first&lab-a=1;laptop");
  assert.equal(session.report.isVisiting, false);
  assert.equal(browser.kept.size, 0);
  edit(session, "nodes", 2);
  assert.equal(address.fragment, "");
  const again = browser.open().session;
  assert.deepEqual([again.state.nodes, again.a], [2, engine.preset("laptop")]);
});

test("the slower of two tabs overwrites nothing and takes either experiment", () => {
  const browser = createBrowser();
  const [left, right] = [browser.open().session, browser.open().session];
  edit(left, "model", "tiny");
  edit(right, "nodes", 2);
  assert.equal(right.report.conflict.b.model, "tiny");
  assert.equal(browser.open().session.state.model, "tiny");
  right.resolve("b", "theirs");
  assert.equal(right.state.model, "tiny");
  assert.equal(right.report.conflict.b, undefined);
  right.undo();
  assert.equal(right.state.nodes, 2);
  edit(left, "rounds", 5);
  assert.equal(left.report.conflict.b.nodes, 2);
  left.resolve("b", "mine");
  assert.equal(browser.open().session.state.rounds, 5);
});

test("a tab that notices the same experiment in another tab sees no conflict", () => {
  const browser = createBrowser();
  const [left, right] = [browser.open().session, browser.open().session];
  edit(left, "model", "tiny");
  const [[key, newValue]] = browser.kept;
  assert.equal(right.noticed({ key, newValue }), true);
  assert.equal(right.report.conflict.b.model, "tiny");
  right.resolve("b", "theirs");
  edit(left, "nodes", 1);
  assert.equal(right.noticed({ key, newValue: browser.kept.get(key) }), false);
  assert.equal(right.noticed({ key: "another", newValue: "{}" }), false);
});

test("a storage that is closed leaves the page working and says why nothing is kept", () => {
  const storage = createStorage(null, { project: "p", schema: 1, lab: "lab", writer: "w" });
  const session = createSession(engine, storage, page, { read: () => "", write: () => {}, leave: () => {} });
  assert.equal(session.report.unkept, "blocked");
  edit(session, "model", "tiny");
  assert.equal(session.state.model, "tiny");
  assert.equal(session.report.unkept, "blocked");
});
