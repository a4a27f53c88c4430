// How one job looks: what it is, why it failed, its phases with their lengths, its children and every move.

import { sentence, serverNow } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { ago, bytes, duration, exact } from "../lib/format.js";
import { status } from "../parts/status.js";
import { table } from "../parts/table.js";
import { factsOf, hasPhases, inPhases, isOver, phasesOf, placeOf, shortActor } from "./rules.js";

/** @typedef {import("./rules.js").JobEvent} JobEvent */

/**
 * All of it.
 * @param {any} job with its children @param {JobEvent[]} moves @param {any} actions what may be done with it
 */
export function jobView(job, moves, actions) {
  const events = inPhases(job.kind, moves);
  return [
    h(
      "div",
      { class: "title", key: "title" },
      h("strong", null, job.about),
      h("span", { class: "faint" }, job.kind),
      status(job.state),
      actions,
    ),
    failure(job),
    h(
      "div",
      { class: "panel", key: "facts" },
      h(
        "dl",
        { class: "facts" },
        facts(job).map(([name, value]) => h("div", { key: name }, h("dt", null, name), h("dd", null, value))),
      ),
    ),
    timeline(events),
    children(job.children),
    h("h2", { key: "moves-title" }, "Moves"),
    table("Moves", movesFrom(Date.parse(events[0]?.at ?? job.created_at)), events, (event) => String(event.id)),
  ];
}

/** @param {any} job @returns {[string, any][]} */
function facts(job) {
  const end = job.finished_at ? Date.parse(job.finished_at) : serverNow();
  const all = [
    ["Phase", hasPhases(job.kind) && !isOver(job.state) ? job.phase : null],
    ["Node", job.node_name],
    ["Created", h("span", { title: exact(job.created_at) }, ago(job.created_at, serverNow()))],
    [job.finished_at ? "Took" : "Takes", duration(end - Date.parse(job.created_at))],
    ["Bytes", job.bytes_total > 0 ? moved(job) : null],
    ["Files", job.files_total > 1 ? `${job.file_index} of ${job.files_total}` : null],
    ["Stop", job.stop_state === "none" ? null : job.stop_state],
    ["Held for", job.hold_in_s === null ? null : held(job.hold_until)],
    ["Parent", job.parent_id && h("a", { href: `/app/jobs/${job.parent_id}` }, "the job that waits for it")],
    ["Id", h("code", null, job.id)],
  ];
  return /** @type {[string, any][]} */ (
    all.filter(([, value]) => value !== null && value !== undefined && value !== "")
  );
}

/** @param {any} job */
const moved = ({ bytes_done: done, bytes_total: total }) =>
  done === total ? bytes(total) : `${bytes(done)} of ${bytes(total)}`;

/** @param {string} until */
function held(until) {
  const left = Date.parse(until) - serverNow();
  return left > 0 ? duration(left) : null;
}

/** @param {any} job */
function failure(job) {
  if (!job.error) return null;
  const tail = job.error_detail?.stderr_tail;
  // A person wanted it so: that is no failure.
  if (job.state === "cancelled") {
    return h("div", { class: "card", key: "cancelled" }, h("p", null, sentence(job.error)));
  }
  return h(
    "div",
    { class: "card failed", key: "failure" },
    h("p", { class: "row" }, h("strong", null, sentence(job.error)), h("code", null, job.error_cause)),
    tail && [
      h("p", { class: "hint", key: "of" }, "The last words of the process:"),
      h("pre", { class: "wrap", tabindex: 0, key: "tail" }, h("code", null, String(tail))),
    ],
  );
}

/** @param {JobEvent[]} events */
function timeline(events) {
  const phases = phasesOf(events, serverNow());
  if (!phases.length) return null;
  const rows = phases.map((phase, at) => {
    const { from, share } = placeOf(phase, phases);
    return h(
      "li",
      { key: `${at}`, class: phase.live ? "live" : phase.failed ? "failed" : null },
      h("span", null, phase.name),
      h("div", { class: "track" }, h("div", { class: "bar", style: { "--from": `${from}%`, "--share": `${share}%` } })),
      h("span", { class: "length" }, duration(phase.until - phase.from)),
    );
  });
  return [
    h("h2", { key: "phases-title" }, "Phases"),
    h("div", { class: "panel", key: "phases" }, h("ol", { class: "phases", "aria-label": "Phases" }, rows)),
  ];
}

/** @param {any[]} jobs */
function children(jobs) {
  if (!jobs.length) return null;
  return [
    h("h2", { key: "children-title" }, "Children"),
    h(
      "div",
      { key: "children" },
      table("Children", CHILDREN, jobs, (job) => job.id),
    ),
  ];
}

const CHILDREN = [
  {
    label: "Job",
    class: "name",
    cell: (/** @type {any} */ job) => [
      h("a", { href: `/app/jobs/${job.id}` }, job.about),
      h("span", { class: "faint" }, job.kind),
    ],
  },
  { label: "State", cell: (/** @type {any} */ job) => status(job.state) },
  {
    label: "Bytes",
    cell: (/** @type {any} */ job) =>
      job.bytes_total > 0 ? moved(job) : "",
  },
  { label: "Started", class: "tight", cell: (/** @type {any} */ job) => ago(job.created_at, serverNow()) },
];

/** @param {number} begin milliseconds */
const movesFrom = (begin) => [
  { label: "Move", class: "bare tight", cell: (/** @type {JobEvent} */ event) => event.event.replaceAll("_", " ") },
  {
    label: "After",
    class: "tight right",
    cell: (/** @type {JobEvent} */ event) =>
      h("span", { title: exact(event.at) }, duration(Date.parse(event.at) - begin)),
  },
  {
    label: "State",
    class: "tight",
    cell: (/** @type {JobEvent} */ event) =>
      event.phase && !isOver(event.state) ? `${event.state}, ${event.phase}` : event.state,
  },
  {
    label: "By",
    class: "tight",
    cell: (/** @type {JobEvent} */ event) => h("span", { title: event.actor ?? "" }, shortActor(event.actor)),
  },
  {
    label: "Facts",
    cell: (/** @type {JobEvent} */ event) =>
      factsOf(event.detail) ? h("span", { class: "cause", title: factsOf(event.detail) }, factsOf(event.detail)) : "",
  },
];
