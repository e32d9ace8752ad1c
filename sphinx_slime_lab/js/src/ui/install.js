// @ts-check
/** Buttons of the install section: choosing an image is one edit of the choice `image`, whose notes stand in placement. */
import { fill, h, show } from "./dom.js";

/**
 * @param {HTMLElement} section
 * @param {any} context
 * @param {any} actions
 */
export function createInstall(section, { data, words, language, say }, actions) {
  if (section.querySelector("[data-part=install]") === null) return { update() {} };
  const rows = Array.from(section.querySelectorAll("[data-part=install] tbody tr"));
  const field = data.catalog.fields.find((/** @type {any} */ one) => one.name === "image");
  const images = field.values.slice(1);
  const buttons = images.map((/** @type {any} */ image, /** @type {number} */ at) => {
    const gpus = image.label[language];
    const button = h("button", { type: "button", class: "slime-lab__button", "aria-pressed": "false", onclick: () => {
      const isChosen = button.getAttribute("aria-pressed") === "true";
      actions.change("image", isChosen ? field.default : image.value);
      say(isChosen ? words.install_dropped : fill(words.install_chosen, { gpus }));
    } }, fill(words.install_choose, { gpus }));
    rows[at].firstElementChild?.append(button);
    return button;
  });
  return {
    update(/** @type {any} */ now) {
      images.forEach((/** @type {any} */ image, /** @type {number} */ at) => {
        show(buttons[at], now.facts.device === "cuda");
        buttons[at].setAttribute("aria-pressed", String(now.state.image === image.value));
      });
    },
  };
}
