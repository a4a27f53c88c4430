// The sign-in: the key goes to the server once and comes back as a cookie that no script can read.

import { ApiError, postJson } from "../lib/api.js";

const form = /** @type {HTMLFormElement} */ (document.getElementById("sign-in"));
const key = /** @type {HTMLInputElement} */ (document.getElementById("key"));
const message = /** @type {HTMLElement} */ (document.getElementById("message"));
const button = /** @type {HTMLButtonElement} */ (form.querySelector("button"));

form.onsubmit = async (/** @type {SubmitEvent} */ event) => {
  event.preventDefault();
  if (!key.value.trim()) return refuse("The key is empty.");
  button.disabled = true;
  try {
    await postJson("/api/auth/token-login", { token: key.value }, { stay: true });
    key.value = "";
    location.replace(form.dataset.after ?? "/");
  } catch (error) {
    button.disabled = false;
    refuse(
      error instanceof ApiError && error.status === 401 ? "This is not the admin key of this server." : wordsOf(error),
    );
  }
};

/** @param {unknown} error */
function wordsOf(error) {
  const text = error instanceof ApiError ? error.message.replace(/^Token: /, "") : "Signing in failed.";
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** @param {string} text */
function refuse(text) {
  message.className = "note bad";
  message.hidden = false;
  message.textContent = text;
  key.setAttribute("aria-invalid", "true");
  key.focus();
  key.select();
}
