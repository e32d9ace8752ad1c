import assert from "node:assert/strict";
import { test } from "node:test";

import { LIMIT, begin, commit, redo, undo } from "../../sphinx_slime_lab/js/src/model/history.js";

const words = { zh: "随模型更新。", en: "Follows the model." };

test("an edit with its linked changes is one entry, undone and redone with its announcement", () => {
  const first = begin({ layout: "colocate", schedule: "sync", nodes: 1 });
  const edit = commit(first, { layout: "separate", schedule: "async", nodes: 1 }, [words]);
  assert.deepEqual(edit.changes, [
    { field: "layout", before: "colocate", after: "separate" },
    { field: "schedule", before: "sync", after: "async" },
  ]);
  assert.equal(edit.history.past.length, 1);
  const back = undo(edit.history);
  assert.deepEqual(back.announcement, [words]);
  assert.deepEqual(back.changes.map((one) => [one.field, one.after]), [["layout", "colocate"], ["schedule", "sync"]]);
  assert.deepEqual(back.history.present, first.present);
  const again = redo(back.history);
  assert.deepEqual(again.announcement, [words]);
  assert.deepEqual(again.history, edit.history);
});

test("an edit that changes nothing is dropped and keeps what can be redone", () => {
  const { history } = undo(commit(begin({ nodes: 1 }), { nodes: 2 }).history);
  assert.equal(commit(history, { nodes: 1 }), null);
  assert.equal(history.future.length, 1);
});

test("a new edit ends what could be redone", () => {
  const { history } = undo(commit(begin({ nodes: 1 }), { nodes: 2 }).history);
  const next = commit(history, { nodes: 3 }).history;
  assert.equal(redo(next), null);
  assert.deepEqual(undo(next).history.present.state, { nodes: 1 });
});

test("there is nothing before the first and nothing after the last state", () => {
  assert.equal(undo(begin({ nodes: 1 })), null);
  assert.equal(redo(begin({ nodes: 1 })), null);
});

test(`${LIMIT} edits can be undone and no more`, () => {
  let history = begin({ nodes: 0 });
  for (let nodes = 1; nodes <= LIMIT + 20; nodes += 1) history = commit(history, { nodes }).history;
  let undone = 0;
  for (let step = undo(history); step !== null; step = undo(history)) {
    history = step.history;
    undone += 1;
  }
  assert.equal(undone, LIMIT);
  assert.deepEqual(history.present.state, { nodes: 20 });
  let redone = 0;
  for (let step = redo(history); step !== null; step = redo(history)) {
    history = step.history;
    redone += 1;
  }
  assert.equal(redone, LIMIT);
  assert.deepEqual(history.present.state, { nodes: LIMIT + 20 });
});

test("nothing in a history can be modified, and the caller's state stays the caller's", () => {
  const state = { nodes: 1 };
  const history = begin(state);
  state.nodes = 5;
  assert.equal(history.present.state.nodes, 1);
  assert.throws(() => { history.present.state.nodes = 2; }, TypeError);
  assert.throws(() => { history.past.push(history.present); }, TypeError);
});
