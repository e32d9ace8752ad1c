// @ts-check
/** The choices in pictures: shows the variants that fit the experiment, and plays the phases of a round. */
import { h, setText, show } from "./dom.js";

const PHASE_MILLISECONDS = 2000;

/** @param {any} context */
export function createLessons({ section, words }) {
  const all = (/** @type {string} */ selector) => Array.from(section.querySelectorAll(`[data-part=lessons] ${selector}`));
  const variants = all("[data-when]").map((element) => ({ element, when: Object.entries(JSON.parse(element.dataset.when)) }));
  const rounds = all("[data-part=round]").map((element) => createRound(element, words));
  return {
    update(/** @type {any} */ { state }) {
      for (const { element, when } of variants) show(element, when.every(([name, values]) => values.includes(state[name])));
      for (const stop of rounds) stop();
    },
  };
}

/**
 * A button that lights up one phase after the other. Under reduced motion each press shows the next one.
 * @param {HTMLElement} element
 * @param {Record<string, string>} words
 * @returns {() => void} ends the playing
 */
function createRound(element, words) {
  /** @type {any} */
  let timer = null;
  let at = -1;
  const button = h("button", { type: "button", class: "slime-lab__button", onclick: () => {
    if (timer !== null) return stop();
    move();
    if (!matchMedia("(prefers-reduced-motion: reduce)").matches) {
      timer = setInterval(move, PHASE_MILLISECONDS);
      setText(button, words.round_pause);
    }
  } }, words.round_play);

  function move() {
    const phases = Array.from(element.querySelectorAll("[data-when]:not([hidden]) li"));
    at += 1;
    if (at >= phases.length) return stop();
    element.dataset.phase = String(at);
    phases.forEach((phase, index) => phase.toggleAttribute("data-now", index === at));
  }
  function stop() {
    clearInterval(timer);
    timer = null;
    at = -1;
    delete element.dataset.phase;
    element.querySelector("[data-now]")?.removeAttribute("data-now");
    setText(button, words.round_play);
  }
  element.append(h("div", { class: "slime-lab__actions" }, button));
  return stop;
}
