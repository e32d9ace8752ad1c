// @ts-check
/** What answers an edit at once: the picture, the totals and the findings. */
import { fill, h, reconcile, setText, show } from "./dom.js";
import { drawPicture } from "./picture.js";
import { createRepair } from "./repair.js";
import { TOTALS, totalLabel } from "./totals.js";

/**
 * @param {HTMLElement} section
 * @param {any} context
 * @param {any} actions
 */
export function createLive(section, context, actions) {
  const figure = /** @type {HTMLElement} */ (section.querySelector(".slime-lab__picture"));
  foldable(figure, context);
  const totals = createTotals(/** @type {HTMLElement} */ (section.querySelector("[data-part=totals] ul")), context);
  const findings = createFindings(/** @type {HTMLElement} */ (section.querySelector("[data-part=findings]")), context, actions);
  let drawn = "";
  return {
    update(/** @type {any} */ now) {
      const wanted = JSON.stringify(now.layout);
      if (wanted !== drawn) figure.replaceChildren(drawPicture(now.layout, context.page.uid, context.language));
      drawn = wanted;
      totals(now);
      findings(now);
    },
  };
}

/** On narrow screens the picture comes first, and a button folds it away. */
function foldable(/** @type {HTMLElement} */ figure, /** @type {any} */ { words, page }) {
  figure.id = `${page.uid}-figure`;
  const fold = h("button", {
    type: "button", class: "slime-lab__button slime-lab__fold", "aria-expanded": "true", "aria-controls": figure.id,
    onclick: () => {
      show(figure, figure.hidden);
      fold.setAttribute("aria-expanded", String(!figure.hidden));
      setText(fold, figure.hidden ? words.picture_open : words.picture_fold);
    },
  }, words.picture_fold);
  figure.before(fold);
}

/** @param {HTMLElement} list @param {any} context */
function createTotals(list, context) {
  list.replaceChildren();
  return (/** @type {any} */ now) => {
    const items = TOTALS.map((key) => ({
      key,
      label: totalLabel(context.words, key, now.facts.device === "cpu"),
      value: String(now.validation.accounting[key]),
    }));
    reconcile(
      list,
      items,
      (item) => item.key,
      () => h("li", {}, h("p", {}, h("span"), h("strong"))),
      (element, item) => {
        setText(element.querySelector("span"), `${item.label} `);
        setText(element.querySelector("strong"), item.value);
      },
    );
  };
}

/** @param {HTMLElement} part @param {any} context @param {any} actions */
function createFindings(part, context, actions) {
  const { words, language, labels } = context;
  const fine = h("p", { class: "slime-lab__ok" }, words.no_errors);
  const told = h("ul");
  const planned = h("ul");
  const summary = h("summary");
  const details = h("details", { class: "slime-lab__details", "data-part": "planned" }, summary, planned);
  part.replaceChildren(fine, told, details);
  const write = (/** @type {HTMLElement} */ list, /** @type {any[]} */ found, /** @type {any} */ now) =>
    reconcile(
      list,
      numbered(found),
      (entry) => entry.key,
      (entry) => createFinding(entry.one, context, actions),
      (element, entry) => {
        setText(element.querySelector("[data-part=message]"), entry.one.message[language]);
        element.slimeRepair(entry.one, now);
      },
    );
  return (/** @type {any} */ now) => {
    const all = now.validation.findings;
    const later = all.filter((/** @type {any} */ one) => one.severity === "planned");
    show(fine, !all.some((/** @type {any} */ one) => one.severity === "error"));
    write(told, all.filter((/** @type {any} */ one) => one.severity !== "planned"), now);
    write(planned, later, now);
    setText(summary, fill(words.planned_intro, { names: labels.list(later.map((/** @type {any} */ one) => one.fields[0])) }));
    show(details, later.length > 0);
  };
}

/**
 * Findings with keys that stay the same while a finding stays.
 * @param {any[]} found
 */
function numbered(found) {
  const seen = new Map();
  return found.map((one) => {
    const kind = `${one.id}:${one.fields.join(",")}`;
    seen.set(kind, (seen.get(kind) || 0) + 1);
    return { one, key: `${kind}:${seen.get(kind)}` };
  });
}

/** @param {any} one @param {any} context @param {any} actions */
function createFinding(one, context, actions) {
  const { words } = context;
  const buttons = h("div", { class: "slime-lab__finding-actions" });
  const element = h(
    "li",
    { class: `slime-lab__finding--${one.severity}` },
    h("p", {}, h("strong", {}, words[`severity_${one.severity}`]), " ", context.labels.rule(one.id), " ", h("span", { "data-part": "message" })),
    buttons,
  );
  if (one.severity === "error" && one.fields.length) {
    buttons.append(h("button", { type: "button", class: "slime-lab__button", onclick: () => actions.goTo(one.fields) }, words.show_field));
  }
  element.slimeRepair = createRepair(element, buttons, context, actions);
  return element;
}
