// @ts-check
/** One control for one choice. Controls are built once and updated in place, so that focus and scroll stay. */
import { fill, h, setText, show } from "./dom.js";

const DOUBLING_FROM = 64;

/**
 * @param {any} field
 * @param {any} context
 * @param {any} actions
 * @param {string} id prefix of ids
 * @returns {{name: string, step: string, element: HTMLElement, update: (now: any, erring: Set<string>) => void, focus: () => void}}
 */
export function createField(field, context, actions, id) {
  const make = { enum: cards, bool: toggle, int: number, text: text }[/** @type {"enum"} */ (field.type)];
  const refused = h("p", { class: "slime-lab__refused", hidden: true });
  const edit = (/** @type {any} */ value) => {
    const reason = actions.change(field.name, value);
    setText(refused, reason ?? "");
    show(refused, reason !== null);
    if (reason !== null) context.say(reason);
    return reason === null;
  };
  const control = make(field, context, edit, id);
  control.element.append(refused);
  control.element.classList.add("slime-lab__field");
  control.element.dataset.field = field.name;
  let last = null;
  return {
    name: field.name,
    step: field.step,
    element: control.element,
    focus: control.focus,
    update(now, erring) {
      show(control.element, now.view.visible.includes(field.name));
      control.element.classList.toggle("slime-lab__field--error", erring.has(field.name));
      const disabled = now.view.disabled.filter((/** @type {any} */ one) => one.field === field.name);
      control.update(now.state[field.name], disabled);
      if (last !== now.state[field.name]) show(refused, false);
      last = now.state[field.name];
    },
  };
}

/** @param {any} field @param {any} context */
function help(field, context) {
  return h("p", { class: "slime-lab__help" }, field.help[context.language]);
}

/** @param {any} field @param {any} context @param {(value: any) => boolean} edit @param {string} id */
function cards(field, context, edit, id) {
  const inputs = new Map();
  const holder = h("div", { class: "slime-lab__cards" });
  for (const value of field.values) {
    const why = h("span", { class: "slime-lab__card-why", hidden: true });
    const input = h("input", {
      type: "radio",
      name: `${id}-${field.name}`,
      value: value.value,
      onchange: () => edit(value.value),
    });
    const words = h("span", {}, h("span", { class: "slime-lab__card-name" }, value.label[context.language]));
    if (value.help) words.append(h("span", { class: "slime-lab__card-help" }, value.help[context.language]));
    words.append(why);
    holder.append(h("label", { class: "slime-lab__card" }, input, words));
    inputs.set(value.value, { input, why });
  }
  const legend = h("legend", {}, field.label[context.language]);
  return {
    element: h("fieldset", {}, legend, help(field, context), holder),
    focus: () => (holder.querySelector("input:checked") || holder.querySelector("input")).focus(),
    update(/** @type {string} */ current, /** @type {any[]} */ disabled) {
      for (const [value, { input, why }] of inputs) {
        const block = disabled.find((one) => one.value === value);
        input.checked = value === current;
        disable(input, why, block, context);
      }
    },
  };
}

/** A value that is chosen already stays enabled, so that a wrong choice can be seen and left. */
function disable(/** @type {any} */ input, /** @type {HTMLElement} */ why, /** @type {any} */ block, /** @type {any} */ context) {
  input.disabled = Boolean(block) && !input.checked;
  setText(why, block ? block.why[context.language] : "");
  show(why, Boolean(block));
}

/** @param {any} field @param {any} context @param {(value: any) => boolean} edit @param {string} id */
function toggle(field, context, edit, id) {
  const why = h("span", { class: "slime-lab__card-why", hidden: true });
  const input = h("input", { type: "checkbox", name: `${id}-${field.name}`, onchange: () => edit(input.checked) });
  const card = h(
    "label",
    { class: "slime-lab__card" },
    input,
    h("span", {}, h("span", { class: "slime-lab__card-name slime-lab__field-name" }, field.label[context.language]),
      h("span", { class: "slime-lab__card-help" }, field.help[context.language]), why),
  );
  return {
    element: h("div", {}, card),
    focus: () => input.focus(),
    update(/** @type {boolean} */ current, /** @type {any[]} */ disabled) {
      input.checked = current;
      disable(input, why, disabled.find((one) => one.value === true || one.value === "true"), context);
    },
  };
}

/** @param {any} field @param {any} context @param {(value: any) => boolean} edit @param {string} id */
function number(field, context, edit, id) {
  const { words } = context;
  const doubling = field.maximum > DOUBLING_FROM;
  const inputId = `${id}-${field.name}`;
  let current = field.minimum;
  const clamp = (/** @type {number} */ value) => Math.min(Math.max(value, field.minimum), field.maximum);
  const move = (/** @type {number} */ way) => {
    const next = doubling ? (way > 0 ? current * 2 : Math.floor(current / 2)) : current + way;
    edit(clamp(next));
  };
  const input = h("input", {
    type: "number", id: inputId, class: "slime-lab__input", min: field.minimum, max: field.maximum, step: 1,
    inputmode: "numeric", "aria-describedby": `${inputId}-limits`,
    onchange: () => {
      edit(/^\d{1,15}$/.test(input.value) ? Number(input.value) : input.value);
      input.value = input.slimeKept;
    },
  });
  const step = (/** @type {string} */ sign, /** @type {string} */ label, /** @type {number} */ way) =>
    h("button", { type: "button", class: "slime-lab__button", "aria-label": `${label} ${sign}: ${field.label[context.language]}`, onclick: () => move(way) }, sign);
  const less = step(doubling ? "÷2" : "−", words.less, -1);
  const more = step(doubling ? "×2" : "+", words.more, 1);
  const limits = fill(words.limits, { minimum: field.minimum, maximum: field.maximum });
  const named = words[`unit_${field.name}`];
  const unit = named ? fill(words.unit_limits, { unit: named, limits }) : limits;
  return {
    element: h(
      "fieldset", {},
      h("label", { class: "slime-lab__field-name", for: inputId }, field.label[context.language]),
      help(field, context),
      h("div", { class: "slime-lab__number" }, less, input, more, h("span", { class: "slime-lab__unit", id: `${inputId}-limits` }, unit)),
    ),
    focus: () => input.focus(),
    update(/** @type {number} */ value) {
      current = value;
      keep(input, String(value));
      less.setAttribute("aria-disabled", String(value <= field.minimum));
      more.setAttribute("aria-disabled", String(value >= field.maximum));
    },
  };
}

/** @param {any} field @param {any} context @param {(value: any) => boolean} edit @param {string} id */
function text(field, context, edit, id) {
  const inputId = `${id}-${field.name}`;
  const input = h("input", {
    type: "text", id: inputId, class: "slime-lab__input", maxlength: field.max_length, spellcheck: "false",
    autocapitalize: "off", autocomplete: "off", placeholder: field.example ?? null,
    onchange: () => {
      edit(input.value);
      input.value = input.slimeKept;
    },
  });
  return {
    element: h(
      "fieldset", {},
      h("label", { class: "slime-lab__field-name", for: inputId }, field.label[context.language]),
      help(field, context),
      input,
    ),
    focus: () => input.focus(),
    update(/** @type {string} */ value) {
      keep(input, value);
    },
  };
}

/**
 * Show the value of the state, but leave a text alone that is being typed. `slimeKept` is the value of the state.
 * @param {any} input
 * @param {string} value
 */
function keep(input, value) {
  const isTyping = document.activeElement === input && input.slimeKept === value;
  input.slimeKept = value;
  if (!isTyping && input.value !== value) input.value = value;
}
