// @ts-check
/** Brings every live lab of the page to life. The page is complete without it. */
import { createEngine } from "../core/engine.js";
import { createLab } from "./lab.js";

function start() {
  const data = /** @type {any} */ (window).SlimeLabData;
  if (!data) return;
  const engine = createEngine(data.catalog);
  for (const section of Array.from(document.querySelectorAll("[data-slime-lab]"))) {
    createLab(/** @type {HTMLElement} */ (section), engine, data);
  }
}

if (document.readyState === "loading") document.addEventListener("DOMContentLoaded", start);
else start();
