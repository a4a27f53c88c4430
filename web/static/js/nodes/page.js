// Nodes: which machines there are, what they have left, and letting a new one in.

import { getJson, postJson, serverNow } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { ago, bytes, exact, many } from "../lib/format.js";
import { find, say } from "../lib/frame.js";
import { live } from "../lib/live.js";
import { nodeStatus } from "../parts/status.js";
import { table } from "../parts/table.js";

/**
 * @typedef {{id: string, name: string, status: string, version: string, gpu_vendor: string, total_vram: number,
 *   available_vram: number, total_ram: number, available_ram: number, total_disk: number, available_disk: number,
 *   cpu_logical_cores: number, cpu_usage_percent: number, model_count: number, last_heartbeat: string | null}} Node_
 */

const page = find("page");
/** @type {Map<string, string>} what became of approving a node, by its id */
const answers = new Map();

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
    cell: (/** @type {Node_} */ node) => [
      node.name,
      node.version && h("span", { class: "faint" }, `version ${node.version}`),
    ],
  },
  {
    label: "Status",
    cell: (/** @type {Node_} */ node) => [
      nodeStatus(node.status),
      answers.has(node.id) && h("span", { class: "cause" }, answers.get(node.id)),
    ],
  },
  { label: "Memory", class: "tight", cell: memory },
  {
    label: "Disk",
    class: "tight",
    cell: (/** @type {Node_} */ node) => free(node.available_disk, node.total_disk, ""),
  },
  { label: "CPU", class: "tight", cell: cpu },
  { label: "Replicas", class: "right", cell: (/** @type {Node_} */ node) => node.model_count },
  {
    label: "Heartbeat",
    class: "tight",
    cell: (/** @type {Node_} */ node) =>
      h("span", { title: exact(node.last_heartbeat) }, ago(node.last_heartbeat, serverNow())),
  },
  { label: "", class: "actions", cell: actions },
];

/** @param {Node_} node */
function memory(node) {
  return node.total_vram > 0
    ? free(node.available_vram, node.total_vram, node.gpu_vendor || "GPU")
    : free(node.available_ram, node.total_ram, "RAM");
}

/** @param {number} left @param {number} total @param {string} of */
function free(left, total, of) {
  if (total <= 0) return "unknown";
  return [`${bytes(left)} free`, h("span", { class: "faint" }, `of ${bytes(total)} ${of}`)];
}

/** @param {Node_} node */
function cpu(node) {
  if (node.cpu_logical_cores <= 0) return "unknown";
  return [
    `${Math.round(node.cpu_usage_percent)} %`,
    h("span", { class: "faint" }, `of ${many(node.cpu_logical_cores, "core")}`),
  ];
}

/** @param {Node_} node */
function actions(node) {
  if (node.status !== "pending") return null;
  return h(
    "button",
    { class: "main", type: "button", onclick: () => approve(node) },
    "Approve",
    h("span", { class: "unseen" }, ` ${node.name}`),
  );
}

/** @param {Node_} node */
async function approve(node) {
  try {
    await postJson(`/api/nodes/${node.id}/approve`);
    answers.delete(node.id);
    say(`${node.name} is approved.`);
  } catch (error) {
    const text = `Not approved: ${/** @type {Error} */ (error).message}`;
    answers.set(node.id, text);
    say(text);
  }
  nodes.redraw();
  nodes.now();
}

const joinCommand =
  `localai worker --register-to ${page.dataset.server} \\\n` +
  "  --broker-url redis://… --nats-url nats://… --registration-token …";

function empty() {
  return h(
    "div",
    { class: "empty", key: "empty" },
    h("h2", null, "No nodes yet"),
    h(
      "p",
      { class: "faint" },
      "Start a worker on a machine that reaches this server, the queue (Valkey or Redis) and the bus (NATS):",
    ),
    h("pre", { tabindex: 0 }, h("code", null, joinCommand)),
    h("p", { class: "faint" }, "It appears here within seconds and waits for your approval."),
  );
}

const nodes = live(page, { what: "the nodes", read: () => getJson("/api/nodes"), draw, every: () => 5000 });
