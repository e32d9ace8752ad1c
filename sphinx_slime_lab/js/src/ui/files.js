// @ts-check
/** The generated files: tabs, text with the reason of each line, copy and download. */
import { createCode } from "./code.js";
import { copyText, download } from "./export.js";
import { fill, h, reconcile, setText, show } from "./dom.js";

const ALWAYS = "experiment.json";

/**
 * @param {HTMLElement} section
 * @param {any} context
 * @param {any} actions
 */
export function createFiles(section, context, actions) {
  const { page, words } = context;
  const holder = /** @type {HTMLElement} */ (section.querySelector(".slime-lab__files"));
  const tablist = h("div", { class: "slime-lab__tabs", role: "tablist", "aria-label": words.files });
  for (const old of Array.from(holder.querySelectorAll(":scope > .slime-lab__blocked"))) old.remove();
  holder.prepend(tablist);
  /** @type {Map<string, any>} */
  const files = new Map();
  let selected = "experiment.sh";

  /** @param {string} name */
  function open(name) {
    const found = holder.querySelector(`[data-file="${name}"]`);
    const element = found || h("section", { class: "slime-lab__file", "data-file": name });
    if (!found) holder.append(element);
    const file = createFile(/** @type {HTMLElement} */ (element), name, context, actions);
    const id = `${page.uid}-${name.replace(/\W/g, "-")}`;
    element.id = id;
    element.setAttribute("role", "tabpanel");
    const tab = h("button", { type: "button", class: "slime-lab__tab", role: "tab", id: `${id}-tab`, "aria-controls": id, onclick: () => select(name), onkeydown: move }, name);
    element.setAttribute("aria-labelledby", `${id}-tab`);
    tablist.append(tab);
    const entry = { ...file, element, tab };
    files.set(name, entry);
    return entry;
  }

  /** @param {string} name */
  function select(name) {
    selected = name;
    for (const [other, file] of files) {
      const chosen = other === name;
      show(file.element, chosen);
      file.tab.setAttribute("aria-selected", String(chosen));
      file.tab.tabIndex = chosen ? 0 : -1;
    }
  }

  /** @param {KeyboardEvent} event */
  function move(event) {
    const names = [...files.keys()].filter((name) => !files.get(name).tab.hidden);
    const at = names.indexOf(selected);
    const to = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: names.length - 1 }[event.key];
    if (to === undefined) return;
    event.preventDefault();
    const name = names[(to + names.length) % names.length];
    select(name);
    files.get(name).tab.focus();
  }

  return {
    update(/** @type {any} */ now) {
      const blocked = now.validation.findings.some((/** @type {any} */ one) => one.severity === "error");
      const names = Object.keys(now.artifacts);
      for (const name of names) {
        const file = files.get(name) || open(name);
        show(file.tab, true);
        file.update(now.artifacts[name], now, blocked && name !== ALWAYS);
      }
      for (const [name, file] of files) if (!names.includes(name)) show(file.tab, false);
      // Tabs keep the order of the files, whichever appeared first.
      for (const name of names) tablist.append(files.get(name).tab);
      select(names.includes(selected) ? selected : names[0]);
    },
  };
}

/**
 * @param {HTMLElement} element
 * @param {string} name
 * @param {any} context
 * @param {any} actions
 */
function createFile(element, name, context, actions) {
  const { words, say } = context;
  let current = "";
  const take = async () => say(fill((await copyText(current)) ? words.copied : words.copy_failed, { name }));
  const save = (/** @type {Event} */ event) => {
    event.preventDefault();
    download(name, current);
    say(fill(words.downloaded, { name }));
  };
  const copyButton = h("button", { type: "button", class: "slime-lab__button", "data-action": "copy", onclick: take }, words.copy);
  const saveButton = h("button", { type: "button", class: "slime-lab__button slime-lab__button--main", "data-action": "download", onclick: save }, words.download);
  const buttons = h("span", { class: "slime-lab__actions" }, copyButton, saveButton);
  const open = h("ul");
  const withheld = h("div", { class: "slime-lab__blocked", hidden: true }, h("p", {}, words.blocked), open);
  const code = createCode(element, name, context);
  const bar = h("div", { class: "slime-lab__file-bar" }, code.reason, buttons);
  const why = element.querySelector("details");
  element.replaceChildren(bar, withheld, code.element);
  if (why) element.append(why);
  return {
    update(/** @type {string} */ text, /** @type {any} */ now, /** @type {boolean} */ blocked) {
      current = text;
      code.update(text, now);
      show(withheld, blocked);
      if (blocked) listErrors(open, now, context, actions);
      show(code.element, !blocked);
      show(bar, !blocked);
      if (why) show(/** @type {HTMLElement} */ (why), !blocked);
    },
  };
}

/** What withholds the file, each with the way to its choice. */
function listErrors(/** @type {HTMLElement} */ list, /** @type {any} */ now, /** @type {any} */ { language, words, labels }, /** @type {any} */ actions) {
  const errors = now.validation.findings.filter((/** @type {any} */ one) => one.severity === "error");
  reconcile(
    list,
    errors,
    (one) => `${one.id}:${one.fields}`,
    (one) => h("li", {}, labels.rule(one.id), " ", h("span"), " ", one.fields.length
      ? h("button", { type: "button", class: "slime-lab__link", onclick: () => actions.goTo(one.fields) }, words.show_field) : ""),
    (element, one) => setText(element.querySelector(":scope > span"), one.message[language]),
  );
}
