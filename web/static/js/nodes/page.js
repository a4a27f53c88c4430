// Nodes: which machines there are and what they have left; letting one in, taking it out of use, removing it.

import { deleteJson, getJson, postJson, serverNow } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { ago, exact, many } from "../lib/format.js";
import { find } from "../lib/frame.js";
import { live } from "../lib/live.js";
import { button, doings } from "../parts/doing.js";
import { kept } from "../parts/retry.js";
import { nodeStatus } from "../parts/status.js";
import { table } from "../parts/table.js";
import { DRAIN_WAITS } from "../parts/unload.js";
import { cpu, disk, memory } from "./figures.js";

/**
 * @typedef {{job_id: string, message: string | null, removing: boolean}} Drain
 * @typedef {{id: string, name: string, status: string, version: string, gpu_vendor: string, total_vram: number,
 *   available_vram: number, total_ram: number, available_ram: number, total_disk: number, available_disk: number,
 *   cpu_logical_cores: number, cpu_usage_percent: number, model_count: number, in_flight_count: number,
 *   last_heartbeat: string | null, silent_since?: string, draining: boolean, drain?: Drain, pending_reason?: string,
 *   refused_registration?: {at: string, address: string, http_address: string, reason: string},
 *   quarantined: import("../parts/retry.js").Quarantine[]}} Node_
 */

const page = find("page");
const fold = /** @type {HTMLDetailsElement} */ (find("add"));
/** The fold is opened once for somebody who has no nodes, and may be closed again. */
let shown = false;
const { run, answer } = doings(() => [nodes.redraw(), nodes.now()]);

/** @param {Node_[]} nodes */
function draw(nodes) {
  if (!nodes.length) return empty();
  const waiting = nodes.filter((node) => node.status === "pending").length;
  return [
    waiting > 0 &&
      h(
        "p",
        { class: "note wait", key: "waiting" },
        `Waiting for approval: ${many(waiting, "node")}. No work goes there until then.`,
      ),
    h("p", { class: "faint", key: "count" }, many(nodes.length, "node")),
    table("Nodes", COLUMNS, nodes, (node) => node.id),
  ];
}

const COLUMNS = [
  {
    label: "Node",
    class: "name",
    width: "130px",
    cell: (/** @type {Node_} */ node) => [
      node.name,
      node.version && h("span", { class: "faint" }, `version ${node.version}`),
    ],
  },
  {
    label: "Status",
    cell: (/** @type {Node_} */ node) => [
      nodeStatus(drained(node) ? "drained" : node.status),
      node.draining && node.status !== "draining" && h("span", { class: "faint", key: "wish" }, "to be drained"),
      leaving(node),
      node.pending_reason && h("div", { class: "cause", key: "pending" }, `Approval lost: ${node.pending_reason}.`),
      refused(node),
      node.silent_since &&
        h("div", { class: "cause", key: "silent" }, "Takes no orders: check LOCALAI_BROKER_URL of its worker."),
      node.quarantined.map((one) =>
        h("div", { class: "cause", key: one.model, title: one.last_error }, `Quarantined: ${one.model}, ${kept(one)}.`),
      ),
      answer(node.id),
    ],
  },
  { label: "Memory", class: "tight", width: "126px", cell: memory },
  {
    label: "Disk",
    class: "tight",
    width: "126px",
    cell: disk,
  },
  { label: "CPU", class: "tight", width: "100px", cell: cpu },
  { label: "Replicas", class: "right", width: "84px", cell: (/** @type {Node_} */ node) => node.model_count },
  {
    label: "Heartbeat",
    class: "tight",
    width: "104px",
    cell: (/** @type {Node_} */ node) =>
      h("span", { title: exact(node.last_heartbeat) }, ago(node.last_heartbeat, serverNow())),
  },
  { label: "", class: "actions pile", width: "118px", cell: actions },
];

/** Its drain has ended: no replica and no load is left there. @param {Node_} node */
const drained = ({ status, drain, model_count: count }) => status === "draining" && !drain && count === 0;

/** What keeps a node from being empty. @param {Node_} node */
function leaving({ drain }) {
  if (!drain) return null;
  const what = drain.message ?? (drain.removing ? "being removed" : "being drained");
  const link = h("a", { href: `/app/jobs/${drain.job_id}` }, drain.removing ? "Removal" : "Drain");
  return h("div", { class: "cause", key: "leaving" }, link, `: ${what}`);
}

/** A worker that wants this node's name and is refused. @param {Node_} node */
function refused({ refused_registration: last }) {
  if (!last) return null;
  const when = h("span", { title: exact(last.at) }, ago(last.at, serverNow()));
  return h("div", { class: "cause", key: "refused" }, "Registration refused ", when, `: ${last.reason}.`);
}

/** @param {Node_} node */
function actions(node) {
  const { name, status, draining, drain } = node;
  return [
    status === "pending" && button("Approve", name, () => approve(node), "main"),
    draining && button("Resume", name, () => resume(node)),
    !draining && status === "healthy" && button("Drain", name, () => drainNode(node)),
    !drain?.removing && button("Remove", name, () => remove(node)),
  ].filter(Boolean);
}

/** @param {Node_} node */
const approve = ({ id, name }) =>
  run(id, "Not approved", async () => {
    await postJson(`/api/nodes/${id}/approve`);
    return `${name} is approved.`;
  });

/** @param {Node_} node */
const resume = ({ id, name }) =>
  run(id, "Not resumed", async () => {
    await postJson(`/api/nodes/${id}/resume`);
    return `${name} may get work again.`;
  });

/** @param {Node_} node */
function drainNode(node) {
  const act = async (/** @type {boolean} */ force) => {
    await postJson(`/api/nodes/${node.id}/drain`, force ? { force } : undefined);
    return `${node.name} is draining.`;
  };
  run(node.id, "Not drained", act, {
    title: `Drain ${node.name}?`,
    text: [
      ...what(node),
      "No new work until you resume it, even after a restart.",
      ...(node.model_count ? [DRAIN_WAITS] : []),
    ],
    yes: "Drain",
    now: node.model_count ? "Drain now" : undefined,
  });
}

/** @param {Node_} node */
function remove(node) {
  const act = async () => {
    const { message } = await deleteJson(`/api/nodes/${node.id}`);
    return message === "node deregistered" ? `${node.name} is removed.` : `${node.name} is being removed.`;
  };
  run(node.id, "Not removed", act, {
    title: `Remove ${node.name}?`,
    text: [
      ...what(node),
      "Then the server forgets it. Its worker ends; started again, it joins as a new node and waits for approval.",
    ],
    yes: "Remove",
    typed: node.name,
  });
}

/** What a drain does there. @param {Node_} node */
function what({ model_count: count, in_flight_count: requests }) {
  if (!count) return ["No model is loaded there. Loads under way there are cancelled."];
  const first = requests ? `, once ${many(requests, "request")} under way ended` : "";
  return [`${many(count, "replica")} there ${count === 1 ? "is" : "are"} unloaded${first}. Loads there are cancelled.`];
}

function empty() {
  if (!shown) fold.open = shown = true;
  return h(
    "div",
    { class: "empty", key: "empty" },
    h("h2", null, "No nodes yet"),
    h("p", { class: "faint" }, "A node is a machine that runs models. Below stands how one joins."),
  );
}

const nodes = live(page, { what: "the nodes", read: () => getJson("/api/nodes"), draw, every: () => 5000 });
