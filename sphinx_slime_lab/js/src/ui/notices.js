// @ts-check
/** Notes that stay until they are answered: a link that is visited, another tab, what was not read. */
import { h } from "./dom.js";

/**
 * @typedef {object} Notice
 * @property {string} text
 * @property {boolean} [isWarning]
 * @property {string[]} [items] a list below the text
 * @property {{label: string, onclick: () => void}[]} [buttons] the first is the main one; each ends the notice. Without
 *   any there is one that dismisses it
 * @property {() => void} [onclose] called when it is dismissed
 */

/**
 * @param {any} context
 * @param {() => void} afterwards where the focus goes when a notice with the focus ends
 */
export function createNotices(context, afterwards) {
  const element = h("div", { class: "slime-lab__notices", "aria-live": "polite" });
  /** @type {Map<string, {shown: string, box: HTMLElement}>} */
  const open = new Map();

  /** @param {string} key */
  function close(key) {
    const found = open.get(key);
    if (!found) return;
    const focused = found.box.contains(document.activeElement);
    open.delete(key);
    found.box.remove();
    if (focused) afterwards();
  }

  return {
    element,
    /**
     * Show, replace or (with null) end the notice of a key. The same notice again is left alone.
     * @param {string} key
     * @param {Notice | null} notice
     */
    set(key, notice) {
      const shown = notice && JSON.stringify([notice.text, notice.items]);
      if (notice === null || open.get(key)?.shown !== shown) close(key);
      if (notice === null || open.has(key)) return;
      const buttons = notice.buttons ?? [{ label: context.words.dismiss, onclick: () => notice.onclose?.() }];
      const box = h(
        "div", { class: `slime-lab__notice${notice.isWarning ? " slime-lab__notice--warning" : ""}`, "data-notice": key },
        h("p", {}, notice.text),
        notice.items?.length ? h("ul", {}, ...notice.items.map((item) => h("li", {}, item))) : null,
        h("div", { class: "slime-lab__finding-actions" }, ...buttons.map((one, at) =>
          h("button", {
            type: "button", class: `slime-lab__button${at === 0 && notice.buttons ? " slime-lab__button--main" : ""}`,
            onclick: () => {
              close(key);
              one.onclick();
            },
          }, one.label))),
      );
      open.set(key, { shown: String(shown), box });
      element.append(box);
    },
  };
}
