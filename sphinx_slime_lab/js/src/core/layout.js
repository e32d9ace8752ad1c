// @ts-check
/** The picture of where the GPUs go, as an integer drawing list; twin of `slime/experiment/layout.py`. */

import { namesOf } from "./tables.js";
import { fill } from "./texts.js";
import { accounting } from "./validation.js";

/** @typedef {import("./tables.js").Tables} Tables */
/** @typedef {import("./tables.js").State} State */
/** @typedef {import("./texts.js").Text} Text */
/**
 * @typedef {object} Shape
 * @property {"rect" | "round" | "text" | "arrow"} shape
 * @property {string} cls
 * @property {number} x
 * @property {number} y
 * @property {number} w
 * @property {number} h
 * @property {Text | null} label
 */
/** @typedef {{cls: string, name: Text, gpus: number}} Section */
/** @typedef {{cls: string, name: Text, sections: Section[]}} Pool */
/** @typedef {{width: number, height: number, shapes: Shape[]}} Drawn */
/** @typedef {{what: Text, gpus: number, detail: Text}} Row */

const SINGLE_GPUS = 16;
const SINGLE_NODES = 32;
const COLUMNS = 8;
const CELL = 24;
const GAP = 4;
const PAD = 12;
const HEAD = 26;
const ARROW = 76;

/**
 * The picture of a state; a wrong state has one too.
 * @param {Tables} tables
 * @param {State} state
 */
export function layout(tables, state) {
  /** @type {Record<string, Text>} */
  const texts = tables.data.layout_texts;
  const names = namesOf(tables, state);
  const totals = accounting(tables, names);
  const unit = names.device === "cpu" ? "cpu" : "gpu";
  const size = names.gpus_per_node;
  const pools = poolsOf(texts, state, totals);
  const path = texts[weightPath(state, names)];
  const placed = place(texts, pools.map((pool) => draw(texts, pool, size, unit)), path);
  return {
    width: placed.width,
    height: placed.height,
    title: fill(texts.title, names),
    description: describe(texts, state, totals, unit, path),
    shapes: placed.shapes,
    table: table(texts, pools, totals, names, unit, size),
  };
}

/**
 * `8 GPUs`, `1 engine`.
 * @param {Record<string, Text>} texts
 * @param {number} number
 * @param {string} kind
 */
function countText(texts, number, kind) {
  return fill(texts[`${kind}_${number === 1 ? "one" : "many"}`], { n: number });
}

/**
 * @param {State} state
 * @param {Record<string, any>} names
 */
function weightPath(state, names) {
  if (state.layout === "colocate" && state.transport === "nccl") return names.device === "cpu" ? "memory" : "ipc";
  return /** @type {string} */ (state.transport);
}

/**
 * Left to right: who generates, then who trains; one pool when they share.
 * @param {Record<string, Text>} texts
 * @param {State} state
 * @param {Record<string, number>} totals
 * @returns {Pool[]}
 */
function poolsOf(texts, state, totals) {
  if (state.layout === "colocate") {
    return [{ cls: "pool shared", name: texts.shared, sections: partsOf(texts, totals, "shared") }];
  }
  const external = state.layout === "external";
  const parts = partsOf(texts, totals, "rollout");
  const train = { cls: "train", name: texts.train, gpus: Math.max(totals.train_gpus, 0) };
  return [
    {
      cls: external ? "pool external" : "pool rollout",
      name: external ? texts.external : texts.rollout,
      sections: external ? parts.map((part) => ({ ...part, cls: `${part.cls} external` })) : parts,
    },
    { cls: "pool train", name: texts.train, sections: [train] },
  ];
}

/**
 * @param {Record<string, Text>} texts
 * @param {Record<string, number>} totals
 * @param {"shared" | "rollout"} cls
 * @returns {Section[]}
 */
function partsOf(texts, totals, cls) {
  if (totals.prefill_gpus <= 0 && totals.decode_gpus <= 0) {
    return [{ cls, name: texts[cls], gpus: Math.max(totals.rollout_gpus, 0) }];
  }
  const suffix = cls === "shared" ? " shared" : "";
  return [
    { cls: `prefill${suffix}`, name: texts.prefill, gpus: Math.max(totals.prefill_gpus, 0) },
    { cls: `decode${suffix}`, name: texts.decode, gpus: Math.max(totals.decode_gpus, 0) },
  ];
}

/**
 * GPUs per drawn box: ones, whole nodes, or one box for all.
 * @param {number} gpus
 * @param {number} size
 */
function countsOf(gpus, size) {
  if (gpus <= SINGLE_GPUS) return Array.from({ length: gpus }, () => 1);
  const nodes = Math.floor((gpus + size - 1) / size);
  if (nodes > SINGLE_NODES) return [gpus];
  return Array.from({ length: nodes }, (_, start) => Math.min(size, gpus - start * size));
}

/**
 * Lay the sections of a pool under each other, from (0, 0).
 * @param {Record<string, Text>} texts
 * @param {Pool} pool
 * @param {number} size
 * @param {string} unit
 * @returns {Drawn}
 */
function draw(texts, pool, size, unit) {
  const inner = COLUMNS * (CELL + GAP) - GAP;
  /** @type {Shape[]} */
  const shapes = [];
  let y = HEAD;
  for (const section of pool.sections) {
    const count = countText(texts, section.gpus, unit);
    const label = pool.sections.length > 1 ? fill(texts.pool, { name: section.name, gpus: count }) : count;
    y += HEAD - GAP;
    shapes.push({ shape: "text", cls: "section", x: PAD, y: y - 2 * GAP, w: 0, h: 0, label });
    const counts = countsOf(section.gpus, size);
    if (counts.length === 1 && counts[0] > SINGLE_GPUS) {
      shapes.push(box(section, PAD, y, inner, nodeText(texts, section.gpus, size, unit)));
      y += CELL + GAP;
      continue;
    }
    counts.forEach((count, index) => {
      const x = PAD + (index % COLUMNS) * (CELL + GAP);
      const text = section.gpus <= SINGLE_GPUS ? null : { zh: String(count), en: String(count) };
      shapes.push(box(section, x, y + Math.floor(index / COLUMNS) * (CELL + GAP), CELL, text));
    });
    y += Math.floor((counts.length + COLUMNS - 1) / COLUMNS) * (CELL + GAP);
  }
  const width = inner + 2 * PAD;
  const height = y + PAD - GAP;
  return {
    width,
    height,
    shapes: [
      { shape: "rect", cls: pool.cls, x: 0, y: 0, w: width, h: height, label: null },
      { shape: "text", cls: "pool-name", x: PAD, y: HEAD - GAP, w: 0, h: 0, label: pool.name },
      ...shapes,
    ],
  };
}

/**
 * @param {Section} section
 * @param {number} x
 * @param {number} y
 * @param {number} w
 * @param {Text | null} label
 * @returns {Shape}
 */
function box(section, x, y, w, label) {
  const cls = `${label === null ? "gpu" : "node"} ${section.cls}`;
  return { shape: section.cls === "train" ? "rect" : "round", cls, x, y, w, h: CELL, label };
}

/**
 * @param {Record<string, Text>} texts
 * @param {number} gpus
 * @param {number} size
 * @param {string} unit
 */
function nodeText(texts, gpus, size, unit) {
  if (gpus < size) return countText(texts, gpus, unit);
  const nodes = countText(texts, Math.floor(gpus / size), "node");
  return fill(texts[gpus % size === 0 ? "nodes" : "nodes_rest"], { nodes, size, rest: gpus % size });
}

/**
 * Put the pools side by side with the arrows between and underneath.
 * @param {Record<string, Text>} texts
 * @param {Drawn[]} pools
 * @param {Text} path
 * @returns {Drawn}
 */
function place(texts, pools, path) {
  const tallest = Math.max(...pools.map((pool) => pool.height));
  /** @type {Shape[]} */
  const shapes = [];
  let x = PAD;
  pools.forEach((pool, index) => {
    for (const shape of pool.shapes) shapes.push({ ...shape, x: shape.x + x, y: shape.y + PAD });
    x += pool.width;
    if (index + 1 < pools.length) {
      const y = PAD + HEAD + CELL / 2;
      const w = ARROW - 2 * GAP;
      shapes.push({ shape: "arrow", cls: "arrow samples", x: x + GAP, y, w, h: 0, label: texts.samples });
      x += ARROW;
    }
  });
  const under = PAD + tallest + HEAD;
  const single = pools.length === 1;
  const first = single ? PAD + PAD : PAD + Math.floor(pools[0].width / 2);
  const last = single ? x - PAD : x - Math.floor(pools[pools.length - 1].width / 2);
  shapes.push({ shape: "arrow", cls: "arrow weights", x: last, y: under, w: first - last, h: 0, label: path });
  return { width: x + PAD, height: under + PAD, shapes };
}

/**
 * @param {Record<string, Text>} texts
 * @param {State} state
 * @param {Record<string, number>} totals
 * @param {string} unit
 * @param {Text} path
 * @returns {Text}
 */
function describe(texts, state, totals, unit, path) {
  const slots = {
    train: countText(texts, totals.train_gpus, unit),
    rollout: countText(texts, totals.rollout_gpus, unit),
    engines: countText(texts, totals.engines, "engine"),
    ray: countText(texts, totals.ray_gpus, unit),
    prefill: totals.prefill_gpus,
    decode: totals.decode_gpus,
    path,
  };
  const key = state.layout === "external" ? "external_text" : /** @type {string} */ (state.layout);
  const said = fill(texts[key], slots);
  if (totals.prefill_gpus <= 0 && totals.decode_gpus <= 0) return said;
  const split = fill(texts.pd_text, slots);
  return { zh: said.zh + split.zh, en: `${said.en} ${split.en}` };
}

/**
 * @param {Record<string, Text>} texts
 * @param {Pool[]} pools
 * @param {Record<string, number>} totals
 * @param {Record<string, any>} names
 * @param {string} unit
 * @param {number} size
 * @returns {Row[]}
 */
function table(texts, pools, totals, names, unit, size) {
  const engines = fill(texts.engines, {
    engines: countText(texts, totals.engines, "engine"),
    size: countText(texts, names.engine, unit),
  });
  const parts = pools
    .flatMap((pool) => pool.sections)
    .filter((section) => section.cls.startsWith("prefill") || section.cls.startsWith("decode"))
    .map((section) => ({ what: section.name, gpus: section.gpus, detail: nodeText(texts, section.gpus, size, unit) }));
  return [
    { what: texts.train, gpus: totals.train_gpus, detail: fill(texts.parallel, names) },
    { what: texts.rollout, gpus: totals.rollout_gpus, detail: engines },
    ...parts,
    { what: texts.ray, gpus: totals.ray_gpus, detail: texts.ray_detail },
  ];
}
