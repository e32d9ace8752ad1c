// @ts-check
/** The provenance panel: of what the build wrote, only the list of sources depends on the chosen model. */
import { h } from "./dom.js";

/**
 * @param {any} context
 * @returns {{element: HTMLElement, update: (now: any) => void}}
 */
export function createProvenance({ section, data, words }) {
  const element = section.querySelector("[data-part=provenance]");
  const body = element.querySelector(".slime-lab__table--sources tbody");
  let model = JSON.parse(section.querySelector(".slime-lab__page").textContent).state.model;
  const stateOf = (/** @type {boolean|null} */ modified) => (modified === null ? words.unknown : modified ? words.modified : words.unchanged);

  /** @param {string} path @param {string|null} commit */
  const pathOf = (path, commit) => {
    const code = h("code", {}, path);
    if (!data.source_url || commit === null) return code;
    const href = data.source_url.replace("{commit}", commit).replace("{path}", path);
    return h("a", { class: "reference external", href }, code);
  };

  return {
    element,
    update(now) {
      if (now.state.model === model) return;
      model = now.state.model;
      // The record that the reader downloads, so that panel and file cannot differ.
      const record = JSON.parse(now.artifacts["experiment.json"]).provenance;
      const row = (/** @type {any[]} */ cells) => h("tr", {}, ...cells.map((cell) => h("td", {}, h("p", {}, cell))));
      body.replaceChildren(...record.sources.map((/** @type {any} */ one) => row([pathOf(one.path, record.commit), h("code", {}, one.sha256), stateOf(one.modified)])));
    },
  };
}
