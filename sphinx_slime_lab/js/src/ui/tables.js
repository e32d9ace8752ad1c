// @ts-check
/** The tables that stand behind the picture and the shell: layout, choices, and why each line is there. */
import { h, reconcile, setText } from "./dom.js";

/**
 * @param {HTMLElement} section
 * @param {any} context
 */
export function createTables(section, context) {
  const { words, language, labels } = context;
  const body = (/** @type {string} */ part) => section.querySelector(`[data-part=${part}] tbody`);
  const layout = body("layout");
  const choices = body("choices");

  return {
    update(/** @type {any} */ now) {
      if (layout) {
        rows(layout, now.layout.table.map((/** @type {any} */ row) => [row.what[language], String(row.gpus), row.detail[language]]), []);
        const heads = section.querySelectorAll("[data-part=layout] thead p");
        if (heads[1]) setText(heads[1], now.facts.device === "cpu" ? words.processes : words.gpus);
      }
      if (choices) {
        rows(choices, now.view.visible.map((/** @type {string} */ name) => [labels.label(name), name, labels.value(name, now.state[name])]), [1]);
      }
      const why = body("why");
      if (why) {
        rows(
          why,
          now.arguments.map((/** @type {any} */ line) => [
            line.text,
            line.status === "planned" ? `${line.why[language]} (${words.severity_planned})` : line.why[language],
            line.fields.map(labels.label).join(", "),
          ]),
          [0],
        );
      }
    },
  };
}

/**
 * Write rows of texts into a table body; columns in `code` are set as code.
 * @param {Element} body
 * @param {string[][]} wanted
 * @param {number[]} code
 */
export function rows(body, wanted, code) {
  if (!body.hasAttribute("data-live")) {
    body.replaceChildren();
    body.setAttribute("data-live", "");
  }
  reconcile(
    body,
    wanted.map((cells, at) => ({ cells, at })),
    (row) => String(row.at),
    (row) => h("tr", {}, ...row.cells.map((/** @type {string} */ _, /** @type {number} */ column) => h("td", {}, h("p", {}, h(code.includes(column) ? "code" : "span"))))),
    (element, row) => row.cells.forEach((/** @type {string} */ cell, /** @type {number} */ column) => setText(element.children[column].firstChild.firstChild, cell)),
  );
}
