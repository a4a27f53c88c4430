// What every page behind the sign-in has: the menu of a phone, the theme, signing out, and a voice for screen readers.

import { postJson } from "./api.js";

const root = document.documentElement;

function startMenu() {
  const button = find("menu-button");
  const open = (/** @type {boolean} */ yes) => button.setAttribute("aria-expanded", String(yes));
  button.onclick = () => open(button.getAttribute("aria-expanded") !== "true");
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && button.getAttribute("aria-expanded") === "true") {
      open(false);
      button.focus();
    }
  });
}

function startTheme() {
  const select = /** @type {HTMLSelectElement} */ (find("theme"));
  select.value = root.dataset.theme ?? "system";
  select.onchange = () => {
    if (select.value === "system") delete root.dataset.theme;
    else root.dataset.theme = select.value;
    keep(localStorage, "theme", select.value);
  };
}

function startSignOut() {
  find("sign-out").onclick = async () => {
    try {
      await postJson("/api/auth/logout", {}, { stay: true });
    } catch {
      // A session that has ended already is as good.
    }
    sessionStorage.clear();
    location.assign("/login");
  };
}

/** Say something to screen readers. @param {string} text */
export function say(text) {
  find("said").textContent = text;
}

/** Keep a text in this browser, if it lets us. @param {Storage} storage @param {string} name @param {string} text */
export function keep(storage, name, text) {
  try {
    storage.setItem(name, text);
  } catch {
    // Full or forbidden: the page works without.
  }
}

/** What this browser kept. @param {Storage} storage @param {string} name */
export function kept(storage, name) {
  try {
    return storage.getItem(name);
  } catch {
    return null;
  }
}

/** An element of the shell. @param {string} id @returns {HTMLElement} */
export function find(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`the page has no element ${id}`);
  return found;
}

startMenu();
startTheme();
startSignOut();
