// How a page asks before it stops or removes something: it says what will happen, and one button does it.

import { h, render } from "./dom.js";

/**
 * Ask. True once the button with `yes` was pressed; Escape and the other button are no.
 * @param {object} question
 * @param {string} question.title
 * @param {string[]} question.text what will happen, a paragraph each
 * @param {string} question.yes
 * @param {string} [question.typed] what has to be typed before `yes` can be pressed
 * @returns {Promise<boolean>}
 */
export function confirm({ title, text, yes, typed }) {
  const dialog = document.createElement("dialog");
  dialog.setAttribute("aria-labelledby", "dialog-title");
  document.body.append(dialog);
  return new Promise((resolve) => {
    let answer = false;
    let given = "";
    const may = () => typed === undefined || given.trim() === typed;
    const end = (/** @type {boolean} */ yes_) => {
      answer = yes_;
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
          h("button", { type: "button", key: "yes", class: "danger", disabled: !may(), onclick: () => end(true) }, yes),
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
      end(true);
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
