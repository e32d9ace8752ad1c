// @ts-check
/** Copy and download. */

/**
 * Copy a text; falls back to a selection where the clipboard is closed, as on plain http from another host.
 * @param {string} text
 * @returns {Promise<boolean>} whether it is on the clipboard
 */
export async function copyText(text) {
  if (navigator.clipboard && window.isSecureContext) {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch (error) {
      // The permission may be denied; the older way needs none.
    }
  }
  return copyBySelection(text);
}

/** @param {string} text */
function copyBySelection(text) {
  const focused = /** @type {HTMLElement|null} */ (document.activeElement);
  const area = document.createElement("textarea");
  area.value = text;
  area.setAttribute("readonly", "");
  area.className = "slime-lab__offscreen";
  document.body.append(area);
  area.select();
  let done = false;
  try {
    done = document.execCommand("copy");
  } catch (error) {
    done = false;
  }
  area.remove();
  if (focused) focused.focus({ preventScroll: true });
  return done;
}

/**
 * Save a text as a file, byte for byte (UTF-8, no mark, no change of line ends).
 * @param {string} name
 * @param {string} text
 */
export function download(name, text) {
  const type = name.endsWith(".json") ? "application/json" : "text/plain";
  const url = URL.createObjectURL(new Blob([text], { type: `${type};charset=utf-8` }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}
