// @ts-check
/** The link of the experiment: what it holds, what stays here, and a way to copy it. */
import { copyText } from "./export.js";
import { fill, h, setText, show } from "./dom.js";

/**
 * @param {any} context
 * @param {ReturnType<import("../model/session.js").createSession>} session
 */
export function createShare(context, session) {
  const { engine, page, words, labels } = context;
  const id = `${page.uid}-link`;
  const link = h("input", { class: "slime-lab__input", type: "text", readonly: true, id, onfocus: () => link.select() });
  const withA = h("input", { type: "checkbox", onchange: () => write() });
  const choice = h("label", { class: "slime-lab__card" }, withA, h("span", {}, words.share_a));
  const withheld = h("p", { class: "slime-lab__help" });
  const fromDisk = h("p", { class: "slime-lab__help" }, words.share_file);
  const copied = h("p", { class: "slime-lab__help", "aria-live": "polite" });
  const copy = h("button", {
    type: "button", class: "slime-lab__button slime-lab__button--main",
    onclick: async () => {
      const done = await copyText(link.value);
      setText(copied, done ? fill(words.copied, { name: words.link }) : words.copy_failed);
      if (!done) link.select();
    },
  }, words.copy);
  const element = h(
    "div", { class: "slime-lab__panel-tool" },
    h("label", { class: "slime-lab__field-name", for: id }, words.link),
    h("p", { class: "slime-lab__help" }, words.share_help),
    h("div", { class: "slime-lab__number" }, link, copy),
    choice, withheld, fromDisk, copied,
  );
  show(fromDisk, location.protocol === "file:");

  function write() {
    const shared = engine.share(session.state, withA.checked ? session.a : null);
    link.value = `${location.href.split("#")[0]}#${shared.fragment}`;
    const names = [...shared.withheld, ...shared.withheld_a];
    setText(withheld, fill(words.share_withheld, { names: labels.list(names) }));
    show(withheld, names.length > 0);
    setText(copied, "");
  }

  return {
    element,
    opened() {
      write();
      link.focus();
    },
    update() {
      show(choice, session.a !== null);
      if (session.a === null) withA.checked = false;
      if (!element.hidden) write();
    },
  };
}
