// How figures are said to people. What is not known is "unknown" and never 0.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** @param {number | null | undefined} count */
export function bytes(count) {
  if (count === null || count === undefined) return "unknown";
  let unit = 0;
  while (count >= 1024 && unit < UNITS.length - 1) {
    count /= 1024;
    unit += 1;
  }
  return `${count >= 100 || unit === 0 ? Math.round(count) : count.toFixed(1).replace(/\.0$/, "")} ${UNITS[unit]}`;
}

/** A length of time. @param {number} ms */
export function duration(ms) {
  if (ms < 0) return "0 ms";
  if (ms < 1000) return `${Math.round(ms)} ms`;
  if (ms < 10_000) return `${(ms / 1000).toFixed(1)} s`;
  if (ms < 90_000) return `${Math.round(ms / 1000)} s`;
  const minutes = Math.round(ms / 60_000);
  if (minutes < 90) return `${minutes} min`;
  return minutes < 2880 ? `${Math.floor(minutes / 60)} h ${minutes % 60} min` : `${Math.round(minutes / 1440)} days`;
}

/** A length of time that grows while one looks at it: whole seconds. @param {number} ms */
export function elapsed(ms) {
  return ms < 90_000 ? `${Math.max(0, Math.floor(ms / 1000))} s` : duration(ms);
}

/** How long ago a moment is. @param {string | null} moment RFC 3339 @param {number} now milliseconds */
export function ago(moment, now) {
  if (!moment) return "never";
  const ms = now - Date.parse(moment);
  return ms < 1000 ? "now" : `${elapsed(ms)} ago`;
}

/** The exact moment, as this machine writes it. @param {string | null} moment */
export function exact(moment) {
  return moment ? new Date(moment).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" }) : "";
}

/** "3 models", "1 model". @param {number} count @param {string} word */
export function many(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}
