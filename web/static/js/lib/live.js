// How a page shows a reading that goes stale: reading, failed, shown, and shown but not up to date.

import { serverNow } from "./api.js";
import { h, render } from "./dom.js";
import { elapsed } from "./format.js";
import { say } from "./frame.js";
import { poll } from "./poll.js";

/**
 * Keep a part of the page equal to the latest reading.
 * @template T
 * @param {Element} root
 * @param {object} options
 * @param {string} options.what what is read, as in "Reading the nodes"
 * @param {() => Promise<T>} options.read
 * @param {(value: T) => any} options.draw
 * @param {(value: T | undefined) => number} options.every
 * @param {(error: any) => any} [options.drawError] null for the usual
 */
export function live(root, { what, read, draw, every, drawError }) {
  /** @type {T | undefined} */
  let value;
  /** @type {Error | null} */
  let error = null;
  let readAt = 0;

  function redraw() {
    root.setAttribute("aria-busy", String(value === undefined && !error));
    if (value !== undefined) render(root, error && stale(), draw(value));
    else if (error) render(root, drawError?.(error) ?? failed());
    else render(root, h("p", { class: "faint", key: "reading" }, `Reading ${what}…`));
  }

  const retry = () => h("button", { type: "button", onclick: () => reading.now() }, "Try again");

  function failed() {
    return h(
      "div",
      { class: "note bad", role: "alert", key: "failed" },
      h(
        "span",
        null,
        `${what} cannot be read. ${error?.message}`.replace(/^./, (c) => c.toUpperCase()),
      ),
      retry(),
    );
  }

  function stale() {
    const age = elapsed(serverNow() - readAt);
    return h(
      "div",
      { class: "note wait", key: "stale" },
      h("span", null, `Not up to date: this was read ${age} ago. ${error?.message}`),
      retry(),
    );
  }

  redraw();
  const reading = poll(read, {
    every,
    onValue(found) {
      [value, error, readAt] = [found, null, serverNow()];
      redraw();
    },
    onError(found) {
      // Said once: the note itself counts the seconds, which nobody wants to hear.
      if (!error && value !== undefined) say(`Not up to date. ${found.message}`);
      error = found;
      redraw();
    },
  });
  // Ages grow also while nothing new is read.
  setInterval(() => value !== undefined && !document.hidden && redraw(), 1000);
  return { now: reading.now, stop: reading.stop, redraw };
}
