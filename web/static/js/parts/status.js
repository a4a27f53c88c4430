// How is a state said: one word or two, and a tone that the dot before it repeats.

import { h } from "../lib/dom.js";

/** @type {Record<string, [string, string]>} state of a job or model, status of a node: [tone, words] */
const WORDS = {
  queued: ["wait", "queued"],
  running: ["busy", "running"],
  succeeded: ["good", "succeeded"],
  cancelled: ["off", "cancelled"],
  failed: ["bad", "failed"],
  quarantined: ["bad", "quarantined"],
  loaded: ["good", "loaded"],
  unloaded: ["off", "not loaded"],
  disabled: ["off", "switched off"],
  pending: ["busy", "load pending"],
  installing: ["busy", "installing"],
  staging: ["busy", "staging"],
  loading: ["busy", "loading"],
};

/** @type {Record<string, [string, string]>} */
const NODE_WORDS = {
  healthy: ["good", "healthy"],
  pending: ["wait", "waiting for approval"],
  unhealthy: ["bad", "not answering"],
  offline: ["off", "offline"],
  draining: ["wait", "draining"],
  drained: ["off", "drained"],
};

/** @param {string} state */
export const status = (state) => said(WORDS[state] ?? ["off", state]);

/** @param {string} state */
export const nodeStatus = (state) => said(NODE_WORDS[state] ?? ["off", state]);

/** @param {[string, string]} words */
function said([tone, text]) {
  return h("span", { class: `status ${tone}` }, text);
}
