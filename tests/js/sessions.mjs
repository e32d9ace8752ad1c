// Plays whole editing sessions for tests/experiment/test_sessions.py: the first line on stdin is the catalogue, each other
// line a list of operations. One answer per session: the SHA-256 of its log, or with --full the log itself.

import { createHash } from "node:crypto";
import readline from "node:readline";

import { createEngine } from "../../sphinx_slime_lab/js/src/core/engine.js";
import { ChoiceError, LoadError } from "../../sphinx_slime_lab/js/src/core/errors.js";
import { byCodePoint } from "../../sphinx_slime_lab/js/src/core/texts.js";
import { begin, commit, redo, undo } from "../../sphinx_slime_lab/js/src/model/history.js";

const isFull = process.argv.includes("--full");
const sortKeys = (_key, value) => {
  if (value === null || typeof value !== "object" || Array.isArray(value)) return value;
  return Object.fromEntries(Object.keys(value).sort(byCodePoint).map((key) => [key, value[key]]));
};

function play(engine, operations) {
  let history = begin(engine.defaults());
  const first = history.present.state;
  const log = [];

  const keep = (step) => {
    if (step !== null) history = step.history;
    const { past, present, future } = history;
    const did = step === null ? null : { changes: step.changes, announcement: step.announcement };
    log.push({ did, state: present.state, sizes: [past.length, future.length] });
  };
  const operation = {
    change(field, value) {
      const { state, linked } = engine.change(history.present.state, field, value);
      log.push(linked);
      keep(commit(history, state, linked.map((one) => one.announce)));
    },
    undo: () => keep(undo(history)),
    redo: () => keep(redo(history)),
    preset: (id) => keep(commit(history, engine.preset(id))),
    repair(finding, id) {
      const plan = engine.repair(history.present.state, finding, id);
      log.push(plan);
      keep(commit(history, plan.state, [plan.title]));
    },
    load(text) {
      const loaded = engine.load(text);
      log.push(loaded);
      keep(commit(history, loaded.state));
    },
    receive(link) {
      const received = engine.receive(link);
      log.push(received);
      if (received !== null) keep(commit(history, received.b.state));
    },
    share() {
      const shared = engine.share(history.present.state, first);
      log.push(shared);
      operation.receive(shared.fragment);
    },
    export() {
      const { "experiment.json": text } = engine.artifacts(history.present.state);
      log.push(text);
      operation.load(text);
    },
    restore: () => keep(commit(history, first)),
    compare: () => log.push(engine.compare(first, history.present.state)),
    validate: () => log.push(engine.validate(history.present.state)),
    look: () => log.push(engine.view(history.present.state), engine.layout(history.present.state), engine.memory(history.present.state)),
    files: () => log.push(engine.artifacts(history.present.state)),
  };
  for (const [name, ...values] of operations) {
    try {
      operation[name](...values);
    } catch (error) {
      if (!(error instanceof ChoiceError) && !(error instanceof LoadError)) throw error;
      log.push({ refused: error.reason });
    }
  }
  return JSON.stringify(log, sortKeys);
}

let engine = null;
for await (const line of readline.createInterface({ input: process.stdin, crlfDelay: Infinity })) {
  if (line === "") continue;
  const request = JSON.parse(line);
  if (engine === null) engine = createEngine(request);
  else {
    const log = play(engine, request);
    process.stdout.write(`${isFull ? log : createHash("sha256").update(log).digest("hex")}\n`);
  }
}
