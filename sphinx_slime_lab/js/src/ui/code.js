// @ts-check
/** The text of one generated file, line by line: changed lines flash, each flag tells why it is there. */
import { fill, h, setText, show } from "./dom.js";
import { highlight } from "./highlight.js";

const LONG = 40;
const ARGUMENTS = "recipes/experiment/arguments.yaml";

/**
 * @param {HTMLElement} element the file's section, with the block that the build wrote, if any
 * @param {string} name
 * @param {any} context
 */
export function createCode(element, name, context) {
  const { data, words, language, labels } = context;
  const shell = name.endsWith(".sh");
  const written = element.querySelector(".slime-lab__code");
  const pre = /** @type {HTMLElement} */ (written ? written.querySelector("pre") : h("pre"));
  const block = written || h("div", { class: "slime-lab__code notranslate" }, h("div", { class: "highlight" }, pre));
  const reason = h("p", { class: "slime-lab__reason", "aria-live": "polite" }, shell ? words.line_hint : "");
  pre.tabIndex = 0;
  pre.setAttribute("aria-label", name);
  /** @type {string[]} */
  let lines = [];
  /** @type {HTMLElement[]} */
  let rows = [];
  /** @type {Map<string, any>} */
  let reasons = new Map();
  /** @type {HTMLElement|null} */
  let chosen = null;
  let recipe = "";
  let isWhole = false;
  const more = h("button", { type: "button", class: "slime-lab__button slime-lab__all", onclick: () => clip(isWhole) }, "");

  /** A long text shows its beginning, and the rest on demand. @param {boolean} isClipped */
  function clip(isClipped) {
    isWhole = !isClipped;
    const isLong = lines.length > LONG;
    block.classList.toggle("slime-lab__code--clipped", isLong && isClipped);
    show(more, isLong);
    more.setAttribute("aria-expanded", String(isWhole));
    setText(more, isWhole ? words.lines_less : fill(words.lines_all, { count: lines.length }));
  }

  /** @param {string} line @param {boolean} changed */
  const createRow = (line, changed) => {
    const row = h("span", { class: `slime-lab__row${changed ? " slime-lab__row--changed" : ""}` }, ...highlight(line, name), "\n");
    row.slimeLine = line;
    return row;
  };

  /** @param {HTMLElement|null} row */
  const choose = (row) => {
    if (chosen) chosen.classList.remove("slime-lab__row--chosen");
    chosen = row;
    if (!row) return;
    row.classList.add("slime-lab__row--chosen");
    const one = reasons.get(/** @type {any} */ (row).slimeLine.trim());
    if (!one) return;
    const rules = data.catalog.rules.filter((/** @type {any} */ rule) => rule.fields.some((/** @type {string} */ name) => name !== "model" && one.fields.includes(name)));
    const parts = [
      one.fields.length ? [`${words.caused_by}${words.colon}${labels.list(one.fields)} · `] : [],
      rules.length ? [`${words.checked_by}${words.colon}`, ...rules.flatMap((/** @type {any} */ rule) => [labels.rule(rule.id), " "]), "· "] : [],
      [`${words.source_of}${words.colon}${one.fields.includes("model") ? recipe : ARGUMENTS}`],
    ];
    reason.replaceChildren(h("code", {}, one.text), ` ${one.why[language]}`, h("br"), h("small", {}, ...parts.flat()));
  };
  pre.addEventListener("pointerover", (event) => {
    const row = /** @type {HTMLElement} */ (event.target).closest(".slime-lab__row[data-why]");
    if (row) choose(/** @type {HTMLElement} */ (row));
  });
  pre.addEventListener("keydown", (event) => {
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    const known = rows.filter((row) => row.hasAttribute("data-why"));
    if (!way || !known.length || event.ctrlKey || event.metaKey) return;
    event.preventDefault();
    const at = chosen ? known.indexOf(chosen) + way : way > 0 ? 0 : known.length - 1;
    const row = known[Math.min(Math.max(at, 0), known.length - 1)];
    choose(row);
    clip(false);
    row.scrollIntoView({ block: "nearest" });
  });

  return {
    element: h("div", {}, block, more),
    reason,
    /** @param {string} text @param {any} now */
    update(text, now) {
      const wanted = text.replace(/\n$/, "").split("\n");
      rows = replaceRows(pre, rows, lines, wanted, createRow);
      lines = wanted;
      clip(!isWhole);
      if (!shell) return;
      recipe = now.facts.recipe_path;
      reasons = new Map([...now.environment, ...now.arguments].map((one) => [one.text, one]));
      for (const row of rows) {
        const known = reasons.has(/** @type {any} */ (row).slimeLine.trim());
        if (known !== row.hasAttribute("data-why")) row.toggleAttribute("data-why", known);
      }
      if (chosen && !chosen.isConnected) {
        choose(null);
        setText(reason, words.line_hint);
      }
    },
  };
}

/**
 * Replace the lines between the common start and the common end; lines that only moved do not count as changed.
 * @param {HTMLElement} pre
 * @param {HTMLElement[]} rows
 * @param {string[]} before
 * @param {string[]} after
 * @param {(line: string, changed: boolean) => HTMLElement} createRow
 */
function replaceRows(pre, rows, before, after, createRow) {
  if (!rows.length) {
    const all = after.map((line) => createRow(line, false));
    pre.replaceChildren(...all);
    return all;
  }
  let start = 0;
  while (start < before.length && start < after.length && before[start] === after[start]) start++;
  let end = 0;
  const room = Math.min(before.length, after.length) - start;
  while (end < room && before[before.length - 1 - end] === after[after.length - 1 - end]) end++;
  const gone = new Map();
  for (const line of before.slice(start, before.length - end)) gone.set(line, (gone.get(line) || 0) + 1);
  const fresh = after.slice(start, after.length - end).map((line) => {
    const left = gone.get(line) || 0;
    gone.set(line, left - 1);
    return createRow(line, left <= 0);
  });
  const tail = rows.slice(rows.length - end);
  for (const row of rows.slice(start, rows.length - end)) row.remove();
  if (tail.length) tail[0].before(...fresh);
  else pre.append(...fresh);
  return [...rows.slice(0, start), ...fresh, ...tail];
}
