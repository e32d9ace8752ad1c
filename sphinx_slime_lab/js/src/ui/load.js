// @ts-check
/** Load an experiment from a file or a pasted text, as one edit that undo takes back. */
import { fill, h, setText, show } from "./dom.js";
import { ignoredNotice } from "./telling.js";

const MAXIMUM_BYTES = 256 * 1024;

/**
 * @param {any} context
 * @param {any} actions
 * @param {ReturnType<import("./notices.js").createNotices>} notices
 */
export function createLoad(context, actions, notices) {
  const { engine, data, page, words, language } = context;
  const id = `${page.uid}-json`;
  const text = h("textarea", { class: "slime-lab__input", id, rows: 5, spellcheck: "false", autocomplete: "off", "aria-describedby": `${id}-reason` });
  const reason = h("p", { class: "slime-lab__refused", role: "alert", id: `${id}-reason`, hidden: true });
  const file = h("input", { type: "file", accept: ".json,application/json", class: "slime-lab__file-input", "aria-label": words.load_file, onchange: () => readFile() });
  const load = h("button", { type: "button", class: "slime-lab__button slime-lab__button--main", onclick: () => take(text.value) }, words.load_now);
  const element = h(
    "div", { class: "slime-lab__panel-tool" },
    h("label", { class: "slime-lab__field-name", for: id }, words.load_paste),
    h("p", { class: "slime-lab__help" }, words.load_help),
    text, reason,
    h("div", { class: "slime-lab__actions" }, load, h("label", { class: "slime-lab__button" }, words.load_file, file)),
  );

  /** @param {string} message */
  function refuse(message) {
    setText(reason, message);
    show(reason, message !== "");
    text.setAttribute("aria-invalid", String(message !== ""));
  }

  async function readFile() {
    const chosen = file.files[0];
    file.value = "";
    if (!chosen) return;
    if (chosen.size > MAXIMUM_BYTES) {
      refuse(fill(data.catalog.messages.json_large[language], { maximum: MAXIMUM_BYTES }));
      return;
    }
    let content;
    try {
      content = new TextDecoder("utf-8", { fatal: true }).decode(await chosen.arrayBuffer());
    } catch (error) {
      if (!(error instanceof TypeError)) throw error;
      refuse(words.load_encoding);
      return;
    }
    take(content);
  }

  /** @param {string} content */
  function take(content) {
    let loaded;
    try {
      loaded = engine.load(content);
    } catch (error) {
      const why = /** @type {any} */ (error).reason;
      if (!why) throw error;
      refuse(why[language]);
      return;
    }
    refuse("");
    text.value = "";
    const isNew = actions.adopt(loaded.state, words.loaded);
    if (!isNew) context.say(words.nothing_changed);
    const unused = loaded.unused.filter((/** @type {string} */ key) => key !== "provenance");
    const notice = ignoredNotice(context, words.ignored_load, loaded.ignored);
    if (unused.length) notice.items.push(fill(words.unused, { names: unused.join(words.comma) }));
    notices.set("loaded", notice.items.length ? notice : null);
    panel.close();
  }

  const panel = {
    element,
    /** Set by the bar that opens the panel. */
    close: () => {},
    opened: () => text.focus(),
    update() {},
  };
  return panel;
}
