// How is a state shown: by its word, which is the same everywhere, and a tone that the dot before it repeats.

import { h } from "../lib/dom.js";

/** @type {Record<string, string>} state of a job or model -> tone */
const TONES = {
  queued: "wait",
  running: "busy",
  succeeded: "good",
  cancelled: "off",
  failed: "bad",
  quarantined: "bad",
  loaded: "good",
  unloaded: "off",
  disabled: "off",
  pending: "busy",
  installing: "busy",
  staging: "busy",
  loading: "busy",
};

/** @type {Record<string, string>} status of a node -> tone */
const NODE_TONES = {
  healthy: "good",
  pending: "wait",
  unhealthy: "bad",
  offline: "off",
  draining: "wait",
  drained: "off",
};

/** @param {string} state */
export const status = (state) => said(TONES[state], state);

/** @param {string} state */
export const nodeStatus = (state) => said(NODE_TONES[state], state);

/**
 * @param {string | undefined} tone
 * @param {string} text
 */
function said(tone, text) {
  return h("span", { class: `status ${tone ?? "off"}` }, text);
}
