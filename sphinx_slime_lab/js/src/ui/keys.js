// @ts-check
/** Undo and redo by keyboard, wherever the focus is. */

/** @type {{section: HTMLElement, actions: any}[]} */
const labs = [];

/**
 * @param {HTMLElement} section
 * @param {any} actions
 */
export function listen(section, actions) {
  labs.push({ section, actions });
  if (labs.length === 1) document.addEventListener("keydown", pressed);
}

/** @param {KeyboardEvent} event */
function pressed(event) {
  if (!(event.ctrlKey || event.metaKey) || event.altKey || event.key.toLowerCase() !== "z") return;
  const target = /** @type {any} */ (event.target);
  if (isTyping(target)) return;
  const lab = labs.find((one) => one.section.contains(target)) ?? labs[0];
  event.preventDefault();
  if (event.shiftKey) lab.actions.redo();
  else lab.actions.undo();
}

/**
 * Whether the browser's own undo is meant: in an edit that is not committed yet, and in texts that are no choice.
 * @param {any} target
 */
function isTyping(target) {
  if (target.isContentEditable || target.matches("textarea")) return true;
  if (!target.matches("input:not([type=radio], [type=checkbox], [type=file], [type=button])") || target.readOnly) return false;
  return target.slimeKept === undefined || target.value !== target.slimeKept;
}
