// One job, followed while it runs: the row and its children are read, its moves come as they happen.

import { getJson } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { find } from "../lib/frame.js";
import { live } from "../lib/live.js";
import { follow } from "../lib/sse.js";
import { isOver, withNews } from "./rules.js";
import { jobView } from "./view.js";

/** @typedef {import("./rules.js").JobEvent} JobEvent */

const page = find("page");
const id = page.dataset.job ?? "";
/** @type {any} the row as the stream has shown it last, newer than any reading before */
let latest = null;
/** @type {JobEvent[]} */
let events = [];
let followed = false;

async function read() {
  const job = await getJson(`/api/jobs/${encodeURIComponent(id)}`);
  events = withNews(events, job.events);
  // A reading that was asked for before the end may come after it.
  if (!latest || !isOver(latest.state)) latest = job;
  if (!followed && !isOver(job.state)) start(events.at(-1)?.id ?? 0);
  return job;
}

/** @param {number} after */
function start(after) {
  followed = true;
  follow(`/api/jobs/${encodeURIComponent(id)}/events?after=${after}`, {
    event(event) {
      events = withNews(events, [event]);
      view.redraw();
    },
    job(job) {
      latest = job;
      view.redraw();
    },
    // The last reading has the children as they ended.
    end: () => view.now(),
  });
}

/** @param {any} reading */
function draw(reading) {
  const job = { ...reading, ...latest };
  document.title = `${job.kind} ${job.subject} - localai`;
  return jobView(job, events);
}

/** @param {any} error */
function drawError(error) {
  if (error.status !== 404) return null;
  return h(
    "div",
    { class: "empty", key: "unknown" },
    h("h2", null, "Not found"),
    h("p", { class: "faint" }, `There is no job ${id}.`),
    h("p", null, h("a", { href: "/app/jobs" }, "Show all jobs")),
  );
}

const view = live(page, {
  what: "the job",
  read,
  draw,
  drawError,
  every: (job) => (job && isOver(job.state) ? 0 : 5000),
});
