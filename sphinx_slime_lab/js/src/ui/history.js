// @ts-check
/** Undo and redo: a store of frozen states. Navigation between steps is not part of it. */

const LIMIT = 100;

/**
 * @param {Record<string, any>} initial
 * @param {(state: Record<string, any>) => void} changed called after every change of the present
 */
export function createHistory(initial, changed) {
  /** @type {Record<string, any>[]} */
  let past = [];
  /** @type {Record<string, any>[]} */
  let future = [];
  let present = Object.freeze({ ...initial });

  const move = (/** @type {Record<string, any>} */ state) => {
    present = Object.freeze({ ...state });
    changed(present);
  };

  return {
    get present() {
      return present;
    },
    get canUndo() {
      return past.length > 0;
    },
    get canRedo() {
      return future.length > 0;
    },
    /** Make `state` the present; returns false, and records nothing, when it is the same. */
    commit(/** @type {Record<string, any>} */ state) {
      if (same(state, present)) return false;
      past = [...past, present].slice(-LIMIT);
      future = [];
      move(state);
      return true;
    },
    undo() {
      const state = past.pop();
      if (state === undefined) return false;
      future.push(present);
      move(state);
      return true;
    },
    redo() {
      const state = future.pop();
      if (state === undefined) return false;
      past.push(present);
      move(state);
      return true;
    },
  };
}

/**
 * @param {Record<string, any>} left
 * @param {Record<string, any>} right
 */
function same(left, right) {
  const keys = Object.keys(left);
  return keys.length === Object.keys(right).length && keys.every((key) => left[key] === right[key]);
}
