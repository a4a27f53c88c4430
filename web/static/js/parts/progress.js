// How is the progress of a load shown: a bar, the bytes, the share and the time that is left, as far as they are known.

import { h } from "../lib/dom.js";
import { bytes, duration } from "../lib/format.js";

/**
 * @typedef {{model: string, state: string, node?: string, progress?: number, bytes_sent?: number, total_bytes?: number,
 *   file_index?: number, total_files?: number, eta_seconds?: number, eta_low?: number, eta_high?: number,
 *   job_id: string, last_error?: string, error_cause?: string, retry_after?: number, cancel_requested?: boolean,
 *   stopping?: boolean}} LoadStatus as in the HTTP API
 */

/** Whether bytes move now: once the backend reads the files, all of them have come. @param {LoadStatus} loading */
const moves = ({ state, total_bytes = 0 }) => total_bytes > 0 && state !== "loading";

/** The bar of a load; without bytes to count it only says that something goes on. @param {LoadStatus} loading */
export function bar(loading) {
  const known = moves(loading);
  const label = { "aria-label": `Load of ${loading.model}` };
  return h(
    "progress",
    known ? { ...label, key: "known", max: 100, value: loading.progress ?? 0 } : { ...label, key: "unknown" },
  );
}

/** "56 MiB of 98 MiB, 57 %, about 12 s left (8 s to 20 s)", as far as it is known. @param {LoadStatus} loading */
export function figures(loading) {
  const { bytes_sent = 0, total_bytes = 0, file_index = 0, total_files = 0 } = loading;
  const counted = moves(loading);
  return [
    counted && `${bytes(bytes_sent)} of ${bytes(total_bytes)}`,
    counted && total_files > 1 && `file ${file_index} of ${total_files}`,
    counted && `${Math.floor(loading.progress ?? 0)} %`,
    left(loading),
  ]
    .filter(Boolean)
    .join(", ");
}

/** The time that is left; four of five loads end between its bounds. @param {LoadStatus} loading */
function left({ eta_seconds, eta_low, eta_high }) {
  if (eta_seconds === undefined) return "";
  const about = `about ${duration(eta_seconds * 1000)} left`;
  if (eta_low === undefined || eta_high === undefined) return about;
  return `${about} (${duration(eta_low * 1000)} to ${duration(eta_high * 1000)})`;
}
