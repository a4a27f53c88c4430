// How is a load tried again that was given up: its quarantines are lifted, and the hold of the last attempt says when.

import { postJson } from "../lib/api.js";

/**
 * @typedef {{model: string, node_id: string, node: string, cause: string, failures: number, last_error: string}}
 *   Quarantine as in the HTTP API
 */

/** Why a model is kept off a node. @param {Quarantine} quarantine */
export const kept = ({ failures, cause }) => `its last ${failures} loads failed with ${cause}`;

/** Lift the quarantines of a model and begin an attempt. @param {string} model */
export const retryLoad = (model) => postJson(`/api/models/${encodeURIComponent(model)}/load-retry`);

/** Whole seconds that the failed load still holds the model; 0 for every other refusal. @param {any} error */
export const holdOf = (error) => (error.code === "model_load_failed" ? (error.retryAfter ?? 0) : 0);

/** The hold of a failed load says when, and not only why. @param {any} error */
export function whyNot(error) {
  const hold = holdOf(error);
  throw hold ? new Error(`the failed load holds the model for another ${hold} s.`) : error;
}
