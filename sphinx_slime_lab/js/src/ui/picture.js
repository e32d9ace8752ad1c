// @ts-check
/** The GPU layout as SVG, from the engine's drawing list. The twin of `render/svg.py`: same elements, same order. */
import { svg } from "./dom.js";

const ROUND = 6;
const HEAD_LENGTH = 8;
const HEAD_WIDTH = 5;

/**
 * @param {any} layout drawing list of the engine
 * @param {string} uid prefix of ids
 * @param {"zh"|"en"} language
 * @returns {SVGElement}
 */
export function drawPicture(layout, uid, language) {
  const title = `${uid}-picture-title`;
  const description = `${uid}-picture-description`;
  // Two pools side by side need larger letters on a narrow screen.
  const pools = layout.shapes.filter((/** @type {any} */ shape) => shape.cls.split(" ").includes("pool"));
  const frame = {
    class: `sl-pools-${pools.length}`,
    viewBox: `0 0 ${layout.width} ${layout.height}`,
    width: Math.floor((layout.width * 5) / 4),
    height: Math.floor((layout.height * 5) / 4),
    role: "img",
    "aria-labelledby": `${title} ${description}`,
  };
  return svg(
    "svg",
    frame,
    svg("title", { id: title }, layout.title[language]),
    svg("desc", { id: description }, layout.description[language]),
    ...layout.shapes.flatMap((/** @type {any} */ shape) => marks(shape, language)),
  );
}

/**
 * @param {any} shape
 * @param {"zh"|"en"} language
 */
function marks(shape, language) {
  const label = shape.label === null ? "" : shape.label[language];
  if (shape.shape === "text") return [svg("text", { class: classes(shape.cls), x: shape.x, y: shape.y }, label)];
  if (shape.shape === "arrow") return arrow(shape, label);
  const names = shape.cls.split(" ");
  const found = [box(shape)];
  if (names.includes("shared") && !names.includes("pool")) found.push(half(shape));
  if (shape.label !== null) {
    const x = shape.x + Math.floor(shape.w / 2);
    const y = shape.y + Math.floor(shape.h / 2) + 4;
    found.push(svg("text", { class: "sl-count", x, y }, label));
  }
  return found;
}

/** @param {any} shape */
function box(shape) {
  const rx = shape.shape === "round" ? ROUND : null;
  return svg("rect", { class: classes(shape.cls), x: shape.x, y: shape.y, width: shape.w, height: shape.h, rx });
}

/** @param {any} shape */
function half(shape) {
  const right = shape.x + shape.w;
  const bottom = shape.y + shape.h;
  const d = `M${right} ${shape.y + ROUND}V${bottom - ROUND}Q${right} ${bottom} ${right - ROUND} ${bottom}H${shape.x + ROUND}Z`;
  return svg("path", { class: "sl-half", d });
}

/**
 * @param {any} shape
 * @param {string} label
 */
function arrow(shape, label) {
  const kind = classes(shape.cls);
  const end = shape.x + shape.w;
  const back = shape.w > 0 ? end - HEAD_LENGTH : end + HEAD_LENGTH;
  const points = `${end},${shape.y} ${back},${shape.y - HEAD_WIDTH} ${back},${shape.y + HEAD_WIDTH}`;
  return [
    svg("line", { class: `${kind} sl-line`, x1: shape.x, y1: shape.y, x2: back, y2: shape.y }),
    svg("polygon", { class: `${kind} sl-head`, points }),
    svg("text", { class: `${kind} sl-arrow-label`, x: Math.floor((shape.x + end) / 2), y: shape.y - 8 }, label),
  ];
}

/** @param {string} names */
function classes(names) {
  return names
    .split(" ")
    .map((name) => `sl-${name}`)
    .join(" ");
}
