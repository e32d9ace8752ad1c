// @ts-check
/** Brings every live lab of the page to life. The page is complete without it. */
import { createEngine } from "../core/engine.js";
import { createLab } from "./lab.js";

function start() {
  const data = /** @type {any} */ (window).SlimeLabData;
  if (!data) return;
  const engine = createEngine(data.catalog);
  const sections = Array.from(document.querySelectorAll("[data-slime-lab]"));
  sections.forEach((section, at) => createLab(/** @type {HTMLElement} */ (section), engine, data, at === 0));
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
