// @ts-check
/**
 * Undo and redo as a value: `{past, present, future}` of frozen entries. Every function gives a new history and leaves
 * the old one as it was. Moving between the steps of the page is no edit and never comes here.
 */

/** @typedef {Record<string, string | boolean | number>} State */
/** @typedef {{zh: string, en: string}} Text */
/**
 * A state and how it came about: the sentences about what changed with it.
 * @typedef {{readonly state: State, readonly announcement: readonly Text[]}} Entry
 */
/** @typedef {{readonly past: readonly Entry[], readonly present: Entry, readonly future: readonly Entry[]}} History */
/** @typedef {{field: string, before: string | boolean | number, after: string | boolean | number}} FieldChange */
/**
 * What a step did: `history` is the new one, `changes` the choices that differ now, `announcement` the sentences of
 * the edit that was made, undone or redone.
 * @typedef {{history: History, changes: FieldChange[], announcement: readonly Text[]}} Step
 */

export const LIMIT = 100;

/**
 * A history without a past.
 * @param {State} state
 * @returns {History}
 */
export function begin(state) {
  return freeze([], entryOf(state, []), []);
}

/**
 * One edit, with everything that is linked to it. Null, and nothing recorded, when it changes nothing.
 * @param {History} history
 * @param {State} state
 * @param {readonly Text[]} [announcement]
 * @returns {Step | null}
 */
export function commit(history, state, announcement = []) {
  const changes = changesOf(history.present.state, state);
  if (changes.length === 0) return null;
  const past = [...history.past, history.present].slice(-LIMIT);
  const present = entryOf(state, announcement);
  return { history: freeze(past, present, []), changes, announcement: present.announcement };
}

/**
 * Back over the last edit; null when there is none.
 * @param {History} history
 * @returns {Step | null}
 */
export function undo({ past, present, future }) {
  if (past.length === 0) return null;
  const back = past[past.length - 1];
  return {
    history: freeze(past.slice(0, -1), back, [present, ...future]),
    changes: changesOf(present.state, back.state),
    announcement: present.announcement,
  };
}

/**
 * Forward over the edit that was undone last; null when there is none.
 * @param {History} history
 * @returns {Step | null}
 */
export function redo({ past, present, future }) {
  if (future.length === 0) return null;
  const [next, ...rest] = future;
  return {
    history: freeze([...past, present].slice(-LIMIT), next, rest),
    changes: changesOf(present.state, next.state),
    announcement: next.announcement,
  };
}

/**
 * @param {State} state
 * @param {readonly Text[]} announcement
 * @returns {Entry}
 */
function entryOf(state, announcement) {
  return Object.freeze({ state: Object.freeze({ ...state }), announcement: Object.freeze([...announcement]) });
}

/**
 * @param {readonly Entry[]} past
 * @param {Entry} present
 * @param {readonly Entry[]} future
 * @returns {History}
 */
function freeze(past, present, future) {
  return Object.freeze({ past: Object.freeze(past), present, future: Object.freeze(future) });
}

/**
 * The choices whose values differ. Both states hold the same choices.
 * @param {State} before
 * @param {State} after
 * @returns {FieldChange[]}
 */
function changesOf(before, after) {
  return Object.keys(after)
    .filter((field) => before[field] !== after[field])
    .map((field) => ({ field, before: before[field], after: after[field] }));
}
