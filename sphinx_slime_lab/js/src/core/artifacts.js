// @ts-check
/** The generated files; twin of `slime/experiment/artifacts.py`. Slots are filled in one pass. */

import { conversionLines, environmentLines, launcherLines, referenceLines } from "./argument_table.js";
import { evaluate, test } from "./expression.js";
import { word } from "./quoting.js";
import { validate } from "./repairs.js";
import { namesOf, sorted } from "./tables.js";
import { show } from "./texts.js";

/** @typedef {import("./tables.js").Tables} Tables */
/** @typedef {import("./tables.js").State} State */
/** @typedef {import("./argument_table.js").ArgumentLine} ArgumentLine */

const SLOT = /@([A-Z][A-Z0-9_]*)@/g;
const BLOCK_LINE = /^[ \t]*@([A-Z][A-Z0-9_]*)@$/;
const SCHEMA = 2;

/**
 * File name -> text, in order.
 * @param {Tables} tables
 * @param {State} state
 * @param {any} provenance
 * @returns {Record<string, string>}
 */
export function artifacts(tables, state, provenance) {
  const validation = validate(tables, state);
  const writer = createWriter(tables, state, validation, provenance);
  /** @type {Record<string, string>} */
  const files = { "experiment.sh": writer.script("experiment.sh.in") };
  const sglang = writer.block("SGLANG_YAML");
  if (sglang.length > 0) files["sglang.yaml"] = sglang.map((line) => `${line}\n`).join("");
  if (state.layout === "external") files["serving-reference.sh"] = writer.script("serving-reference.sh.in");
  files["experiment.json"] = experimentJson(tables, state, validation, provenance);
  return files;
}

/**
 * `<40 hex>`, `<40 hex> (modified)` or `unknown`.
 * @param {any} provenance
 */
function commitText(provenance) {
  if (provenance === null || provenance === undefined || provenance.commit === null) return "unknown";
  return provenance.commit + (provenance.dirty === true ? " (modified)" : "");
}

/**
 * @param {Tables} tables
 * @param {State} state
 * @param {any} validation
 * @param {any} provenance
 */
function experimentJson(tables, state, validation, provenance) {
  /** @param {string} severity */
  const ids = (severity) =>
    validation.findings
      .filter((/** @type {any} */ finding) => finding.severity === severity)
      .map((/** @type {any} */ finding) => finding.id);
  const model = /** @type {string} */ (state.model);
  const record = {
    schema: SCHEMA,
    generator: "slime lab",
    choices: Object.fromEntries(tables.data.fields.map((/** @type {any} */ { name }) => [name, state[name]])),
    model: tables.data.models[model].facts.display,
    validation: {
      errors: ids("error"),
      notes: ids("note"),
      planned: ids("planned"),
      accounting: validation.accounting,
    },
    provenance: selectSources(provenance, model),
  };
  return `${JSON.stringify(record, null, 2)}\n`;
}

/**
 * The provenance record with the sources of one model alone, keys in a fixed order.
 * @param {any} provenance
 * @param {string} model
 */
function selectSources(provenance, model) {
  if (provenance === null || provenance === undefined) return null;
  const sources = provenance.sources.filter((/** @type {any} */ one) => one.model === null || one.model === model);
  return sorted({ ...provenance, sources });
}

/**
 * @param {Tables} tables
 * @param {State} state
 * @param {any} validation
 * @param {any} provenance
 */
function createWriter(tables, state, validation, provenance) {
  const { data } = tables;
  const names = namesOf(tables, state, { role: "train" });

  /** @type {Record<string, () => string[]>} */
  const builtIn = {
    TRAIN_ARGUMENTS: () => grouped(data.groups, launcherLines(tables, state)),
    CONVERT_ARGUMENTS: () => grouped(data.groups, conversionLines(tables, state)),
    SERVING_ARGUMENTS: () => indented(referenceLines(tables, state, state.pd ? "prefill" : "regular")),
    DECODE_ARGUMENTS: () => (state.pd ? indented(referenceLines(tables, state, "decode")) : []),
    ENVIRONMENT: () => indented(environmentLines(tables, state)),
    PLANNED: () =>
      validation.findings
        .filter((/** @type {any} */ finding) => finding.severity === "planned")
        .map((/** @type {any} */ finding) => `# planned: ${finding.message.en}`),
  };

  /**
   * @param {string} name
   * @returns {string[]}
   */
  function block(name) {
    if (Object.hasOwn(builtIn, name)) return builtIn[name]();
    const parts = Object.hasOwn(data.blocks, name) ? data.blocks[name] : [];
    return parts
      .filter((/** @type {any} */ part) => test(part.when, names))
      .flatMap((/** @type {any} */ part) => expand(part.text));
  }

  /**
   * The lines of a fixed text; a block alone on a line becomes the lines of that block.
   * @param {string} text
   * @returns {string[]}
   */
  function expand(text) {
    let end = text.length;
    while (end > 0 && text[end - 1] === "\n") end -= 1;
    return text
      .slice(0, end)
      .split("\n")
      .flatMap((line) => {
        const match = BLOCK_LINE.exec(line);
        const isBlock = match !== null && (Object.hasOwn(builtIn, match[1]) || Object.hasOwn(data.blocks, match[1]));
        return isBlock ? block(match[1]) : [line.replace(SLOT, (written, name) => slot(name, written))];
      });
  }

  /**
   * @param {string} name
   * @param {string} written
   */
  function slot(name, written) {
    if (name === "COMMIT") return commitText(provenance);
    if (!Object.hasOwn(data.slots, name)) return written;
    const { value: tree, as, literal } = data.slots[name];
    const value = evaluate(tree, names);
    if (as === "plain") return show(value);
    return word(typeof value === "number" ? value : show(value), literal);
  }

  /** @param {string} template */
  function script(template) {
    return expand(data.templates[template])
      .map((line) => `${line}\n`)
      .join("");
  }

  return { block, script };
}

/** @param {{text: string}[]} lines */
function indented(lines) {
  return lines.map((line) => `    ${line.text}`);
}

/**
 * @param {any[]} groups
 * @param {ArgumentLine[]} lines
 */
function grouped(groups, lines) {
  const titles = new Map(groups.map((group) => [group.id, group.title.en]));
  /** @type {string | null} */
  let last = null;
  return lines.flatMap((line) => {
    const head = line.group === last ? [] : [`    # ${titles.get(line.group)}`];
    last = line.group;
    return [...head, `    ${line.text}`];
  });
}
