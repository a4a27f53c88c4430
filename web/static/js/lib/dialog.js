// How a page asks before it stops or removes something: it says what will happen, and one button does it.

import { h, render } from "./dom.js";

/**
 * Ask. Resolves to "yes" or "now" once one of these buttons was pressed; Escape and the other button are false.
 * @param {object} question
 * @param {string} question.title
 * @param {string[]} question.text what will happen, a paragraph each
 * @param {string} question.yes
 * @param {string} [question.now] a second way to do it, without waiting
 * @param {string} [question.typed] what has to be typed before `yes` can be pressed
 * @returns {Promise<"yes" | "now" | false>}
 */
export function confirm({ title, text, yes, now, typed }) {
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-labelledby", "dialog-title");
  document.body.append(dialog);
  return new Promise((resolve) => {
    /** @type {"yes" | "now" | false} */
    let answer = false;
    let given = "";
    const may = () => typed === undefined || given.trim() === typed;
    const end = (/** @type {"yes" | "now" | false} */ given_) => {
      answer = given_;
      dialog.close();
    };
    const draw = () =>
      render(
        dialog,
        h("h2", { id: "dialog-title" }, title),
        text.map((line) => h("p", null, line)),
        typed !== undefined && field(typed, (value) => [(given = value), draw()]),
        h(
          "div",
          { class: "row" },
          h("button", { type: "button", key: "no", onclick: () => end(false) }, "Back"),
          h(
            "button",
            { type: "button", key: "yes", class: "danger", disabled: !may(), onclick: () => end("yes") },
            yes,
          ),
          now && h("button", { type: "button", key: "now", class: "danger", onclick: () => end("now") }, now),
        ),
      );
    dialog.onclose = () => {
      dialog.remove();
      resolve(answer);
    };
    dialog.onkeydown = (event) => {
      if (event.key !== "Enter" || !(event.target instanceof HTMLInputElement) || !may()) return;
      // Closing gives focus back to the button that asked; the rest of this key press would press it.
      event.preventDefault();
      end("yes");
    };
    draw();
    dialog.showModal();
  });
}

/** @param {string} typed @param {(value: string) => void} on */
function field(typed, on) {
  return h(
    "div",
    { key: "field" },
    h("label", { for: "dialog-typed" }, `Type ${typed} to confirm`),
    h("input", {
      id: "dialog-typed",
      autocomplete: "off",
      autocapitalize: "none",
      spellcheck: "false",
      oninput: (/** @type {any} */ event) => on(event.target.value),
    }),
  );
}
