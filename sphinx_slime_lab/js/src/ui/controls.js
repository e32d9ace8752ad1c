// @ts-check
/** The six steps and their controls. Which step is open is not part of the state: it cannot be undone or exported. */
import { fill, h, setText, show } from "./dom.js";
import { createField } from "./fields.js";

/**
 * @param {any} context
 * @param {any} actions
 */
export function createControls(context, actions) {
  const { data, page, language, words } = context;
  const steps = data.catalog.steps;
  const fields = data.catalog.fields.map((/** @type {any} */ field) => createField(field, context, actions, page.uid));
  let open = 0;

  const panels = steps.map((/** @type {any} */ step, /** @type {number} */ at) => {
    const title = h("h3", { class: "slime-lab__step-title", tabindex: "-1" }, step.label[language]);
    const own = fields.filter((/** @type {any} */ field) => field.step === step.id);
    const element = h("div", { class: "slime-lab__panel", "data-step": step.id }, title, ...own.map((/** @type {any} */ field) => field.element));
    element.append(walk(at));
    return { title, element };
  });

  const buttons = steps.map((/** @type {any} */ step, /** @type {number} */ at) => {
    const mark = h("span", { class: "slime-lab__step-mark", hidden: true }, "▲", h("span", { class: "slime-lab__offscreen" }, words.step_errors));
    const label = h("span", {}, step.label[language]);
    const element = h("button", { type: "button", class: "slime-lab__step", onclick: () => go(at, false) }, label, mark);
    return { element, mark };
  });

  /** @param {number} at */
  function walk(at) {
    const last = at === steps.length - 1;
    const button = (/** @type {string} */ label, /** @type {() => void} */ onclick, /** @type {boolean} */ main) =>
      h("button", { type: "button", class: `slime-lab__button${main ? " slime-lab__button--main" : ""}`, onclick }, label);
    const files = () => {
      const target = form.closest(".slime-lab").querySelector(".slime-lab__files");
      target.scrollIntoView({ block: "start" });
      target.querySelector("[role=tab][aria-selected=true]")?.focus({ preventScroll: true });
    };
    return h(
      "div", { class: "slime-lab__walk" },
      at === 0 ? h("span") : button(words.previous, () => go(at - 1, true), false),
      last ? button(words.to_files, files, true) : button(words.next, () => go(at + 1, true), true),
    );
  }

  /** @param {number} at @param {boolean} focus */
  function go(at, focus) {
    open = at;
    panels.forEach((/** @type {any} */ panel, /** @type {number} */ index) => show(panel.element, index === at));
    buttons.forEach((/** @type {any} */ button, /** @type {number} */ index) => {
      if (index === at) button.element.setAttribute("aria-current", "step");
      else button.element.removeAttribute("aria-current");
    });
    setText(counter, fill(words.step_of, { at: at + 1, count: steps.length }));
    if (focus) panels[at].title.focus({ preventScroll: true });
  }

  const counter = h("span", { class: "slime-lab__offscreen", "aria-live": "polite" });
  const nav = h("nav", { class: "slime-lab__steps", "aria-label": words.steps },
    h("ol", {}, ...buttons.map((/** @type {any} */ button) => h("li", {}, button.element))), counter);
  const form = h("form", { class: "slime-lab__controls", onsubmit: (/** @type {Event} */ event) => event.preventDefault() },
    ...panels.map((/** @type {any} */ panel) => panel.element));
  go(open, false);

  return {
    steps: nav,
    form,
    focusTitle: () => panels[open].title.focus({ preventScroll: true }),
    /** Open the step of a choice and put the focus on it. */
    goTo(/** @type {string[]} */ [name]) {
      const field = fields.find((/** @type {any} */ one) => one.name === name);
      if (!field) return;
      go(steps.findIndex((/** @type {any} */ step) => step.id === field.step), false);
      field.element.scrollIntoView({ block: "nearest" });
      field.focus();
    },
    update(/** @type {any} */ now) {
      const errors = now.validation.findings.filter((/** @type {any} */ one) => one.severity === "error");
      const erring = new Set(errors.flatMap((/** @type {any} */ one) => one.fields));
      for (const field of fields) field.update(now, erring);
      steps.forEach((/** @type {any} */ step, /** @type {number} */ at) => {
        show(buttons[at].mark, fields.some((/** @type {any} */ field) => field.step === step.id && erring.has(field.name)));
      });
    },
  };
}
