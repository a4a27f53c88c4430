// How a model's answer is shown: the Markdown that models write, as elements. Only text nodes are made of its text.

import { h } from "./dom.js";

const LINE = /^(#{1,6}) +(.*)$|^\s*(?:[-*+]|\d+[.)]) +(.*)$/;
const INLINE = /`([^`]+)`|\*\*(.+?)\*\*|\[([^\]]+)\]\((https?:\/\/[^\s)]+)\)/g;

/** @param {string} text */
export function markdown(text) {
  const parts = text.split(/^```[^\n]*$/m);
  return parts.map((part, at) => (at % 2 ? code(part, at) : h("div", { key: `p${at}` }, blocks(part))));
}

/** @param {string} text @param {number} at */
function code(text, at) {
  return h("pre", { key: `c${at}`, tabindex: 0 }, h("code", null, text.replace(/^\n|\n$/g, "")));
}

/** @param {string} text */
function blocks(text) {
  const found = [];
  /** @type {{kind: string, lines: string[]} | null} */
  let open = null;
  for (const line of text.split("\n")) {
    const match = LINE.exec(line);
    const kind = !line.trim() ? "" : !match ? "p" : match[1] ? "h" : /^\s*\d/.test(line) ? "ol" : "ul";
    if (!open || open.kind !== kind || kind === "h") {
      open = { kind, lines: [] };
      found.push(open);
    }
    open.lines.push(match ? (match[2] ?? match[3]) : line);
  }
  return found.filter((block) => block.kind).map(element);
}

/** @param {{kind: string, lines: string[]}} block */
function element({ kind, lines }) {
  if (kind === "h") return h("h3", null, inline(lines[0]));
  if (kind === "p")
    return h(
      "p",
      null,
      lines.map((line, at) => [at > 0 && h("br", null), inline(line)]),
    );
  return h(
    kind,
    null,
    lines.map((line) => h("li", null, inline(line))),
  );
}

/** @param {string} text */
function inline(text) {
  const parts = [];
  let from = 0;
  for (const match of text.matchAll(INLINE)) {
    parts.push(text.slice(from, match.index));
    const [all, code_, bold, label, address] = match;
    if (code_) parts.push(h("code", null, code_));
    else if (bold) parts.push(h("strong", null, bold));
    else parts.push(h("a", { href: address, rel: "noreferrer noopener", target: "_blank" }, label));
    from = match.index + all.length;
  }
  return [...parts, text.slice(from)];
}
