// @ts-check
/**
 * The tour of one round: shows the stages that the build wrote one at a time. It knows nothing of the experiment; only
 * "use this start" writes it, as one edit.
 */
import { h, setText, show } from "./dom.js";

const STAGE_MILLISECONDS = 6000;

/**
 * @param {any} context
 * @param {any} actions
 * @returns {{element: HTMLElement, update: () => void}}
 */
export function createTour({ engine, section, data, words, say }, actions) {
  const element = section.querySelector("[data-part=tour]");
  if (!element) return { element: h("div", { hidden: true }), update() {} };
  const stages = Array.from(element.querySelectorAll("[data-part=tour-stage]"));
  const holder = element.querySelector("[data-part=tour-stages]");
  let at = 0;
  /** @type {any} */
  let timer = null;

  const button = (/** @type {string} */ label, /** @type {() => void} */ onclick) =>
    h("button", { type: "button", class: "slime-lab__button", onclick }, label);
  const back = button(words.previous, () => step(at - 1));
  const play = button(words.tour_play, () => (timer === null ? start() : stop()));
  const next = button(words.next, () => step(at + 1));
  const adopt = button(words.tour_adopt, () => {
    const done = actions.adopt(engine.preset(data.catalog.tour.start), words.tour_adopted);
    if (done === false) say(words.tour_unchanged);
  });
  const marks = stages.map((stage, index) => button(stage.querySelector("strong").textContent, () => step(index)));
  const list = h("ol", { class: "slime-lab__tour-marks", "aria-label": words.tour_stages }, ...marks.map((mark) => h("li", {}, mark)));
  const bar = h("div", { class: "slime-lab__tour-bar" }, back, play, next, adopt);
  holder.before(list, bar);

  /** Show one stage; those who step by hand hear it read, a running tour does not talk over them. */
  function go(/** @type {number} */ index) {
    at = index;
    element.setAttribute("data-stage", String(at));
    holder.setAttribute("aria-live", timer === null ? "polite" : "off");
    stages.forEach((stage, one) => show(stage, one === at));
    marks.forEach((mark, one) => (one === at ? mark.setAttribute("aria-current", "step") : mark.removeAttribute("aria-current")));
    back.setAttribute("aria-disabled", String(at === 0));
    next.setAttribute("aria-disabled", String(at === stages.length - 1));
  }
  function step(/** @type {number} */ index) {
    stop();
    if (index >= 0 && index < stages.length) go(index);
  }
  function start() {
    timer = setInterval(() => (at + 1 < stages.length ? go(at + 1) : stop()), STAGE_MILLISECONDS);
    setText(play, words.tour_pause);
    go(at + 1 < stages.length ? at : 0);
  }
  function stop() {
    clearInterval(timer);
    timer = null;
    setText(play, words.tour_play);
  }
  element.addEventListener("toggle", () => element.open || stop());
  go(0);
  return { element, update() {} };
}
