// How a question gets its answer, also from a model that has to be loaded first: the answer's own stream says how far.

import { ApiError, ask as send, sentence } from "../lib/api.js";
import { blocksOf, dataOf } from "../lib/sse.js";

/** A load that is still under way when the answer ends without one is asked for again after this pause. */
const AGAIN_MS = 1500;
const TOLD = { "X-LocalAI-Loading": "stream" };
const LOADING = ": loading ";

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
  const { model, messages, signal } = question;
  const body = { model, messages, stream: true, stream_options: { include_usage: true } };
  for (;;) {
    try {
      const response = await send("/v1/chat/completions", { method: "POST", headers: TOLD, body, signal });
      return await readAnswer(response, question);
    } catch (error) {
      if (!(error instanceof ApiError) || error.code !== "model_loading") throw error;
      if (error.body?.loading) question.onLoading(error.body.loading);
    }
    await pause(AGAIN_MS, signal);
  }
}

/** @param {Response} response @param {Question} question @returns {Promise<End>} */
async function readAnswer(response, { onLoading, onText }) {
  const end = { finish: "", tokens: 0 };
  for await (const block of blocksOf(response)) {
    if (block.startsWith(LOADING)) onLoading(JSON.parse(block.slice(LOADING.length)));
    const data = dataOf(block);
    if (data === "[DONE]") return end;
    if (data) readChunk(JSON.parse(data), end, onText);
  }
  throw new ApiError("The answer broke off: the connection was lost.");
}

/** @param {any} chunk @param {End} end @param {(text: string) => void} onText */
function readChunk(chunk, end, onText) {
  if (chunk.error)
    throw new ApiError(sentence(chunk.error.message), { status: 200, code: chunk.error.code, body: chunk });
  const choice = chunk.choices[0];
  if (choice?.delta?.content) onText(choice.delta.content);
  if (choice?.finish_reason) end.finish = choice.finish_reason;
  if (chunk.usage) end.tokens = chunk.usage.completion_tokens;
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
