// @ts-check
/**
 * What a page begins with: a link goes before what the browser kept, that before the page's own experiment. A link never
 * replaces what was kept: while the page is `visiting`, edits stay in the address until the reader says "keep this".
 */

import { LoadError } from "../core/errors.js";

/** @typedef {Record<string, string | boolean | number>} State */
/** @typedef {{zh: string, en: string}} Text */
/**
 * @typedef {object} Start
 * @property {"link" | "kept" | "page"} source
 * @property {State} state B
 * @property {State | null} a
 * @property {any[]} ignored what of B's source could not be used
 * @property {any[]} ignoredA what of A's source could not be used
 * @property {Text | null} problem why the link in the address was refused
 * @property {boolean} isVisiting edits of this page must not be kept before the reader agrees
 */

/**
 * @param {any} engine
 * @param {object} found
 * @param {string} found.fragment of the page's address, with or without `#`
 * @param {Record<string, any> | null} found.keptB raw choices out of the storage
 * @param {Record<string, any> | null} found.keptA
 * @param {State} found.page the experiment that the page was built with
 * @returns {Start}
 */
export function start(engine, { fragment, keptB, keptA, page }) {
  const b = keptB === null ? null : engine.sanitise(keptB);
  const a = keptA === null ? null : engine.sanitise(keptA);
  /** @type {Text | null} */
  let problem = null;
  let link = null;
  try {
    link = engine.receive(fragment);
  } catch (error) {
    if (!(error instanceof LoadError)) throw error;
    problem = error.reason;
  }
  const isKnown = link !== null && b !== null && isSameLink(engine, link.b.state, b.state);
  const isOther = (link?.b && b && !isKnown) || (link?.a && a && !isSameLink(engine, link.a.state, a.state));
  const [source, shown] = link !== null && !isKnown ? ["link", link.b] : b !== null ? ["kept", b] : ["page", null];
  const shownA = link?.a ?? a;
  return {
    source: /** @type {Start["source"]} */ (source),
    state: shown?.state ?? page,
    ignored: shown?.ignored ?? [],
    a: shownA?.state ?? null,
    ignoredA: shownA?.ignored ?? [],
    problem,
    isVisiting: Boolean(isOther),
  };
}

/**
 * The fragment that the address gets after an edit, for `history.replaceState`: while visiting it follows the edits, so
 * a reload shows them; otherwise the storage has them, and a link that stayed would undo them on reload.
 * @param {any} engine
 * @param {{isVisiting: boolean, state: State, a: State | null}} page
 * @returns {string} without `#`; empty when there is to be none
 */
export function fragmentAfterEdit(engine, { isVisiting, state, a }) {
  return isVisiting ? engine.share(state, a).fragment : "";
}

/**
 * Whether two experiments have the same link; then the kept one is shown, which also has its private choices.
 * @param {any} engine
 * @param {State} left
 * @param {State} right
 */
function isSameLink(engine, left, right) {
  return engine.share(left).fragment === engine.share(right).fragment;
}
