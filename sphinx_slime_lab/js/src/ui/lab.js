// @ts-check
/** One lab: a state with its history, and the parts that show it. */
import { createControls } from "./controls.js";
import { fill, h, setText } from "./dom.js";
import { createFiles } from "./files.js";
import { createHistory } from "./history.js";
import { createLive } from "./live.js";
import { createStorage } from "./storage.js";
import { createTables } from "./tables.js";

const STATUS_MILLISECONDS = 5000;

/**
 * @param {HTMLElement} section the lab as the build wrote it
 * @param {any} engine
 * @param {any} data catalog, provenance, words and language of the site
 */
export function createLab(section, engine, data) {
  const page = JSON.parse(/** @type {any} */ (section.querySelector(".slime-lab__page")).textContent);
  const storage = createStorage(data.project, page.name);
  const status = createStatus();
  const context = { engine, data, page, language: data.language, words: data.words, say: status.say };

  const kept = storage.load();
  const history = createHistory(kept ? engine.sanitise(kept).state : page.state, (state) => {
    storage.save(state);
    show(state);
  });

  const actions = {
    /** One edit with what follows from it; a value that is refused comes back as its reason. */
    change(/** @type {string} */ field, /** @type {any} */ value) {
      let result;
      try {
        result = engine.change(history.present, field, value);
      } catch (error) {
        const reason = /** @type {any} */ (error).reason;
        if (!reason) throw error;
        return reason[context.language];
      }
      history.commit(result.state);
      const said = new Set(result.linked.map((/** @type {any} */ link) => link.announce[context.language]));
      if (said.size) status.say([...said].join(" "));
      return null;
    },
    adopt(/** @type {any} */ state, /** @type {string} */ message) {
      if (history.commit(state)) status.say(message);
    },
    undo: () => history.undo() && status.say(data.words.undone),
    redo: () => history.redo() && status.say(data.words.redone),
    /** Go to the choice that is still empty, else to the first one. */
    goTo: (/** @type {string[]} */ fields) => controls.goTo(fields.find((name) => history.present[name] === "") ?? fields[0]),
  };

  const bar = createBar(context, history, actions);
  const controls = createControls(context, actions);
  const live = createLive(section, context, actions);
  const files = createFiles(section, context);
  const tables = createTables(section, context);

  function show(/** @type {any} */ state) {
    const now = {
      state,
      view: engine.view(state),
      validation: engine.validate(state),
      layout: engine.layout(state),
      arguments: engine.arguments(state),
      environment: engine.environment(state),
      artifacts: engine.artifacts(state, data.provenance),
      facts: data.catalog.models[state.model].facts,
    };
    bar.update();
    controls.update(now);
    live.update(now);
    files.update(now);
    tables.update(now);
  }

  const livePanel = /** @type {HTMLElement} */ (section.querySelector(".slime-lab__live"));
  const main = h("div", { class: "slime-lab__main" });
  livePanel.before(bar.element, controls.steps, main);
  main.append(controls.form, livePanel);
  section.append(status.element);
  section.classList.add("slime-lab--ready");
  section.addEventListener("keydown", (event) => keys(event, actions));
  show(history.present);
  files.settle();
  if (kept) status.say(data.words.restored);
}

/**
 * Undo and redo by keyboard, but not inside a text, where the browser's own undo is meant.
 * @param {KeyboardEvent} event
 * @param {any} actions
 */
function keys(event, actions) {
  const target = /** @type {HTMLElement} */ (event.target);
  if (!(event.ctrlKey || event.metaKey) || event.altKey || event.key.toLowerCase() !== "z") return;
  if (target.matches("textarea, input[type=text], input[type=number]")) return;
  event.preventDefault();
  if (event.shiftKey) actions.redo();
  else actions.undo();
}

/**
 * Undo, redo, reset and the starting points.
 * @param {any} context
 * @param {any} history
 * @param {any} actions
 */
function createBar(context, history, actions) {
  const { engine, data, page, language, words } = context;
  const button = (/** @type {string} */ label, /** @type {() => void} */ onclick, /** @type {string|null} */ title = null) =>
    h("button", { type: "button", class: "slime-lab__button", onclick, title }, label);
  const undo = button(words.undo, actions.undo, "Ctrl+Z");
  const redo = button(words.redo, actions.redo, "Ctrl+Shift+Z");
  const reset = button(words.reset, () => actions.adopt(page.state, words.was_reset));
  const presets = data.catalog.presets.map((/** @type {any} */ preset) =>
    button(
      preset.label[language],
      () => actions.adopt(engine.preset(preset.id), fill(words.preset_loaded, { name: preset.label[language] })),
      preset.help[language],
    ),
  );
  const element = h(
    "div",
    { class: "slime-lab__bar" },
    h("div", { class: "slime-lab__bar-group", role: "group", "aria-label": words.presets },
      h("span", { class: "slime-lab__bar-label", "aria-hidden": "true" }, words.presets), ...presets),
    h("div", { class: "slime-lab__bar-group" }, undo, redo, reset),
  );
  return {
    element,
    update() {
      // aria-disabled keeps the focus on a button whose last use made it idle.
      undo.setAttribute("aria-disabled", String(!history.canUndo));
      redo.setAttribute("aria-disabled", String(!history.canRedo));
    },
  };
}

/** One polite live region, shown as a note at the bottom for a few seconds. */
function createStatus() {
  const text = h("span");
  const element = h("div", { class: "slime-lab__status", role: "status" }, text);
  /** @type {any} */
  let timer = null;
  return {
    element,
    say(/** @type {string} */ message) {
      setText(text, message);
      clearTimeout(timer);
      timer = setTimeout(() => setText(text, ""), STATUS_MILLISECONDS);
    },
  };
}
