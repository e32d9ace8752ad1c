// @ts-check
/**
 * One lab between its history, what the browser keeps and the address of the page. No DOM here.
 *
 * B is the experiment that is edited, A the one that was put aside; A has no part in B's history. While the page is
 * visiting a link, nothing is kept: the address follows the edits, and the visitor's own experiment stays as it is.
 */

import { begin, commit, redo, undo } from "./history.js";
import { fragmentAfterEdit, start } from "./start.js";

/** @typedef {Record<string, string | boolean | number>} State */
/** @typedef {{zh: string, en: string}} Text */
/** @typedef {"a" | "b"} Side */
/**
 * What the page shows of the session beside the experiment. `mine` is the visitor's own experiment while visiting;
 * `conflict` what another tab kept of a side (undefined: none, null: it was cleared); `unkept` why nothing is kept.
 * @typedef {object} Report
 * @property {"link" | "kept" | "page"} source
 * @property {boolean} isVisiting
 * @property {State | null} mine
 * @property {boolean} bringsA the link has an A of its own
 * @property {any[]} ignored
 * @property {Text | null} problem
 * @property {boolean} isDamaged
 * @property {"full" | "blocked" | null} unkept
 * @property {{a: State | null | undefined, b: State | null | undefined}} conflict
 */

/**
 * @param {any} engine
 * @param {ReturnType<import("./storage.js").createStorage>} storage
 * @param {State} page the experiment that the page was built with
 * @param {{read: () => string, write: (fragment: string) => void, leave: () => void}} address fragment of the page;
 *   `leave` ends a visit with a step in the browser's own history, so that its back button returns to the link
 */
export function createSession(engine, storage, page, address) {
  /** @type {import("./history.js").History} */
  let history;
  /** @type {State | null} */
  let a;
  /** @type {State | null} */
  let keptA;
  /** @type {Report} */
  let report;

  /** Read the storage and the address afresh. */
  function open() {
    const b = storage.load("b");
    const other = storage.load("a");
    const begun = start(engine, { fragment: address.read(), keptB: b.choices, keptA: other.choices, page });
    history = begin(begun.state);
    a = begun.a;
    keptA = other.choices === null ? null : engine.sanitise(other.choices).state;
    report = {
      source: begun.source,
      isVisiting: begun.isVisiting,
      mine: begun.isVisiting && b.choices !== null ? engine.sanitise(b.choices).state : null,
      bringsA: a !== null && (keptA === null || !isSame(a, keptA)),
      ignored: [...begun.ignored, ...begun.ignoredA],
      problem: begun.problem,
      isDamaged: b.status === "damaged" || other.status === "damaged",
      unkept: b.status === "blocked" ? "blocked" : null,
      conflict: { a: undefined, b: undefined },
    };
  }
  open();

  /** @param {Side} side @param {ReturnType<typeof storage.save>} saved */
  function note(side, saved) {
    report.conflict[side] = saved.status === "conflict" ? read(saved.theirs) : undefined;
    report.unkept = saved.status === "full" || saved.status === "blocked" ? saved.status : null;
  }

  /** Keep B, or carry it in the address while visiting. */
  function persist() {
    if (!report.isVisiting) {
      note("b", storage.save("b", history.present.state));
      // A link into an empty browser brought an A: it is kept with the first edit, as B is.
      if (report.bringsA) note("a", storage.save("a", a));
      report.bringsA = false;
    }
    const shownA = report.bringsA ? a : null;
    address.write(fragmentAfterEdit(engine, { isVisiting: report.isVisiting, state: history.present.state, a: shownA }));
  }

  /** @param {Record<string, any> | null} choices */
  const read = (choices) => (choices === null ? null : engine.sanitise(choices).state);

  /** @param {import("./history.js").Step | null} step */
  function take(step) {
    if (step === null) return null;
    history = step.history;
    persist();
    return step;
  }

  /** @param {State | null} state */
  function setA(state) {
    const before = a;
    a = state;
    if (report.isVisiting) {
      report.bringsA = true;
      persist();
    } else note("a", storage.save("a", state));
    return before;
  }

  return {
    open,
    get state() {
      return history.present.state;
    },
    get a() {
      return a;
    },
    get report() {
      return report;
    },
    get canUndo() {
      return history.past.length > 0;
    },
    get canRedo() {
      return history.future.length > 0;
    },
    /** Make a state the present, as one edit; null when it is the present already. */
    commit: (/** @type {State} */ state, /** @type {readonly Text[]} */ announcement = []) => take(commit(history, state, announcement)),
    undo: () => take(undo(history)),
    redo: () => take(redo(history)),
    /** Put a state aside as A, or clear A with null; gives what A was. Not an edit of B. */
    setA,
    /** The visitor keeps the visited experiment; one undo returns to the own one. Gives the A that it replaced. */
    keepVisited() {
      const shown = history.present.state;
      if (report.mine !== null) history = (commit(begin(report.mine), shown) ?? { history }).history;
      const replaced = report.bringsA ? keptA : null;
      Object.assign(report, { isVisiting: false, mine: null, source: "kept" });
      persist();
      return replaced;
    },
    /** The visitor goes back to the own experiment. */
    leaveVisit() {
      address.leave();
      open();
    },
    /**
     * The reader's answer to another tab. Theirs is taken as one edit.
     * @param {Side} side
     * @param {"mine" | "theirs"} answer
     */
    resolve(side, answer) {
      if (answer === "mine") {
        note(side, storage.keepMine(side, side === "a" ? a : history.present.state));
        return;
      }
      const theirs = read(storage.takeTheirs(side).choices);
      report.conflict[side] = undefined;
      if (side === "a") a = theirs;
      else take(commit(history, theirs ?? page));
    },
    /**
     * Another tab wrote; true when it concerns this lab. The same experiment is no conflict.
     * @param {{key: string | null, newValue: string | null}} event
     */
    noticed(event) {
      const found = storage.noticed(event);
      if (found === null) return false;
      const theirs = read(found.theirs);
      const ours = found.side === "a" ? a : history.present.state;
      if (report.isVisiting) {
        storage.takeTheirs(found.side);
        if (found.side === "b") report.mine = theirs;
        else keptA = theirs;
      } else if (theirs === null ? ours === null : ours !== null && isSame(theirs, ours)) {
        storage.takeTheirs(found.side);
        report.conflict[found.side] = undefined;
      } else report.conflict[found.side] = theirs;
      return true;
    },
  };
}

/**
 * @param {State} left
 * @param {State} right
 */
function isSame(left, right) {
  return Object.keys(left).every((name) => left[name] === right[name]);
}
