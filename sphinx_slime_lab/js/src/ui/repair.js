// @ts-check
/** Repairs of a finding: what one would change, the GPUs before and after, what stays open; then one click applies it. */
import { h, reconcile, setText } from "./dom.js";

/**
 * @param {HTMLElement} element the finding
 * @param {HTMLElement} buttons
 * @param {any} context
 * @param {any} actions
 */
export function createRepair(element, buttons, context, actions) {
  const { engine, words, language } = context;
  const group = h("div", { class: "slime-lab__finding-actions" });
  buttons.append(group);
  /** @type {any} */
  let state = null;
  /** @type {HTMLElement|null} */
  let preview = null;

  /** @param {string} finding @param {any} offer @param {HTMLElement} button */
  const toggle = (finding, offer, button) => {
    const wasOpen = preview !== null && preview.dataset.repair === offer.id;
    close();
    if (wasOpen) return;
    const plan = engine.repair(state, finding, offer.id);
    preview = drawPlan(plan, context, () => actions.adopt(plan.state, plan.title[language]));
    preview.dataset.repair = offer.id;
    element.append(preview);
    button.setAttribute("aria-expanded", "true");
  };
  const close = () => {
    if (preview) preview.remove();
    preview = null;
    for (const button of Array.from(group.querySelectorAll("button"))) button.setAttribute("aria-expanded", "false");
  };

  return (/** @type {any} */ one, /** @type {any} */ now) => {
    state = now.state;
    close();
    reconcile(
      group,
      one.repairs,
      (offer) => offer.id,
      (offer) => {
        const button = h("button", { type: "button", class: "slime-lab__button", "aria-expanded": "false", onclick: () => toggle(one.id, offer, button) });
        return button;
      },
      (button, offer) => setText(button, `${words.repair}: ${offer.title[language]}`),
    );
  };
}

/** @param {any} plan @param {any} context @param {() => void} apply */
function drawPlan(plan, context, apply) {
  const { data, words, language } = context;
  const label = (/** @type {string} */ name) => data.catalog.fields.find((/** @type {any} */ field) => field.name === name).label[language];
  const rows = plan.changes.map((/** @type {any} */ one) => h("li", {}, `${label(one.field)}: ${one.before} → ${one.after}`));
  rows.push(h("li", {}, `${words.gpus_ray}: ${plan.before.ray_gpus} → ${plan.allocation.ray_gpus}`));
  const open = plan.remaining.map((/** @type {any} */ one) => h("li", {}, `${one.id} ${one.message[language]}`));
  return h(
    "div",
    { class: "slime-lab__plan" },
    h("ul", {}, ...rows),
    open.length ? h("p", {}, words.stays_open) : null,
    open.length ? h("ul", {}, ...open) : null,
    h("button", { type: "button", class: "slime-lab__button slime-lab__button--main", onclick: apply }, words.apply),
  );
}
