// @ts-check
/**
 * Named predicates on text; twin of `slime/experiment/predicates.py`. Classes of characters are ASCII and written out,
 * and every match covers the whole text.
 */

const IMPORT_PATH = /^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)+$/;
const RUN_ID = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/;
const ENDPOINT =
  /^(https?:\/\/)?([A-Za-z0-9._-]+|\[[0-9A-Fa-f]*:[0-9A-Fa-f]*:[0-9A-Fa-f:.]*\]):([1-9][0-9]{0,4})$/;
const DECIMAL = /^([0-9]{1,32}(\.[0-9]{1,32})?|\.[0-9]{1,32})([eE][+-]?[0-9]{1,2})?$/;
const DEVICE = /^[A-Za-z0-9][A-Za-z0-9._:-]*$/;

/**
 * The parts between runs of U+0020.
 * @param {string} text
 * @returns {string[]}
 */
export function splitOnSpaces(text) {
  return text.split(" ").filter((part) => part !== "");
}

/** @param {string} text */
function isEndpoint(text) {
  const match = ENDPOINT.exec(text);
  return match !== null && Number(match[3]) <= 65535;
}

/** @type {Record<string, (text: string) => boolean>} Every predicate by the name that expressions use. */
export const PREDICATES = {
  is_absolute_path: (text) => text.startsWith("/"),
  is_import_path: (text) => IMPORT_PATH.test(text),
  is_run_id: (text) => RUN_ID.test(text),
  is_endpoint_list: (text) => {
    const parts = splitOnSpaces(text);
    return parts.length > 0 && parts.every(isEndpoint);
  },
  is_positive_decimal: (text) => DECIMAL.test(text) && /[1-9]/.test(text.split(/[eE]/)[0]),
  is_device_list: (text) => text.split(",").every((part) => DEVICE.test(part)),
};
