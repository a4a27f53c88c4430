// How a page asks the server: JSON, the token for writes, and errors as one class with the server's own words.

/** What the server refused, or that it could not be asked (`status` 0). */
export class ApiError extends Error {
  /**
   * @param {string} message
   * @param {{status?: number, code?: string | number, body?: any, retryAfter?: number | null}} facts
   */
  constructor(message, { status = 0, code = "", body = null, retryAfter = null } = {}) {
    super(message);
    this.status = status;
    this.code = code;
    this.body = body;
    this.retryAfter = retryAfter;
  }
}

let ahead = 0;

/** Now by the server's clock, in milliseconds: ages on the page do not depend on the clock of this machine. */
export function serverNow() {
  return Date.now() + ahead;
}

/**
 * The response to a request. Throws ApiError; a session that has ended leads to the sign-in.
 * @param {string} path
 * @param {{method?: string, body?: unknown, headers?: Record<string, string>, signal?: AbortSignal,
 *   stay?: boolean}} options
 */
export async function ask(path, { method = "GET", body, headers: more = {}, signal, stay = false } = {}) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json", ...more };
  if (method !== "GET") headers["X-CSRF-Token"] = meta("csrf-token");
  if (body !== undefined) headers["Content-Type"] = "application/json";
  const response = await send(path, {
    method,
    headers,
    body: body === undefined ? undefined : JSON.stringify(body),
    signal,
  });
  const date = Date.parse(response.headers.get("Date") ?? "");
  // The header has whole seconds: less than that is no difference.
  if (date && Math.abs(date - Date.now() - ahead) > 1500) ahead = date - Date.now();
  if (response.ok) return response;
  const error = await refusal(response);
  if (error.status === 401 && !stay) toSignIn();
  throw error;
}

/** @param {string} path @param {{signal?: AbortSignal}} [options] @returns {Promise<any>} */
export async function getJson(path, options) {
  return (await ask(path, options)).json();
}

/** @param {string} path @param {unknown} [body] @param {{stay?: boolean}} [options] @returns {Promise<any>} */
export async function postJson(path, body = {}, options) {
  return (await ask(path, { ...options, method: "POST", body })).json();
}

/** @param {string} path @returns {Promise<any>} */
export async function deleteJson(path) {
  return (await ask(path, { method: "DELETE" })).json();
}

/** Sign in and come back. */
export function toSignIn() {
  location.assign("/login?" + new URLSearchParams({ next: location.pathname + location.search }));
}

/** @param {string} path @param {RequestInit} options */
async function send(path, options) {
  try {
    return await fetch(path, options);
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new ApiError("The server does not answer.");
  }
}

/** @param {Response} response */
async function refusal(response) {
  const wait = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
  const facts = { status: response.status, retryAfter: Number.isNaN(wait) ? null : wait };
  try {
    const body = await response.json();
    return new ApiError(sentence(body.error.message), { ...facts, code: body.error.code, body });
  } catch {
    return new ApiError(`The server answered with status ${response.status}.`, facts);
  }
}

/** @param {string} text */
export function sentence(text) {
  return text.charAt(0).toUpperCase() + text.slice(1);
}

/** @param {string} name */
function meta(name) {
  return document.querySelector(`meta[name="${name}"]`)?.getAttribute("content") ?? "";
}
