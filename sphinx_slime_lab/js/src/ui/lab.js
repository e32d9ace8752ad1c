// @ts-check
/** One lab: a session, and the parts that show it. */
import { createSession } from "../model/session.js";
import { createStorage } from "../model/storage.js";
import { createBar } from "./bar.js";
import { createCompare } from "./compare.js";
import { createControls } from "./controls.js";
import { fill, h } from "./dom.js";
import { createFiles } from "./files.js";
import { createInstall } from "./install.js";
import { listen } from "./keys.js";
import { createLabels } from "./labels.js";
import { createLessons } from "./lessons.js";
import { createLive } from "./live.js";
import { createLoad } from "./load.js";
import { createMemory } from "./memory.js";
import { createNotices } from "./notices.js";
import { createProvenance } from "./provenance.js";
import { createRun } from "./run.js";
import { createShare } from "./share.js";
import { createStatus } from "./status.js";
import { createTables } from "./tables.js";
import { tell } from "./telling.js";
import { createTour } from "./tour.js";

/** Parts of other modules: `{make: createX, at: "start"}` stands before the steps, `"end"` after the files. */
/** @type {{make: (context: any, actions: any) => {element: HTMLElement, update: (now: any) => void}, at: "start" | "end"}[]} */
const extras = [
  { make: createTour, at: "start" },
  { make: createProvenance, at: "end" },
];

/**
 * @param {HTMLElement} section the lab as the build wrote it
 * @param {any} engine
 * @param {any} data catalog, provenance, words and language of the site
 * @param {boolean} isFirst a link in the address is the first lab's of the page
 */
export function createLab(section, engine, data, isFirst) {
  const page = JSON.parse(/** @type {any} */ (section.querySelector(".slime-lab__page")).textContent);
  const { language, words } = data;
  const status = createStatus();
  const context = { engine, data, page, language, words, section, say: status.say, labels: createLabels(data, page, language) };
  const storage = createStorage(backend(), { project: data.project, schema: data.catalog.links.version, lab: page.name, writer: tabName() });
  const session = createSession(engine, storage, page.state, isFirst ? address : { read: () => "", write: () => {}, leave: () => {} });

  const actions = createActions(context, session, () => show(), (/** @type {string[]} */ fields) => controls.goTo(fields));
  const notices = createNotices(context, () => controls.focusTitle());
  const parts = {
    bar: createBar(context, session, actions),
    share: createShare(context, session),
    load: createLoad(context, actions, notices),
    compare: createCompare(context, session, actions, notices),
  };
  const tools = parts.bar.tools([
    { name: "share", label: words.share, panel: parts.share },
    { name: "load", label: words.load, panel: parts.load },
  ], parts.compare);
  const controls = createControls(context, actions);
  const shown = [parts.bar, controls, createLive(section, context, actions), createFiles(section, context, actions),
    createTables(section, context), createRun(section, context), createLessons(context), createMemory(section, context), createInstall(section, context, actions), parts.share, parts.compare];
  const others = extras.map(({ make, at }) => ({ ...make(context, actions), at }));

  function show() {
    const now = derive(context, session.state);
    for (const part of [...shown, ...others]) part.update(now);
    tell(context, session, notices, show);
  }

  const livePanel = /** @type {HTMLElement} */ (section.querySelector(".slime-lab__live"));
  const main = h("div", { class: "slime-lab__main" });
  const start = others.filter((one) => one.at === "start").map((one) => one.element);
  livePanel.before(parts.bar.element, tools, notices.element, ...start, controls.steps, main, parts.compare.element);
  main.append(controls.form, livePanel);
  section.querySelector(".slime-lab__files")?.append(...others.filter((one) => one.at === "end").map((one) => one.element));
  section.append(status.element, createJump(context, livePanel));
  section.classList.add("slime-lab--ready");
  listen(section, actions);
  window.addEventListener("storage", (event) => session.noticed(event) && show());
  if (isFirst) {
    window.addEventListener("hashchange", () => {
      if (!address.read()) return;
      session.open();
      show();
    });
  }
  show();
  section.setAttribute("data-settled", "");
  if (session.report.source === "kept") status.say(words.restored);
}

/** Everything that follows from a state. */
function derive(/** @type {any} */ { engine, data }, /** @type {any} */ state) {
  return {
    state,
    view: engine.view(state),
    validation: engine.validate(state),
    layout: engine.layout(state),
    arguments: engine.arguments(state),
    environment: engine.environment(state),
    artifacts: engine.artifacts(state, data.provenance),
    facts: data.catalog.models[state.model].facts,
  };
}

/**
 * What a control may do. Each edit is one step of the history, with all that is linked to it.
 * @param {any} context
 * @param {ReturnType<typeof createSession>} session
 * @param {() => void} show
 * @param {(fields: string[]) => void} goTo
 */
function createActions({ engine, page, language, words, say, labels }, session, show, goTo) {
  const took = (/** @type {any} */ step, /** @type {string} */ message) => {
    if (step === null) return false;
    show();
    const linked = [...new Set(step.announcement.map((/** @type {any} */ one) => one[language]))];
    say([message, ...linked].filter(Boolean).join(" "));
    return true;
  };
  const walked = (/** @type {any} */ step, /** @type {string} */ message) =>
    step !== null && took({ announcement: [] }, fill(message, { names: labels.list(step.changes.map((/** @type {any} */ one) => one.field)) }));
  return {
    /** One edit; a value that is refused comes back as its reason, in the words of the page. */
    change(/** @type {string} */ field, /** @type {any} */ value) {
      let result;
      try {
        result = engine.change(session.state, field, value);
      } catch (error) {
        const reason = /** @type {any} */ (error).reason;
        if (!reason) throw error;
        return reason[language];
      }
      const announcement = result.linked.map((/** @type {any} */ link) => link.announce);
      took(session.commit(result.state, announcement), "");
      return null;
    },
    /** Replace the experiment as one edit; false when it is the same already. */
    adopt: (/** @type {any} */ state, /** @type {string} */ message) => took(session.commit(state), message),
    undo: () => walked(session.undo(), words.undone),
    redo: () => walked(session.redo(), words.redone),
    reset: () => took(session.commit(page.state), words.was_reset) || say(words.nothing_changed),
    /** Go to the choice that is still empty, else to the first one that the page shows. */
    goTo(/** @type {string[]} */ fields) {
      const visible = fields.filter((name) => engine.view(session.state).visible.includes(name));
      goTo([visible.find((name) => session.state[name] === "") ?? visible[0] ?? fields[0]]);
    },
    show,
  };
}

/** The fragment of the page's address, when it is a link of an experiment; other fragments are headings. */
const address = {
  read: () => (/[#&](lab|experiment)=/.test(location.hash) ? location.hash : ""),
  /** @param {string} fragment */
  write(fragment) {
    if (fragment === "" && address.read() === "") return;
    history.replaceState(history.state, "", location.pathname + location.search + (fragment && `#${fragment}`));
  },
  leave: () => history.pushState(null, "", location.pathname + location.search),
};

/** The storage may be closed to the page, and then even asking for it throws. */
function backend() {
  try {
    return localStorage;
  } catch {
    return null;
  }
}

function tabName() {
  return `${Date.now().toString(36)}-${Math.random().toString(36).slice(2)}`;
}

/** On narrow screens, a button that brings the picture back into view. */
function createJump(/** @type {any} */ { section, words }, /** @type {HTMLElement} */ live) {
  const button = h("button", {
    type: "button", class: "slime-lab__button slime-lab__button--main slime-lab__jump", hidden: true,
    onclick: () => live.scrollIntoView({ block: "start" }),
  }, words.picture_jump);
  let isLiveSeen = true;
  let isLabSeen = true;
  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (entry.target === live) isLiveSeen = entry.isIntersecting;
      else isLabSeen = entry.isIntersecting;
    }
    button.hidden = isLiveSeen || !isLabSeen;
  });
  seen.observe(live);
  seen.observe(section);
  return button;
}
