// @ts-check
/** Choices kept in the browser. Every access may fail (private mode, quota, policy), and then nothing is kept. */

const SCHEMA = 1;

/**
 * @param {string} project separates the sites that share one origin, such as all files of one machine
 * @param {string} lab name of the lab on its page
 */
export function createStorage(project, lab) {
  const key = `slime-lab:${SCHEMA}:${project}:${lab}`;
  return {
    /** @returns {Record<string, any>|null} raw choices, to be sanitised by the caller */
    load() {
      try {
        const raw = JSON.parse(localStorage.getItem(key) || "null");
        return raw !== null && typeof raw === "object" && !Array.isArray(raw) ? raw : null;
      } catch (error) {
        return null;
      }
    },
    /** @param {Record<string, any>} state */
    save(state) {
      try {
        localStorage.setItem(key, JSON.stringify(state));
      } catch (error) {
        // Nothing depends on it: the page works, and a reload starts from the page's own experiment.
      }
    },
  };
}
