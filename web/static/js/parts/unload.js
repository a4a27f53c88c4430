// What happens to running answers when replicas are taken out of use: the same words on every page.

export const UNLOAD_WAITS =
  "Running answers may finish, for 5 minutes unless LOCALAI_UNLOAD_TIMEOUT says otherwise; then they get an error. " +
  "Unload now does not wait for them.";

export const DRAIN_WAITS =
  "Running answers may finish, for 5 minutes unless LOCALAI_UNLOAD_TIMEOUT says otherwise; then they get an error. " +
  "Drain now does not wait for them.";

/** Whether a job of this kind waits for running answers. @param {string} kind */
export const waitsForAnswers = (kind) => kind === "model.unload" || kind === "node.drain";
