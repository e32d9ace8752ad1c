// @ts-check
/** One polite live region, shown as a note at the bottom for a few seconds. */
import { h, setText } from "./dom.js";

const MILLISECONDS = 6000;

export function createStatus() {
  const text = h("span");
  const element = h("div", { class: "slime-lab__status", role: "status" }, text);
  /** @type {any} */
  let timer = null;
  return {
    element,
    /** @param {string} message */
    say(message) {
      setText(text, message);
      clearTimeout(timer);
      timer = setTimeout(() => setText(text, ""), MILLISECONDS);
    },
  };
}
