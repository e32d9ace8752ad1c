// @ts-check
/** Small helpers around the DOM. Text is always set as text, never as markup. */

/**
 * Create an element: `h("button", {type: "button", class: "x", onclick: f}, "Copy")`.
 * @param {string} tag
 * @param {Record<string, any>} [attributes] `on*` are listeners; `true` gives an empty attribute; null is left out
 * @param {...(Node|string|null)} children
 * @returns {any}
 */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * Create an SVG element.
 * @param {string} tag
 * @param {Record<string, any>} [attributes]
 * @param {...(Node|string|null)} children
 * @returns {SVGElement}
 */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined) element.setAttribute(name, String(value));
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/**
 * Set a text only when it differs, so that selections and screen readers are left alone.
 * @param {Node} node
 * @param {string} text
 */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/**
 * Show or hide.
 * @param {HTMLElement} element
 * @param {boolean} shown
 */
export function show(element, shown) {
  if (element.hidden === shown) element.hidden = !shown;
}

/**
 * Fill `{slots}` of a text.
 * @param {string} text
 * @param {Record<string, any>} slots
 */
export function fill(text, slots) {
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in slots ? String(slots[name]) : whole));
}

/**
 * Make the children of a list match `items`: children of known keys stay the same elements and are updated in place.
 * @param {Element} parent
 * @param {any[]} items
 * @param {(item: any) => string} keyOf
 * @param {(item: any) => HTMLElement} create
 * @param {(element: any, item: any) => void} update
 */
export function reconcile(parent, items, keyOf, create, update) {
  const old = new Map();
  for (const child of Array.from(parent.children)) old.set(child.getAttribute("data-key"), child);
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    let child = old.get(key);
    old.delete(key);
    if (!child) {
      child = create(item);
      child.setAttribute("data-key", key);
    }
    update(child, item);
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
  for (const child of old.values()) child.remove();
}
