// @ts-check
/** What answers an edit at once: the picture, the totals and the findings. */
import { h, reconcile, setText, show } from "./dom.js";
import { drawPicture } from "./picture.js";
import { createRepair } from "./repair.js";

const TOTALS = ["train_gpus", "rollout_gpus", "ray_gpus", "engines", "dp"];

/**
 * @param {HTMLElement} section
 * @param {any} context
 * @param {any} actions
 */
export function createLive(section, context, actions) {
  const figure = /** @type {HTMLElement} */ (section.querySelector(".slime-lab__picture"));
  const totals = createTotals(/** @type {HTMLElement} */ (section.querySelector("[data-part=totals] ul")), context);
  const findings = createFindings(/** @type {HTMLElement} */ (section.querySelector("[data-part=findings]")), context, actions);
  return {
    update(/** @type {any} */ now) {
      figure.replaceChildren(drawPicture(now.layout, context.page.uid, context.language));
      totals(now);
      findings(now);
    },
  };
}

/** @param {HTMLElement} list @param {any} context */
function createTotals(list, context) {
  list.replaceChildren();
  return (/** @type {any} */ now) => {
    const unit = now.facts.device === "cpu" ? "processes" : "gpus";
    const items = TOTALS.map((key) => ({
      key,
      label: context.words[key.endsWith("_gpus") ? `${unit}_${key.slice(0, -5)}` : key],
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
  const { words, language } = context;
  const fine = h("p", { class: "slime-lab__ok" }, words.no_errors);
  const list = h("ul");
  part.replaceChildren(fine, list);
  const seen = new Map();
  return (/** @type {any} */ now) => {
    const all = now.validation.findings;
    show(fine, !all.some((/** @type {any} */ one) => one.severity === "error"));
    seen.clear();
    reconcile(
      list,
      all,
      (one) => {
        const key = `${one.id}:${one.fields.join(",")}`;
        const count = (seen.get(key) || 0) + 1;
        seen.set(key, count);
        return `${key}:${count}`;
      },
      (one) => createFinding(one, context, actions),
      (element, one) => {
        setText(element.querySelector("[data-part=message]"), one.message[language]);
        element.slimeRepair(one, now);
      },
    );
  };
}

/** @param {any} one @param {any} context @param {any} actions */
function createFinding(one, context, actions) {
  const { words } = context;
  const buttons = h("div", { class: "slime-lab__finding-actions" });
  const element = h(
    "li",
    { class: `slime-lab__finding--${one.severity}` },
    h("p", {}, h("strong", {}, words[`severity_${one.severity}`]), " ", h("code", {}, one.id), " ", h("span", { "data-part": "message" })),
    buttons,
  );
  if (one.severity === "error" && one.fields.length) {
    buttons.append(h("button", { type: "button", class: "slime-lab__button", onclick: () => actions.goTo(one.fields[0]) }, words.show_field));
  }
  element.slimeRepair = createRepair(element, buttons, context, actions);
  return element;
}
