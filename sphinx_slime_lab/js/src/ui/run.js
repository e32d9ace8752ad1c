// @ts-check
/** How to run the files: the steps, with the numbers of this experiment. Twin of `render/run.py`. */
import { fill, h, reconcile } from "./dom.js";

/**
 * @param {HTMLElement} section
 * @param {any} context
 */
export function createRun(section, context) {
  const list = section.querySelector("[data-part=run] ol");
  if (list) list.replaceChildren();
  return {
    update(/** @type {any} */ now) {
      if (!list) return;
      reconcile(
        list,
        runSteps(context.words, now).map((text, at) => ({ text, at })),
        (one) => String(one.at),
        () => h("li", {}, h("p")),
        (element, one) => {
          if (element.slimeText === one.text) return;
          element.slimeText = one.text;
          element.firstChild.replaceChildren(...pieces(one.text));
        },
      );
    },
  };
}

/** @param {Record<string, string>} words @param {any} now @returns {string[]} */
function runSteps(words, { state, facts, validation }) {
  const slots = {
    nodes: facts.convert_nodes, last: facts.convert_nodes - 1, gpus_per_node: facts.gpus_per_node,
    ray: validation.accounting.ray_gpus, train_nodes: state.nodes,
  };
  const cpu = facts.device === "cpu";
  const keys = [
    state.task === "custom" ? "run_prepare_custom" : "run_prepare",
    cpu ? "run_convert_cpu" : facts.convert_nodes > 1 ? "run_convert_many" : "run_convert_one",
    ...(state.layout === "external" ? ["run_external"] : []),
    cpu ? "run_ray_cpu" : "run_ray",
    "run_train",
    "run_look",
  ];
  return keys.map((key) => fill(words[key], slots));
}

/**
 * Text with `code` between backticks.
 * @param {string} text
 */
function pieces(text) {
  return text.split("`").map((piece, at) => (at % 2 ? h("code", {}, piece) : piece)).filter((piece) => piece !== "");
}
