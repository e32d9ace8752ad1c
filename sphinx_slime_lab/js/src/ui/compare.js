// @ts-check
/** A against B: choices by step, totals, findings and generated lines, side by side. A is no part of B's history. */
import { fill, h, setText, show } from "./dom.js";
import { rows } from "./tables.js";
import { offerA } from "./telling.js";
import { TOTALS, totalLabel } from "./totals.js";

/**
 * @param {any} context
 * @param {ReturnType<import("../model/session.js").createSession>} session
 * @param {any} actions
 * @param {ReturnType<import("./notices.js").createNotices>} notices
 */
export function createCompare(context, session, actions, notices) {
  const { engine, words } = context;
  const summary = h("summary");
  const same = h("p", { class: "slime-lab__ok" }, words.compare_same);
  const parts = createParts(context);
  const button = (/** @type {string} */ label, /** @type {() => void} */ onclick) => h("button", { type: "button", class: "slime-lab__button", onclick }, label);
  const set = (/** @type {any} */ state, /** @type {string} */ message) => {
    const before = session.setA(state);
    actions.show();
    context.say(message);
    notices.set("replaced-a", before ? offerA(context, session, before, actions.show) : null);
    if (state === null) opener.focus();
  };
  const restore = button(words.a_restore, () => actions.adopt(session.a, words.a_restored));
  const bar = h("div", { class: "slime-lab__actions" }, restore,
    button(words.a_update, () => set(session.state, words.a_updated)),
    button(words.a_clear, () => set(null, words.a_cleared)));
  const element = h("details", { class: "slime-lab__details slime-lab__compare", "data-part": "compare", hidden: true }, summary, bar, same, ...parts.elements);
  const opener = button(words.a_save, () => {
    if (session.a === null) set(session.state, words.a_saved);
    else {
      element.open = true;
      element.scrollIntoView({ block: "nearest" });
      summary.focus({ preventScroll: true });
    }
  });
  element.addEventListener("toggle", () => element.open && draw());

  function draw() {
    if (session.a !== null) parts.update(engine.compare(session.a, session.state));
  }

  return {
    element,
    opener,
    update() {
      const { a, state } = session;
      show(element, a !== null);
      const count = a === null ? 0 : Object.keys(a).filter((name) => a[name] !== state[name]).length;
      setText(opener, a === null ? words.a_save : fill(words.a_open, { count }));
      setText(summary, fill(words.compare_count, { count }));
      restore.setAttribute("aria-disabled", String(count === 0));
      show(same, count === 0);
      if (element.open) draw();
    },
  };
}

/** A titled table that is shown while it has rows; `code` are the columns set as code. */
function createTable(/** @type {string} */ title, /** @type {string[]} */ heads, /** @type {number[]} */ code = []) {
  const body = h("tbody");
  const table = h("table", { class: `slime-lab__table slime-lab__table--compare${code.length ? " slime-lab__table--lines" : ""}${heads.length > 3 ? " slime-lab__table--wide" : ""}` },
    h("caption", {}, title), h("thead", {}, h("tr", {}, ...heads.map((one) => h("th", { scope: "col" }, h("p", {}, one))))), body);
  const element = h("div", { class: "table-wrapper", role: "region", "aria-label": title, tabindex: "0" }, table);
  return {
    element,
    /** @param {string[][]} wanted */
    update(wanted) {
      show(element, wanted.length > 0);
      rows(body, wanted, code);
    },
  };
}

/** @param {any} context */
function createParts(context) {
  const { words, language, labels } = context;
  const totals = createTable(words.totals, ["", "A", "B"]);
  const choices = createTable(words.compare_choices, [words.step, words.choice, "A", "B", words.compare_because]);
  const findings = createTable(words.findings, [words.rule, "A", "B"], [0]);
  const lines = createTable(words.compare_lines, ["", "A", "B"], [1, 2]);
  const count = (/** @type {any[]} */ found, /** @type {"a"|"b"} */ side, /** @type {string} */ severity) =>
    String(found.filter((one) => one.severity === severity && one[side] !== null).length);
  return {
    elements: [totals.element, choices.element, findings.element, lines.element],
    /** @param {any} compared */
    update({ steps, lines: changed, files, findings: found, totals: sums }) {
      totals.update([
        ...TOTALS.map((key) => [totalLabel(words, key, false), String(sums.a[key]), String(sums.b[key])]),
        ...["error", "note"].map((one) => [words[`${one}s`], count(found, "a", one), count(found, "b", one)]),
      ]);
      choices.update(steps.flatMap((/** @type {any} */ step) => step.differences.map((/** @type {any} */ one, /** @type {number} */ at) => [
        at === 0 ? step.label[language] : "",
        one.label[language] + (one.private ? ` (${words.compare_private})` : ""),
        one.shown_a[language],
        one.shown_b[language],
        one.follows === null ? "" : `${labels.label(one.follows)}${words.colon}${one.because[language]}`,
      ])));
      findings.update(found
        .filter((/** @type {any} */ one) => one.severity !== "planned" && (one.a === null || one.b === null || one.a[language] !== one.b[language]))
        .map((/** @type {any} */ one) => [one.id, one.a?.[language] ?? "", one.b?.[language] ?? ""]));
      lines.update([
        ...files.filter((/** @type {any} */ one) => one.in_a !== one.in_b).map((/** @type {any} */ one) => [words.file, one.in_a ? one.name : "", one.in_b ? one.name : ""]),
        ...changed.map((/** @type {any} */ one) => [words[`line_${one.kind}`], one.a ?? "", one.b ?? ""]),
      ]);
    },
  };
}
