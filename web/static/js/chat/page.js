// Chat: choose a model, ask, and read the answer as it comes; what is said stays in this tab.

import { ApiError, getJson } from "../lib/api.js";
import { render } from "../lib/dom.js";
import { find, keep, kept, say } from "../lib/frame.js";
import { holdOf, retryLoad } from "../parts/retry.js";
import { pause, talk } from "./talk.js";
import { conversation } from "./view.js";

/** @typedef {import("./view.js").Turn} Turn */

const log = find("log");
const models = /** @type {HTMLSelectElement} */ (find("model"));
const text = /** @type {HTMLTextAreaElement} */ (find("text"));
const composer = /** @type {HTMLFormElement} */ (find("composer"));
const [sendButton, stopButton, newButton] = ["send", "stop", "new-chat"].map(
  (id) => /** @type {HTMLButtonElement} */ (find(id)),
);

const UNFINISHED = new Set(["waiting", "loading", "streaming"]);

/** @type {Turn[]} */
let turns = restored();
/** @type {AbortController | null} */
let running = null;
let frame = 0;

/** Draw once a frame, however many tokens came. */
function draw() {
  frame ||= requestAnimationFrame(() => {
    frame = 0;
    const atEnd = window.innerHeight + window.scrollY >= document.documentElement.scrollHeight - 80;
    render(log, conversation(turns, retry));
    log.setAttribute("aria-busy", String(running !== null));
    stopButton.hidden = running === null;
    sendButton.disabled = running !== null || !models.value;
    newButton.disabled = running !== null || turns.length === 0;
    if (atEnd && turns.length) window.scrollTo(0, document.documentElement.scrollHeight);
  });
}

/** Answer the last question. @param {Turn} turn the answer to fill */
async function answer(turn) {
  const stop = new AbortController();
  running = stop;
  try {
    if (turn.quarantined && turn.retrying) await lift(turn);
    if (turn.heldUntil) await pause(Math.max(0, turn.heldUntil - Date.now()), stop.signal);
    Object.assign(turn, {
      state: "waiting",
      content: "",
      error: "",
      heldUntil: 0,
      quarantined: "",
      retrying: false,
      loading: undefined,
      since: Date.now(),
    });
    draw();
    const asked = turns.slice(0, turns.indexOf(turn)).filter((said) => said.content);
    const end = await talk({
      model: turn.model ?? "",
      messages: asked.map(({ role, content }) => ({ role, content })),
      signal: stop.signal,
      onLoading: (loading) => load(turn, loading),
      onText(piece) {
        if (turn.state !== "streaming")
          Object.assign(turn, { state: "streaming", loading: undefined, since: Date.now() });
        turn.content += piece;
        draw();
      },
    });
    Object.assign(turn, { ...end, state: "done", took: Date.now() - (turn.since ?? 0) });
    say("The answer is complete.");
  } catch (error) {
    fail(turn, error);
  } finally {
    running = null;
    remember();
    draw();
  }
}

/** Asking alone would be refused again: nothing is tried while a model is in quarantine. @param {Turn} turn */
async function lift(turn) {
  if (turn.model !== turn.quarantined) return;
  try {
    await retryLoad(turn.model ?? "");
  } catch (/** @type {any} */ error) {
    const hold = holdOf(error);
    // 409: somebody else has begun an attempt, which the question waits for.
    if (!hold && error.status !== 409) throw error;
    turn.heldUntil = Date.now() + hold * 1000;
    draw();
  }
}

/** @param {Turn} turn @param {import("../parts/progress.js").LoadStatus} loading */
function load(turn, loading) {
  if (turn.state === "streaming") return;
  if (turn.loading?.state !== loading.state) say(`${loading.model}: ${loading.state}`);
  Object.assign(turn, { state: "loading", loading });
  draw();
}

/** @param {Turn} turn @param {unknown} error */
function fail(turn, error) {
  if (error instanceof DOMException && error.name === "AbortError")
    return Object.assign(turn, { state: "stopped", heldUntil: 0, quarantined: "", retrying: false });
  const known = error instanceof ApiError ? error : new ApiError("The page failed; load it again.");
  const loading = known.body?.loading;
  Object.assign(turn, {
    state: "failed",
    retrying: false,
    quarantined: known.code === "model_quarantined" ? turn.model : "",
    error: known.message,
    jobId: loading?.job_id,
    heldUntil: loading?.retry_after ? Date.now() + loading.retry_after * 1000 : 0,
  });
  say(known.message);
}

/** Ask the last question again, when the hold allows it. */
function retry() {
  const turn = turns.at(-1);
  if (!turn || running || turn.role !== "assistant") return;
  Object.assign(turn, { retrying: true, model: models.value || turn.model });
  answer(turn);
  draw();
}

function send() {
  const content = text.value.trim();
  if (!content || running || !models.value) return;
  /** @type {Turn} */
  const turn = { role: "assistant", content: "", model: models.value, state: "waiting" };
  turns.push({ role: "user", content }, turn);
  text.value = "";
  remember();
  answer(turns[turns.length - 1]);
  window.scrollTo(0, document.documentElement.scrollHeight);
}

/** What was said here before; an answer the page did not live to see counts as stopped. @returns {Turn[]} */
function restored() {
  const said = /** @type {Turn[]} */ (JSON.parse(kept(sessionStorage, "chat") ?? "[]"));
  for (const turn of said) if (UNFINISHED.has(turn.state ?? "")) turn.state = "stopped";
  return said;
}

function remember() {
  keep(sessionStorage, "chat", JSON.stringify(turns));
}

async function readModels() {
  try {
    const found = (await getJson("/api/models")).models.filter(canChat);
    const wanted = new URLSearchParams(location.search).get("model") ?? kept(localStorage, "model");
    models.replaceChildren(
      ...found.map((/** @type {any} */ model) => new Option(model.name, model.name, false, model.name === wanted)),
    );
    models.disabled = found.length === 0;
    if (!found.length) models.replaceChildren(new Option("No model can chat", ""));
  } catch (error) {
    models.replaceChildren(new Option("The models cannot be read", ""));
    say(/** @type {Error} */ (error).message);
    setTimeout(readModels, 5000);
  }
  draw();
}

/** @param {{disabled: boolean, known_usecases?: string[]}} model */
function canChat(model) {
  return !model.disabled && (!model.known_usecases?.length || model.known_usecases.includes("chat"));
}

composer.onsubmit = (/** @type {SubmitEvent} */ event) => {
  event.preventDefault();
  send();
};
text.onkeydown = (/** @type {KeyboardEvent} */ event) => {
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  send();
};
stopButton.onclick = () => running?.abort();
newButton.onclick = () => {
  turns = [];
  sessionStorage.removeItem("chat");
  draw();
  text.focus();
};
models.onchange = () => keep(localStorage, "model", models.value);
// The seconds of a load and of a hold go on also while nothing new is known.
setInterval(() => ["loading", "failed"].includes(turns.at(-1)?.state ?? "") && draw(), 1000);

draw();
readModels();
