// @ts-check
/**
 * What the browser keeps between visits: the experiment B and, apart from it, A. A Storage-like object is passed in;
 * each access of it may throw (private mode, quota, policy), and what happened is in the answer, never an exception.
 *
 * Every record has a revision. A page writes only over the revision that it has seen, so of two tabs the slower one
 * learns of the other's work instead of erasing it; the reader then chooses: `keepMine`, or `takeTheirs`.
 */

/** @typedef {Record<string, string | boolean | number>} State */
/** @typedef {"a" | "b"} Side */
/** @typedef {{revision: number, writer: string, choices: Record<string, any> | null}} Stored */
/** @typedef {{getItem(key: string): string | null, setItem(key: string, value: string): void, removeItem(key: string): void}} Backend */
/**
 * `empty`: nothing kept. `kept`: `choices` are raw and go through `sanitise`. `damaged`: what stood there cannot be read;
 * it was moved aside. `blocked`: the browser allows no access.
 * @typedef {{status: "empty" | "kept" | "damaged" | "blocked", choices: Record<string, any> | null}} Loaded
 */
/**
 * `saved`; `conflict`: another tab wrote, `theirs` is what (null: it was cleared), nothing was overwritten; `full`: no
 * room; `blocked`: no access. After the last two the page goes on without keeping anything.
 * @typedef {{status: "saved" | "conflict" | "full" | "blocked", theirs: Record<string, any> | null}} Saved
 */

const FORMAT = 1;
const MAXIMUM_CHARACTERS = 256 * 1024;
const QUOTA = ["QuotaExceededError", "NS_ERROR_DOM_QUOTA_REACHED"];

/**
 * @param {Backend | null} backend null when the page may not even ask for one
 * @param {{project: string, schema: number, lab: string, writer: string}} names `project` separates sites that share
 *   one origin (all files of one machine do), `schema` the meaning of the choices, `lab` the labs of one site, and
 *   `writer` this tab
 */
export function createStorage(backend, { project, schema, lab, writer }) {
  const keyOf = (/** @type {Side} */ side) => `slime-lab:${schema}:${project}:${lab}:${side}`;
  /** The record of each side that this page has seen last: its revision and who wrote it. */
  const seen = { a: { revision: 0, writer }, b: { revision: 0, writer } };
  const isSeen = (/** @type {Side} */ side, /** @type {Stored} */ record) =>
    record.revision === seen[side].revision && record.writer === seen[side].writer;

  /** @param {Side} side */
  function read(side) {
    if (backend === null) throw new Error("no storage");
    return parse(backend.getItem(keyOf(side)));
  }

  /**
   * @param {Side} side
   * @param {State | null} choices null clears the side; the revision goes on, so that other tabs notice
   * @returns {Saved}
   */
  function write(side, choices) {
    const revision = seen[side].revision + 1;
    const text = JSON.stringify({ format: FORMAT, revision, writer, choices });
    try {
      /** @type {Backend} */ (backend).setItem(keyOf(side), text);
    } catch (error) {
      return { status: isQuota(error) ? "full" : "blocked", theirs: null };
    }
    seen[side] = { revision, writer };
    return { status: "saved", theirs: null };
  }

  /**
   * @param {Side} side
   * @returns {Loaded}
   */
  function load(side) {
    let record;
    try {
      record = read(side);
    } catch {
      return { status: "blocked", choices: null };
    }
    if (record === "damaged") {
      moveAside(/** @type {Backend} */ (backend), keyOf(side));
      return { status: "damaged", choices: null };
    }
    if (record === null) return { status: "empty", choices: null };
    seen[side] = { revision: record.revision, writer: record.writer };
    return { status: record.choices === null ? "empty" : "kept", choices: record.choices };
  }

  /**
   * @param {Side} side
   * @param {State | null} choices
   * @returns {Saved}
   */
  function save(side, choices) {
    let record;
    try {
      record = read(side);
    } catch {
      return { status: "blocked", theirs: null };
    }
    if (record === "damaged") moveAside(/** @type {Backend} */ (backend), keyOf(side));
    else if (record !== null && !isSeen(side, record)) return { status: "conflict", theirs: record.choices };
    return write(side, choices);
  }

  return {
    /** Read a side as it is kept; a page does this once, when it opens. */
    load,
    /** Keep a side, or clear it with null. B is kept after every edit, A when the reader says so. */
    save,
    /**
     * The reader's answer to a conflict: overwrite what the other tab wrote.
     * @param {Side} side
     * @param {State | null} choices
     * @returns {Saved}
     */
    keepMine(side, choices) {
      load(side);
      return write(side, choices);
    },
    /** The reader's other answer: what the other tab wrote, which then counts as seen. */
    takeTheirs: load,
    /**
     * What a `storage` event means for this page: the side that another tab wrote and its choices (null: cleared), or
     * null when the event is about something else. Nothing is taken over; a later `save` reports the conflict.
     * @param {{key: string | null, newValue: string | null}} event
     * @returns {{side: Side, theirs: Record<string, any> | null} | null}
     */
    noticed(event) {
      const side = event.key === keyOf("a") ? "a" : event.key === keyOf("b") ? "b" : null;
      if (side === null) return null;
      const record = parse(event.newValue);
      if (record === null || record === "damaged" || isSeen(side, record)) return null;
      return { side, theirs: record.choices };
    },
  };
}

/**
 * @param {string | null} text
 * @returns {Stored | "damaged" | null}
 */
function parse(text) {
  if (text === null) return null;
  if (text.length > MAXIMUM_CHARACTERS) return "damaged";
  let record;
  try {
    record = JSON.parse(text);
  } catch {
    return "damaged";
  }
  if (!isMapping(record) || record.format !== FORMAT || typeof record.writer !== "string") return "damaged";
  const isCounted = Number.isSafeInteger(record.revision) && record.revision > 0;
  if (!isCounted || (record.choices !== null && !isMapping(record.choices))) return "damaged";
  return record;
}

/** @param {any} value */
function isMapping(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value);
}

/**
 * What cannot be read is not lost: it moves to a key of its own, where a person can find it. Without room for that it
 * stays where it is until something readable is kept.
 * @param {Backend} backend
 * @param {string} key
 */
function moveAside(backend, key) {
  try {
    const text = backend.getItem(key);
    if (text === null || text.length > MAXIMUM_CHARACTERS) return;
    backend.setItem(`${key}:unreadable`, text);
    backend.removeItem(key);
  } catch {
    // The caller says that the record is damaged; there is no more to say about where it lies.
  }
}

/** @param {unknown} error */
function isQuota(error) {
  return error instanceof Error && QUOTA.includes(error.name);
}
