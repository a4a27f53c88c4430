// How a conversation looks: questions, answers, a load under way, and what went wrong.

import { h } from "../lib/dom.js";
import { duration, elapsed } from "../lib/format.js";
import { markdown } from "../lib/markdown.js";
import { bar, figures } from "../parts/progress.js";

/**
 * One question or answer. An answer has a state: `waiting`, `loading`, `streaming`, `done`, `stopped`, `failed`.
 * @typedef {object} Turn
 * @property {string} role
 * @property {string} content
 * @property {string} [model]
 * @property {string} [state]
 * @property {number} [since] milliseconds: when it was asked, then when the first words came
 * @property {number} [took] milliseconds
 * @property {number} [tokens]
 * @property {string} [finish]
 * @property {import("../parts/progress.js").LoadStatus} [loading]
 * @property {string} [error]
 * @property {number} [heldUntil] milliseconds: before that no new load may begin
 * @property {string} [quarantined] the model that takes no attempt until somebody asks for one
 * @property {boolean} [retrying] it was asked to try again when the hold ends
 * @property {string} [jobId]
 */

const PHASES = ["pending", "installing", "staging", "loading"];
/** @type {Record<string, string>} */
const DOING = {
  pending: "is waiting for a node",
  installing: "gets its backend installed",
  staging: "gets its files",
  loading: "is loading",
};

/** @param {Turn[]} turns @param {() => void} onRetry */
export function conversation(turns, onRetry) {
  if (!turns.length)
    return h(
      "div",
      { class: "welcome", key: "welcome" },
      h("h2", null, "Ask a model"),
      h(
        "p",
        { class: "faint" },
        "A model that is not loaded yet is loaded by the first question. What is said stays in this browser tab.",
      ),
    );
  return turns.map((turn, at) =>
    h(
      "div",
      { class: `message ${turn.role}`, key: String(at) },
      h("p", { class: "who" }, turn.role === "user" ? "You" : turn.model),
      turn.role === "user"
        ? h("div", { class: "text" }, turn.content)
        : answer(turn, at === turns.length - 1 ? onRetry : null),
    ),
  );
}

/** @param {Turn} turn @param {(() => void) | null} onRetry */
function answer(turn, onRetry) {
  return [
    turn.content && h("div", { class: "text", key: "text" }, markdown(turn.content)),
    turn.state === "waiting" && h("p", { class: "faint", key: "waiting" }, "Waiting for the answer…"),
    turn.state === "loading" && turn.loading && loadCard(turn, turn.loading),
    turn.state === "failed" && failCard(turn, onRetry),
    footOf(turn) && h("p", { class: "foot", key: "foot" }, footOf(turn)),
  ];
}

/** @param {Turn} turn @param {import("../parts/progress.js").LoadStatus} loading */
function loadCard(turn, loading) {
  const doing =
    loading.state === "pending" && loading.total_bytes
      ? "is fetched to the server"
      : (DOING[loading.state] ?? loading.state);
  return h(
    "div",
    { class: "card", key: "load" },
    h(
      "p",
      { class: "row" },
      h("span", null, h("strong", null, loading.model), ` ${doing}`, loading.node && [" on ", loading.node]),
      h("span", { class: "faint" }, elapsed(Date.now() - (turn.since ?? Date.now()))),
    ),
    bar(loading),
    figures(loading) && h("p", { class: "hint" }, figures(loading)),
    h(
      "ol",
      { class: "steps", "aria-label": "Phases of a load" },
      PHASES.map((phase) => h("li", { key: phase, "aria-current": phase === loading.state ? "step" : null }, phase)),
      h("li", { class: "end", key: "job" }, h("a", { href: `/app/jobs/${loading.job_id}` }, "The job")),
    ),
  );
}

/** @param {Turn} turn @param {(() => void) | null} onRetry */
function failCard(turn, onRetry) {
  const left = Math.ceil(((turn.heldUntil ?? 0) - Date.now()) / 1000);
  const [first, ...more] = (turn.error ?? "").split("\n");
  return h(
    "div",
    { class: "card failed", key: "failed" },
    h("p", null, first),
    more.length > 0 && h("pre", { class: "wrap", tabindex: 0 }, h("code", null, more.join("\n"))),
    left > 0 &&
      h(
        "p",
        { class: "hint", "aria-live": "off" },
        turn.retrying ? `Tries again in ${left} s.` : `Another load may begin in ${left} s.`,
      ),
    h(
      "p",
      { class: "row" },
      onRetry && h("button", { type: "button", onclick: onRetry, disabled: turn.retrying }, "Try again"),
      turn.jobId && h("a", { href: `/app/jobs/${turn.jobId}` }, "The job"),
    ),
  );
}

/** @param {Turn} turn */
function footOf(turn) {
  if (turn.state === "stopped")
    return turn.content ? "Stopped." : turn.loading ? "Stopped waiting. The load goes on." : "Stopped.";
  if (turn.state !== "done") return "";
  const parts = [
    turn.tokens && `${turn.tokens} tokens`,
    turn.took !== undefined && `in ${duration(turn.took)}`,
    turn.finish === "length" && "(cut at the limit of tokens)",
  ];
  return parts.filter(Boolean).join(" ");
}
