// @ts-check
/** What the session has to say beside the experiment: links, other tabs, what could not be read or kept. */
import { fill } from "./dom.js";

/**
 * @param {any} context
 * @param {ReturnType<import("../model/session.js").createSession>} session
 * @param {ReturnType<import("./notices.js").createNotices>} notices
 * @param {() => void} show
 */
export function tell(context, session, notices, show) {
  const { words, language } = context;
  const { report } = session;
  notices.set("visit", report.isVisiting ? visit(context, session, notices, show) : null);
  notices.set("problem", report.problem && once(report, "problem", { text: fill(words.link_refused, { reason: report.problem[language] }), isWarning: true }));
  notices.set("ignored", report.ignored.length ? once(report, "ignored", ignoredNotice(context, words.ignored_start, report.ignored)) : null);
  notices.set("damaged", report.isDamaged ? once(report, "damaged", { text: words.damaged, isWarning: true }) : null);
  notices.set("unkept", report.unkept ? once(report, "unkept", { text: words[`unkept_${report.unkept}`], isWarning: true }) : null);
  for (const side of /** @type {("a" | "b")[]} */ (["a", "b"])) {
    notices.set(`conflict-${side}`, report.conflict[side] === undefined ? null : conflict(context, session, side, show));
  }
}

/** A report is told once; when it was read and dismissed it stays away. */
const told = new WeakMap();

/** @param {any} report @param {string} key @param {any} notice */
function once(report, key, notice) {
  const seen = told.get(report) ?? {};
  told.set(report, seen);
  return seen[key] ? null : { ...notice, onclose: () => (seen[key] = true) };
}

/**
 * The choices of a source that could not be used, each with its reason.
 * @param {any} context
 * @param {string} text
 * @param {any[]} ignored
 */
export function ignoredNotice({ language, words }, text, ignored) {
  const items = ignored.map((one) => {
    const meant = one.nearest ? ` ${fill(words.did_you_mean, { name: one.nearest })}` : "";
    const reason = one.reason[language];
    return `${reason.includes(one.key) ? "" : `${one.key}${words.colon}`}${reason}${meant}`;
  });
  return { text, items };
}

/** @param {any} context @param {any} session @param {any} notices @param {() => void} show */
function visit(context, session, notices, show) {
  const { words } = context;
  const { mine, bringsA } = session.report;
  const items = mine === null ? [] : differences(context, mine, session.state, words.yours, words.of_link);
  if (bringsA) items.push(words.visit_a);
  return {
    text: mine === null ? words.visiting_a : items.length ? words.visiting : words.visiting_same,
    items,
    buttons: [
      {
        label: words.visit_keep,
        onclick: () => {
          const replaced = session.keepVisited();
          show();
          context.say(words.visit_kept);
          if (replaced) notices.set("replaced-a", offerA(context, session, replaced, show));
        },
      },
      {
        label: words.visit_leave,
        onclick: () => {
          session.leaveVisit();
          show();
          context.say(words.visit_left);
        },
      },
    ],
  };
}

/**
 * A notice that brings back an A that was replaced or cleared.
 * @param {any} context
 * @param {any} session
 * @param {any} before
 * @param {() => void} show
 */
export function offerA({ words }, session, before, show) {
  const back = () => {
    session.setA(before);
    show();
  };
  return { text: words.a_replaced, buttons: [{ label: words.a_back, onclick: back }, { label: words.dismiss, onclick: () => {} }] };
}

/** @param {any} context @param {any} session @param {"a" | "b"} side @param {() => void} show */
function conflict(context, session, side, show) {
  const { words } = context;
  const theirs = session.report.conflict[side];
  const ours = side === "a" ? session.a : session.state;
  const answer = (/** @type {"mine" | "theirs"} */ which) => () => {
    session.resolve(side, which);
    show();
    context.say(which === "mine" ? words.conflict_kept : words.conflict_taken);
  };
  return {
    text: words[theirs === null ? `conflict_cleared_${side}` : `conflict_${side}`],
    isWarning: true,
    items: theirs && ours ? differences(context, ours, theirs, words.this_tab, words.other_tab) : [],
    buttons: [
      { label: words.conflict_mine, onclick: answer("mine") },
      { label: words.conflict_theirs, onclick: answer("theirs") },
    ],
  };
}

const SHOWN = 5;

/** Differences of two experiments as lines, the first few in full. */
function differences(/** @type {any} */ { data, labels, words }, /** @type {any} */ left, /** @type {any} */ right, /** @type {string} */ a, /** @type {string} */ b) {
  const names = data.catalog.fields.map((/** @type {any} */ field) => field.name).filter((/** @type {string} */ name) => left[name] !== right[name]);
  const lines = names.slice(0, SHOWN).map((/** @type {string} */ name) =>
    fill(words.difference, { name: labels.label(name), a, b, left: labels.value(name, left[name]), right: labels.value(name, right[name]) }));
  if (names.length > SHOWN) lines.push(fill(words.and_more, { count: names.length - SHOWN }));
  return lines;
}
