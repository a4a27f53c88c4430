// How a page stays up to date: one read after the other, none while nobody looks, and longer pauses while reads fail.

const MOST_MS = 60_000;

/**
 * Read again and again.
 * @template T
 * @param {() => Promise<T>} read
 * @param {object} options
 * @param {(value: T | undefined) => number} options.every the pause in milliseconds; 0 ends it
 * @param {(value: T) => void} options.onValue
 * @param {(error: Error) => void} options.onError
 */
export function poll(read, { every, onValue, onError }) {
  /** @type {T | undefined} */
  let value;
  let failures = 0;
  let timer = 0;
  let busy = false;
  let stopped = false;

  async function step() {
    if (busy || stopped) return;
    busy = true;
    clearTimeout(timer);
    try {
      value = await read();
      failures = 0;
      if (!stopped) onValue(value);
    } catch (error) {
      failures += 1;
      if (!stopped) onError(/** @type {Error} */ (error));
    } finally {
      busy = false;
      plan();
    }
  }

  function plan() {
    const pause = every(value);
    if (stopped || document.hidden || (pause === 0 && failures === 0)) return;
    timer = setTimeout(step, Math.min((pause || 2000) * 2 ** Math.min(failures, 6), MOST_MS));
  }

  function seen() {
    if (document.hidden) clearTimeout(timer);
    else if (every(value) !== 0) step();
  }

  document.addEventListener("visibilitychange", seen);
  step();
  return {
    now: step,
    stop() {
      stopped = true;
      clearTimeout(timer);
      document.removeEventListener("visibilitychange", seen);
    },
  };
}
