// How is the progress of a load shown: a bar, the bytes, the share and the time that is left, as far as they are known.

import { h } from "../lib/dom.js";
import { bytes, duration } from "../lib/format.js";

/**
 * @typedef {{model: string, state: string, node?: string, progress?: number, bytes_sent?: number, total_bytes?: number,
 *   file_index?: number, total_files?: number, eta_seconds?: number, job_id: string, last_error?: string,
 *   error_cause?: string, retry_after?: number}} LoadStatus as in the HTTP API
 */

/** The bar of a load; without bytes to count it only says that something goes on. @param {LoadStatus} loading */
export function bar(loading) {
  const known = (loading.total_bytes ?? 0) > 0;
  const label = { "aria-label": `Load of ${loading.model}` };
  return h(
    "progress",
    known ? { ...label, key: "known", max: 100, value: loading.progress ?? 0 } : { ...label, key: "unknown" },
  );
}

/** "56 MiB of 98 MiB, 57 %, about 12 s left". @param {LoadStatus} loading */
export function figures(loading) {
  const { bytes_sent = 0, total_bytes = 0, file_index = 0, total_files = 0 } = loading;
  if (total_bytes <= 0) return "";
  return [
    `${bytes(bytes_sent)} of ${bytes(total_bytes)}`,
    total_files > 1 && `file ${file_index} of ${total_files}`,
    `${Math.floor(loading.progress ?? 0)} %`,
    loading.eta_seconds !== undefined && `about ${duration(loading.eta_seconds * 1000)} left`,
  ]
    .filter(Boolean)
    .join(", ");
}
