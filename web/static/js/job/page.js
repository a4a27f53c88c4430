// One job, followed while it runs and cancelled: the row and its children are read, its moves come as they happen.

import { getJson, postJson } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { find } from "../lib/frame.js";
import { live } from "../lib/live.js";
import { follow } from "../lib/sse.js";
import { button, doings } from "../parts/doing.js";
import { whyNot } from "../parts/retry.js";
import { waitsForAnswers } from "../parts/unload.js";
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
const { run, answer } = doings(() => [view.redraw(), view.now()]);

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
  document.title = `${job.kind} ${job.about} - localai`;
  const again = job.kind === "model.load" && ["failed", "cancelled"].includes(job.state);
  return jobView(job, events, [
    waitsForAnswers(job.kind) && !isOver(job.state) && button("Stop now", job.about, () => force(job)),
    job.cancellable && button("Cancel", job.about, () => cancel(job)),
    again && button("Try again", job.about, () => retry(job)),
    answer(id),
  ]);
}

/** Do not wait for running answers. @param {any} job */
function force(job) {
  const act = async () => {
    await postJson(`/api/jobs/${encodeURIComponent(id)}/force`);
    return "Running answers are stopped.";
  };
  run(id, "Not stopped", act, {
    title: job.kind === "node.drain" ? `Drain ${job.about} now?` : `Unload ${job.about} now?`,
    text: ["Running answers are cut, and their clients get an error. The processes stop within seconds."],
    yes: "Stop now",
  });
}

/** The replicas stay out of use: that is one-way. @param {any} job */
function cancelUnload(job) {
  const act = async () => {
    await postJson(`/api/jobs/${encodeURIComponent(id)}/cancel`);
    return `The unload of ${job.about} is cancelled.`;
  };
  run(id, "Not cancelled", act, {
    title: `Cancel the unload of ${job.about}?`,
    text: [
      "Running answers are not cut. The replicas get no new requests and stop when these answers have ended.",
      "The next request loads the model again.",
    ],
    yes: "Cancel the unload",
  });
}

/** @param {any} job */
function cancel(job) {
  if (job.kind === "model.unload") return cancelUnload(job);
  const act = async () => {
    const { state, retry_after: wait } = await postJson(`/api/jobs/${encodeURIComponent(id)}/cancel`);
    return state === "stopped" ? `${job.about} is stopped.` : `${job.about} is stopped within ${wait} s.`;
  };
  const load = job.kind === "model.load";
  run(id, "Not cancelled", act, {
    title: `Cancel the ${load ? "load" : "fetch"} of ${job.about}?`,
    text: load
      ? ["What was started for it is stopped, and everybody who waits for the model is told."]
      : ["Files that have come whole are kept, the one under way begins anew. A load that waits for it fails."],
    yes: load ? "Cancel the load" : "Cancel the fetch",
  });
}

/** A new attempt, on its own page. @param {any} job */
function retry(job) {
  const act = async () => {
    const { job_id, loaded, message } = await postJson(`/api/jobs/${encodeURIComponent(id)}/retry`).catch(whyNot);
    if (!loaded) location.assign(`/app/jobs/${encodeURIComponent(job_id)}`);
    return message;
  };
  run(id, `${job.about} is not tried again`, act);
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
