// Jobs: what is being done and what was, newest first; the address holds the filters and the page.

import { getJson, serverNow } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { ago, duration, exact } from "../lib/format.js";
import { find } from "../lib/frame.js";
import { live } from "../lib/live.js";
import { status } from "../parts/status.js";
import { table } from "../parts/table.js";

/**
 * @typedef {{id: string, kind: string, subject: string, about: string, state: string, phase: string,
 *   node_name: string | null, error_cause: string | null, error: string | null, created_at: string,
 *   started_at: string | null, finished_at: string | null}} Job
 * @typedef {{jobs: Job[], next: string | null}} Reading
 */

const FILTERS = ["state", "kind", "subject"];
const PAGE = 50;
const asked = new URLSearchParams(location.search);
const filtered = FILTERS.some((name) => asked.get(name));
const before = asked.get("before") ?? "";

/** @param {Reading} reading */
function draw({ jobs, next }) {
  if (!jobs.length) return empty();
  return [
    table("Jobs", COLUMNS, jobs, (job) => job.id),
    (before || next) &&
      h(
        "nav",
        { class: "pager", key: "pager", "aria-label": "Pages" },
        before ? h("a", { class: "button quiet", href: at({ before: "" }) }, "Newest") : h("span", null),
        next && h("a", { class: "button quiet", href: at({ before: next }) }, "Older"),
      ),
  ];
}

const COLUMNS = [
  {
    label: "Job",
    class: "name",
    cell: (/** @type {Job} */ job) => [
      h("a", { href: `/app/jobs/${job.id}` }, job.about),
      h("span", { class: "faint" }, job.kind),
    ],
  },
  { label: "State", cell: state },
  { label: "Node", cell: (/** @type {Job} */ job) => job.node_name ?? "" },
  {
    label: "Started",
    class: "tight",
    cell: (/** @type {Job} */ job) => h("span", { title: exact(job.created_at) }, ago(job.created_at, serverNow())),
  },
  { label: "Took", class: "tight right", cell: took },
];

/** @param {Job} job */
function state(job) {
  const phase = job.state === "running" && job.kind === "model.load" && h("span", { class: "faint" }, job.phase);
  return [
    status(job.state),
    phase,
    job.error && h("div", { class: "cause", title: job.error }, `${job.error_cause}: ${job.error}`),
  ];
}

/** @param {Job} job */
function took(job) {
  const end = job.finished_at ? Date.parse(job.finished_at) : serverNow();
  return duration(end - Date.parse(job.created_at));
}

function empty() {
  if (filtered || before)
    return h(
      "div",
      { class: "empty", key: "empty" },
      h("h2", null, "No job fits"),
      h("p", null, h("a", { href: "/app/jobs" }, "Show all jobs")),
    );
  return h(
    "div",
    { class: "empty", key: "empty" },
    h("h2", null, "No jobs yet"),
    h("p", { class: "faint" }, "Everything that takes time becomes a job: the first question to a model loads it."),
  );
}

/** This list with other parameters. @param {Record<string, string>} changes */
function at(changes) {
  const next = new URLSearchParams(asked);
  for (const [name, value] of Object.entries(changes)) {
    if (value) next.set(name, value);
    else next.delete(name);
  }
  return next.size ? `/app/jobs?${next}` : "/app/jobs";
}

/** What the server refuses is a filter of the address. @param {any} error */
function drawError(error) {
  if (error.status !== 400) return null;
  return h(
    "div",
    { class: "note bad", role: "alert", key: "refused" },
    h("span", null, error.message),
    h("a", { class: "button", href: "/app/jobs" }, "Show all jobs"),
  );
}

function startFilters() {
  const form = /** @type {HTMLFormElement} */ (find("filters"));
  for (const name of FILTERS) {
    const field = /** @type {HTMLSelectElement | HTMLInputElement} */ (form.elements.namedItem(name));
    field.value = asked.get(name) ?? "";
    if (field instanceof HTMLSelectElement) field.onchange = () => form.requestSubmit();
  }
  form.onsubmit = (event) => {
    event.preventDefault();
    const values = new FormData(form);
    const changes = Object.fromEntries(FILTERS.map((name) => [name, String(values.get(name) ?? "").trim()]));
    location.assign(at({ ...changes, before: "" }));
  };
  find("clear").hidden = !filtered;
}

startFilters();

live(find("page"), {
  what: "the jobs",
  read: () => getJson(`/api/jobs?${new URLSearchParams([...asked, ["limit", String(PAGE)]])}`),
  draw,
  drawError,
  every: (reading) => (reading?.jobs.some((/** @type {Job} */ job) => !job.finished_at) ? 2000 : 5000),
});
