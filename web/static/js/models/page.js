// Models: which configs there are, how loaded each is, why a load goes on or was held; loading, cancelling, unloading.

import { getJson, postJson, sentence } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { many } from "../lib/format.js";
import { find } from "../lib/frame.js";
import { live } from "../lib/live.js";
import { button, doings } from "../parts/doing.js";
import { bar, figures } from "../parts/progress.js";
import { kept, retryLoad, whyNot } from "../parts/retry.js";
import { UNLOAD_WAITS } from "../parts/unload.js";
import { status } from "../parts/status.js";
import { table } from "../parts/table.js";

/**
 * @typedef {{name: string, backend: string, description: string, disabled: boolean, state: string,
 *   known_usecases?: string[], replicas: {node: string, replica_index: number}[],
 *   loading: import("../parts/progress.js").LoadStatus | null,
 *   quarantined: import("../parts/retry.js").Quarantine[]}} Model
 * @typedef {{models: Model[], problems: {file: string, error: string}[]}} Reading
 */

const { run, answer } = doings(() => [models.redraw(), models.now()]);
const BUSY = new Set(["pending", "installing", "staging", "loading"]);

/** @param {Reading} reading */
function draw({ models: rows, problems }) {
  if (!rows.length) return [unusable(problems), empty()];
  const loaded = rows.filter((model) => model.state === "loaded").length;
  return [
    unusable(problems),
    h("p", { class: "faint", key: "count" }, `${many(rows.length, "model")}, ${loaded} loaded`),
    table("Models", COLUMNS, rows, (model) => model.name),
  ];
}

const COLUMNS = [
  {
    label: "Model",
    class: "name",
    width: "27%",
    cell: (/** @type {Model} */ model) => [
      model.name,
      model.description && h("span", { class: "faint" }, model.description),
    ],
  },
  { label: "State", cell: state },
  {
    label: "Node",
    width: "13%",
    cell: (/** @type {Model} */ model) =>
      model.replicas.map((replica) => h("div", { key: String(replica.replica_index) }, replica.node)),
  },
  { label: "Backend", class: "tight", width: "108px", cell: (/** @type {Model} */ model) => model.backend },
  { label: "", class: "actions slots", width: "228px", cell: actions },
];

/** @param {Model} model */
function state(model) {
  const { loading } = model;
  if (model.disabled) return status("disabled");
  const off = model.quarantined.map((one) => {
    const where = model.state === "failed" ? `On ${one.node}` : `Quarantined on ${one.node}:`;
    return h("div", { class: "cause", key: one.node_id, title: one.last_error }, `${where} ${kept(one)}.`);
  });
  if (loading && model.state === "failed") {
    const word = off.length ? "quarantined" : loading.cancel_requested ? "cancelled" : "failed";
    const cause = h("div", { class: "cause", key: "held", title: loading.last_error }, held(loading));
    return [status(word), off, cause, answer(model.name)];
  }
  if (!loading || !BUSY.has(model.state)) return [status(model.state), off, answer(model.name)];
  const where = loading.node ? `on ${loading.node}` : "no node yet";
  const meter = h("div", { class: "meter" }, bar(loading), h("span", null, figures(loading) || where));
  return [status(model.state), meter, answer(model.name)];
}

/** @param {import("../parts/progress.js").LoadStatus} loading */
function held(loading) {
  const wait = loading.retry_after === undefined ? "" : `Another load may begin in ${loading.retry_after} s. `;
  const stop = loading.stopping ? "Its worker has not confirmed the stop yet. " : "";
  return wait + stop + sentence(loading.last_error ?? loading.error_cause ?? "");
}

/** @param {Model} model */
function actions(model) {
  const chats = !model.disabled && (!model.known_usecases?.length || model.known_usecases.includes("chat"));
  const at = `/app/chat?model=${encodeURIComponent(model.name)}`;
  const hidden = (/** @type {string} */ text) => h("span", { class: "unseen" }, ` ${text}`);
  const act = [
    model.state === "unloaded" && !model.disabled && button("Load", model.name, () => load(model.name)),
    model.state === "failed" &&
      model.quarantined.length > 0 &&
      button("Try again", model.name, () => again(model.name)),
    model.loading && BUSY.has(model.state) && button("Cancel", `the load of ${model.name}`, () => cancel(model)),
    model.state === "loaded" && button("Unload", model.name, () => unload(model)),
  ].filter(Boolean);
  const job =
    model.loading &&
    h("a", { key: "job", href: `/app/jobs/${model.loading.job_id}` }, "Job", hidden(`of ${model.name}`));
  const chat = chats && h("a", { key: "chat", href: at }, "Chat", hidden(`with ${model.name}`));
  if (!act.length && !job && !chat) return null;
  // An empty place keeps what is alike in all rows below each other.
  return [act, job, chat].map((part, at) => h("span", { key: `slot ${at}` }, part));
}

/** @param {string} name */
const load = (name) =>
  run(name, "Not loaded", async () => {
    await postJson("/backend/load", { model: name });
    return `The load of ${name} has begun.`;
  });

/** Lift the quarantines too. @param {string} name */
const again = (name) =>
  run(name, "Not tried again", async () => (await retryLoad(name).catch(whyNot)).message);

/** @param {Model} model */
function cancel({ name, loading }) {
  const where = loading?.node ? ` on ${loading.node}` : "";
  const act = async () => {
    const path = `/api/models/${encodeURIComponent(name)}/load-cancel`;
    const { state, retry_after: wait } = await postJson(path, { job_id: loading?.job_id }).catch(another);
    if (state === "gone") return `The load of ${name} had ended already.`;
    return state === "stopped" ? `The load of ${name} is stopped.` : `The load of ${name} is stopped within ${wait} s.`;
  };
  run(name, "Not cancelled", act, {
    title: `Cancel the load of ${name}?`,
    text: [
      `What was started for it${where} is stopped, and everybody who waits for the model is told.`,
      "A question asked later loads it anew.",
    ],
    yes: "Cancel the load",
  });
}

/** @param {any} error */
function another(error) {
  throw error.status === 409 ? new Error("another load of it has begun meanwhile.") : error;
}

/** @param {Model} model */
function unload({ name, replicas }) {
  const nodes = [...new Set(replicas.map((replica) => replica.node))].join(", ");
  const act = async (/** @type {boolean} */ force) =>
    (await postJson("/backend/shutdown", force ? { model: name, force } : { model: name })).message;
  run(name, "Not unloaded", act, {
    title: `Unload ${name}?`,
    text: [
      `Unloads it from ${nodes} and frees its memory. The next request loads it again.`,
      UNLOAD_WAITS,
    ],
    yes: "Unload",
    now: "Unload now",
  });
}

/** @param {Reading["problems"]} problems */
function unusable(problems) {
  if (!problems.length) return null;
  const lines = problems.map((problem) =>
    h("li", { key: problem.file }, h("code", null, problem.file), `: ${problem.error}`),
  );
  return h(
    "div",
    { class: "note wait", key: "problems" },
    h("div", null, "Problems in the models folder:", h("ul", null, lines)),
  );
}

function empty() {
  return h(
    "div",
    { class: "empty", key: "empty" },
    h("h2", null, "No models yet"),
    h("p", { class: "faint" }, "A model is a YAML file in the models folder. It is seen here within half a minute."),
  );
}

const models = live(find("page"), {
  what: "the models",
  read: () => getJson("/api/models"),
  draw,
  every: (reading) => (reading?.models.some((/** @type {Model} */ model) => model.loading) ? 1500 : 5000),
});
