// How events are read: from the answer to a request, or followed for as long as they come.

/**
 * Each block of a response: an event, or a comment.
 * @param {Response} response
 * @returns {AsyncGenerator<string>}
 */
export async function* blocksOf(response) {
  if (!response.body) return;
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop() ?? "";
      yield* parts;
    }
  } finally {
    await reader.cancel().catch(() => undefined);
  }
}

/** The data of an event; empty for a comment. @param {string} block */
export function dataOf(block) {
  return block
    .split("\n")
    .filter((line) => line.startsWith("data:"))
    .map((line) => line.slice(5).trimStart())
    .join("\n");
}

/**
 * Follow an event stream until its event `end`; the browser comes back by itself when the connection breaks.
 * @param {string} path
 * @param {Record<string, (value: any) => void>} handlers by name of the event
 * @returns {() => void} ends it
 */
export function follow(path, handlers) {
  const source = new EventSource(path);
  for (const [name, handle] of Object.entries(handlers)) {
    source.addEventListener(name, (event) => handle(JSON.parse(/** @type {MessageEvent} */ (event).data)));
  }
  source.addEventListener("end", () => source.close());
  return () => source.close();
}
