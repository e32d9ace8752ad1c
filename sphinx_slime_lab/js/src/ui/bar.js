// @ts-check
/** Starting points, undo, redo, reset, and the tools that open below. */
import { fill, h, show } from "./dom.js";

/**
 * @param {any} context
 * @param {ReturnType<import("../model/session.js").createSession>} session
 * @param {any} actions
 */
export function createBar(context, session, actions) {
  const { engine, data, language, words } = context;
  const button = (/** @type {string} */ label, /** @type {() => void} */ onclick, /** @type {string|null} */ title = null) =>
    h("button", { type: "button", class: "slime-lab__button", onclick, title }, label);
  const undo = button(words.undo, actions.undo, "Ctrl+Z");
  const redo = button(words.redo, actions.redo, "Ctrl+Shift+Z");
  const reset = button(words.reset, actions.reset);
  const presets = data.catalog.presets.map((/** @type {any} */ preset) => {
    const name = preset.label[language];
    const load = () => {
      const state = engine.preset(preset.id);
      const errors = engine.validate(state).findings.filter((/** @type {any} */ one) => one.severity === "error").length;
      const message = fill(errors ? words.preset_open : words.preset_loaded, { name, count: errors });
      if (!actions.adopt(state, message)) context.say(words.nothing_changed);
    };
    return button(name, load, preset.help[language]);
  });
  const tools = h("div", { class: "slime-lab__bar-group", role: "group", "aria-label": words.tools });
  const element = h(
    "div", { class: "slime-lab__bar" },
    h("div", { class: "slime-lab__bar-group", role: "group", "aria-label": words.presets },
      h("span", { class: "slime-lab__bar-label", "aria-hidden": "true" }, words.presets), ...presets),
    h("div", { class: "slime-lab__bar-group", role: "group", "aria-label": words.history }, undo, redo, reset),
    tools,
  );
  return {
    element,
    /**
     * Buttons that open a panel each, one at a time, and the one of the comparison.
     * @param {{name: string, label: string, panel: any}[]} list
     * @param {any} compare
     */
    tools(list, compare) {
      const holder = h("div", { class: "slime-lab__tools" });
      const entries = list.map((one) => ({ ...one, opener: button(one.label, () => toggle(one.name)) }));
      const toggle = (/** @type {string} */ name) => {
        for (const one of entries) {
          const isOpen = one.name === name && one.panel.element.hidden;
          show(one.panel.element, isOpen);
          one.opener.setAttribute("aria-expanded", String(isOpen));
          if (isOpen) one.panel.opened();
        }
      };
      for (const one of entries) {
        one.panel.element.hidden = true;
        one.panel.element.id = `${context.page.uid}-${one.name}`;
        one.opener.setAttribute("aria-expanded", "false");
        one.opener.setAttribute("aria-controls", one.panel.element.id);
        one.panel.close = () => {
          show(one.panel.element, false);
          one.opener.setAttribute("aria-expanded", "false");
          one.opener.focus();
        };
        one.panel.element.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => event.key === "Escape" && one.panel.close());
        holder.append(one.panel.element);
      }
      tools.append(compare.opener, ...entries.map((one) => one.opener));
      return holder;
    },
    update() {
      // aria-disabled keeps the focus on a button whose last use made it idle.
      undo.setAttribute("aria-disabled", String(!session.canUndo));
      redo.setAttribute("aria-disabled", String(!session.canRedo));
    },
  };
}
