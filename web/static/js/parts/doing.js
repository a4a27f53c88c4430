// How a button of a row acts: it asks first where something stops, says what became of it, and keeps what was refused.

import { confirm } from "../lib/dialog.js";
import { h } from "../lib/dom.js";
import { say } from "../lib/frame.js";

/** @typedef {Parameters<typeof confirm>[0]} Question */

/**
 * The answers of one page, by the key of the row they are shown in.
 * @param {() => void} redraw
 */
export function doings(redraw) {
  /** @type {Map<string, string>} */
  const refused = new Map();

  /**
   * @param {string} key of the row
   * @param {string} failed what a refusal begins with
   * @param {(force: boolean) => Promise<string>} act what it returns is said; `force` if the answer was "now"
   * @param {Question} [question]
   */
  async function run(key, failed, act, question) {
    const given = question ? await confirm(question) : "yes";
    if (!given) return;
    try {
      const text = await act(given === "now");
      refused.delete(key);
      say(text);
    } catch (error) {
      const text = `${failed}: ${/** @type {Error} */ (error).message}`;
      refused.set(key, text);
      say(text);
    }
    redraw();
  }

  /** What was refused in a row. @param {string} key */
  const answer = (key) => refused.has(key) && h("div", { class: "cause", key: "refused" }, refused.get(key));

  return { run, answer };
}

/**
 * A button whose name says for screen readers what it is about.
 * @param {string} label @param {string} about @param {() => void} onclick @param {string | null} [tone]
 */
export function button(label, about, onclick, tone = null) {
  const hidden = h("span", { class: "unseen" }, ` ${about}`);
  return h("button", { key: label, type: "button", class: tone, onclick }, label, hidden);
}
