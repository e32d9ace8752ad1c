// @ts-check
/** The estimate of memory, written anew while it is open; twin of `render/memory.py`. */
import { h } from "./dom.js";

/**
 * @param {HTMLElement} section
 * @param {any} context
 */
export function createMemory(section, { engine, words, language }) {
  const part = /** @type {HTMLDetailsElement | null} */ (section.querySelector("[data-part=memory]"));
  if (part === null) return { update() {} };
  const holder = /** @type {HTMLElement} */ (section.querySelector("[data-part=memory-phases]"));
  /** @type {any} */
  let state = null;
  const write = () => {
    if (!part.open || state === null) return;
    holder.replaceChildren(...engine.memory(state).flatMap(phaseOf));
    state = null;
  };
  part.addEventListener("toggle", write);

  /** @param {any} phase */
  function phaseOf(phase) {
    const amounts = (/** @type {any[]} */ cells) => cells.map((cell) => (cell === null ? "—" : cell.text));
    const row = (/** @type {any} */ head, /** @type {any[]} */ cells) => h("tr", {}, ...[head, ...cells].map((one) => h("td", {}, h("p", {}, one))));
    const strong = (/** @type {string} */ text) => h("strong", {}, text);
    const heads = [words.memory_part, ...phase.ranks.map((/** @type {any} */ rank) => rank[language])];
    const body = h("tbody", {}, ...phase.rows.map((/** @type {any} */ one) => row(partOf(one), amounts(one.cells))));
    if (phase.totals !== null) body.append(row(strong(words.memory_total), amounts(phase.totals).map(strong)));
    const table = h("table", { class: "docutils align-default slime-lab__table slime-lab__table--memory" },
      h("thead", {}, h("tr", {}, ...heads.map((one) => h("th", { class: "head" }, h("p", {}, one))))), body);
    return [h("p", {}, strong(phase.label[language]), ` ${phase.what[language]}`), h("div", { class: "table-wrapper docutils container" }, table)];
  }

  /** @param {any} row */
  function partOf(row) {
    const formula = row.formulas.map((/** @type {any} */ one) => one[language]).join(words.semicolon);
    const fragment = document.createDocumentFragment();
    fragment.append(row.label[language], h("span", { class: "slime-lab__formula" }, ` ${formula} `), h("a", { class: "external reference", href: row.link }, words.memory_source));
    return fragment;
  }

  return {
    update(/** @type {any} */ now) {
      state = now.state;
      write();
    },
  };
}
