// @ts-check
/** Colours for one line of a generated file, in the class names that Pygments uses, so that themes fit. */

const SHELL = /(#.*$)|('(?:[^'])*'|"(?:[^"\\]|\\.)*")|(\$\{?[A-Za-z_0-9@#]+)|(\s--?[a-z][\w-]*)|(\b(?:if|then|else|elif|fi|for|do|done|case|esac|while|return|exit|export|local|set|function)\b)/g;
const SHELL_CLASSES = ["c1", "s2", "nv", "na", "k"];
const YAML = /(#.*$)|("(?:[^"\\]|\\.)*")|(\b(?:true|false|null)\b|\b\d+\b)|([\w.-]+(?=:))/g;
const YAML_CLASSES = ["c1", "s2", "m", "nt"];

/**
 * @param {string} line
 * @param {string} name file name
 * @returns {(string|HTMLElement)[]} pieces whose texts join to the line exactly
 */
export function highlight(line, name) {
  const shell = name.endsWith(".sh");
  const pattern = shell ? SHELL : YAML;
  const classes = shell ? SHELL_CLASSES : YAML_CLASSES;
  if (shell && /^\s*#/.test(line)) return [span("c1", line)];
  const pieces = [];
  let at = 0;
  for (const match of line.matchAll(pattern)) {
    const start = /** @type {number} */ (match.index);
    if (match[1] !== undefined && start > 0 && line[start - 1] !== " ") continue;
    if (start > at) pieces.push(line.slice(at, start));
    const kind = classes.findIndex((_, group) => match[group + 1] !== undefined);
    pieces.push(span(classes[kind], match[0]));
    at = start + match[0].length;
  }
  if (at < line.length) pieces.push(line.slice(at));
  return pieces;
}

/**
 * @param {string} name
 * @param {string} text
 */
function span(name, text) {
  const element = document.createElement("span");
  element.className = name;
  element.textContent = text;
  return element;
}
