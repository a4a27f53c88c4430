// How a question gets its answer, also from a model that has to be loaded first: ask, watch the load, ask again.

import { ApiError, ask as send, getJson } from "../lib/api.js";
import { eventsOf } from "../lib/sse.js";

/** The first look comes after this long: a loaded model has answered by then. */
const FIRST_LOOK_MS = 400;
const LOOK_MS = 1000;
/** A request that was not answered within the server's own wait is made again after this pause. */
const AGAIN_MS = 1500;

/**
 * @typedef {{role: string, content: string}} Message
 * @typedef {{finish: string, tokens: number}} End
 * @typedef {object} Question
 * @property {string} model
 * @property {Message[]} messages
 * @property {AbortSignal} signal
 * @property {(loading: import("../parts/progress.js").LoadStatus) => void} onLoading
 * @property {(text: string) => void} onText
 */

/**
 * The whole way to an answer. Throws ApiError for what is no load under way, AbortError when it was stopped.
 * @param {Question} question
 * @returns {Promise<End>}
 */
export async function talk(question) {
  for (;;) {
    const watched = watchLoad(question);
    try {
      const response = await send("/v1/chat/completions", {
        method: "POST",
        body: bodyOf(question),
        signal: question.signal,
      });
      watched.stop();
      return await readAnswer(response, question.onText);
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== "model_loading") throw error;
      if (error.body?.loading) question.onLoading(error.body.loading);
    } finally {
      watched.stop();
    }
    await pause(AGAIN_MS, question.signal);
  }
}

/** @param {Question} question */
function bodyOf({ model, messages }) {
  return { model, messages, stream: true, stream_options: { include_usage: true } };
}

/**
 * Look at the load of a model until stopped. It may be that nothing loads: the answer is 404 then.
 * @param {Question} question
 */
function watchLoad({ model, signal, onLoading }) {
  let stopped = false;
  let timer = setTimeout(look, FIRST_LOOK_MS);

  async function look() {
    let wait = LOOK_MS;
    try {
      const loading = await getJson(`/api/models/${encodeURIComponent(model)}/load-status`, { signal });
      if (!stopped && loading.state !== "failed") onLoading(loading);
    } catch {
      // It is loaded, or cannot be asked just now: the answer itself will tell.
      wait = 3 * LOOK_MS;
    }
    if (!stopped) timer = setTimeout(look, wait);
  }

  return {
    stop() {
      stopped = true;
      clearTimeout(timer);
    },
  };
}

/** @param {Response} response @param {(text: string) => void} onText @returns {Promise<End>} */
async function readAnswer(response, onText) {
  const end = { finish: "", tokens: 0 };
  for await (const data of eventsOf(response)) {
    if (data === "[DONE]") return end;
    const chunk = JSON.parse(data);
    if (chunk.error) throw new ApiError(chunk.error.message, { status: 200, code: chunk.error.code });
    const choice = chunk.choices[0];
    if (choice?.delta?.content) onText(choice.delta.content);
    if (choice?.finish_reason) end.finish = choice.finish_reason;
    if (chunk.usage) end.tokens = chunk.usage.completion_tokens;
  }
  throw new ApiError("The answer broke off: the connection was lost.");
}

/** @param {number} ms @param {AbortSignal} signal */
export function pause(ms, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(new DOMException("stopped", "AbortError"));
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve(undefined);
    }, ms);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
}
