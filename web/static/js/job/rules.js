// What became of a job, from its row and its events: which phases it went through and how long each took. No page here.

/**
 * @typedef {{id: number, at: string, event: string, state: string, phase: string | null, actor: string | null,
 *   detail: Record<string, any> | null}} JobEvent
 * @typedef {{name: string, from: number, until: number, live: boolean, failed: boolean}} Phase
 *   `from` and `until` in milliseconds
 */

const TERMINAL = new Set(["succeeded", "failed", "cancelled"]);

/** @param {string} state */
export const isOver = (state) => TERMINAL.has(state);

/** Whether a job of this kind has phases: others only run. @param {string} kind */
export const hasPhases = (kind) => kind === "model.load";

/** Events without a phase that says nothing. @param {string} kind @param {JobEvent[]} events */
export const inPhases = (kind, events) =>
  hasPhases(kind) ? events : events.map((event) => ({ ...event, phase: null }));

/**
 * The phases of a job in order, each from the event that began it to the one that began the next.
 * @param {JobEvent[]} events oldest first
 * @param {number} now where the last phase of a live job ends
 * @returns {Phase[]}
 */
export function phasesOf(events, now) {
  /** @type {Phase[]} */
  const phases = [];
  for (const event of events) {
    const at = Date.parse(event.at);
    const last = phases.at(-1);
    if (isOver(event.state)) {
      if (last?.live) Object.assign(last, { until: at, live: false, failed: event.state === "failed" });
      break;
    }
    const name = nameOf(event);
    if (last?.name === name) continue;
    if (last) Object.assign(last, { until: at, live: false });
    phases.push({ name, from: at, until: Math.max(now, at), live: true, failed: false });
  }
  return phases;
}

/** @param {JobEvent} event */
function nameOf(event) {
  if (event.state === "queued") return "queued";
  return event.phase ?? "running";
}

/** Where a phase lies within all of them, in percent. @param {Phase} phase @param {Phase[]} phases */
export function placeOf(phase, phases) {
  const begin = phases[0].from;
  const whole = Math.max(phases[phases.length - 1].until - begin, 1);
  return { from: (100 * (phase.from - begin)) / whole, share: (100 * (phase.until - phase.from)) / whole };
}

/** Who made a move, short enough to read. @param {string | null} actor */
export function shortActor(actor) {
  return (actor ?? "").replace(/([0-9a-f]{8})-[0-9a-f-]{27}/, "$1");
}

/** Facts that are shown elsewhere, or name a rule of the code that made the move. */
const UNSAID = new Set(["stderr_tail", "by"]);

/** The facts of an event that its other columns do not say. @param {Record<string, any> | null} detail */
export function factsOf(detail) {
  return Object.entries(detail ?? {})
    .filter(([name, value]) => !UNSAID.has(name) && value !== null && value !== 0)
    .map(([name, value]) => `${name.replaceAll("_", " ")} ${typeof value === "object" ? JSON.stringify(value) : value}`)
    .join(", ");
}

/** Known events and new ones, in order and each once. @param {JobEvent[]} known @param {JobEvent[]} news */
export function withNews(known, news) {
  const byId = new Map([...known, ...news].map((event) => [event.id, event]));
  return [...byId.values()].sort((a, b) => a.id - b.id);
}
