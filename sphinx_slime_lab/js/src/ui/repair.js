// @ts-check
/** Repairs of a finding: what one would change, the GPUs before and after, what stays open; then one click applies it. */
import { fill, h, reconcile, setText, show } from "./dom.js";
import { totalLabel } from "./totals.js";

const ALLOCATION = ["train_gpus", "rollout_gpus", "prefill_gpus", "decode_gpus", "ray_gpus"];

/**
 * @param {HTMLElement} element the finding
 * @param {HTMLElement} buttons
 * @param {any} context
 * @param {any} actions
 */
export function createRepair(element, buttons, context, actions) {
  const { engine, words, language } = context;
  const group = h("div", { class: "slime-lab__finding-actions" });
  const none = h("p", { class: "slime-lab__help", hidden: true });
  buttons.append(group);
  buttons.before(none);
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
    preview = drawPlan(plan, context, () => actions.adopt(plan.state, fill(words.repaired, { title: plan.title[language] })));
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
    setText(none, one.repair_note ? one.repair_note[language] : "");
    show(none, Boolean(one.repair_note));
    reconcile(
      group,
      one.repairs,
      (offer) => offer.id,
      (offer) => {
        const button = h("button", { type: "button", class: "slime-lab__button", "aria-expanded": "false", onclick: () => toggle(one.id, offer, button) });
        return button;
      },
      (button, offer) => setText(button, `${words.repair}${words.colon}${offer.title[language]}`),
    );
  };
}

/** @param {any} plan @param {any} context @param {() => void} apply */
function drawPlan(plan, context, apply) {
  const { words, language, labels } = context;
  const move = (/** @type {string} */ name, /** @type {any} */ before, /** @type {any} */ after) => h("li", {}, `${name}${words.colon}${before} → ${after}`);
  const changes = plan.changes.map((/** @type {any} */ one) => move(labels.label(one.field), labels.value(one.field, one.before), labels.value(one.field, one.after)));
  const sums = ALLOCATION.filter((key) => plan.before[key] || plan.allocation[key])
    .map((key) => move(words[key] ?? totalLabel(words, key, false), plan.before[key], plan.allocation[key]));
  const open = plan.remaining.map((/** @type {any} */ one) => h("li", {}, `${one.id} ${one.message[language]}`));
  return h(
    "div",
    { class: "slime-lab__plan" },
    h("p", {}, words.repair_changes),
    h("ul", {}, ...changes),
    h("p", {}, words.repair_gpus),
    h("ul", {}, ...sums),
    h("p", {}, open.length ? words.stays_open : words.nothing_open),
    open.length ? h("ul", {}, ...open) : null,
    h("button", { type: "button", class: "slime-lab__button slime-lab__button--main", onclick: apply }, words.apply),
  );
}
