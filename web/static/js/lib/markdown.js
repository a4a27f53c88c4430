// How a model's answer is shown: the Markdown that models write, as elements. Only text nodes are made of its text.

import { h } from "./dom.js";

const LINE = /^(#{1,6}) +(.*)$|^\s*(?:[-*+]|\d+[.)]) +(.*)$/;
/** Where code, bold text or a link may begin. */
const MARK = /`|\*\*|\[/g;
const ADDRESS = /\]\(https?:\/\//y;

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
  const read = reader(text);
  let from = 0;
  MARK.lastIndex = 0;
  for (let match = MARK.exec(text); match; match = MARK.exec(text)) {
    const found = read(match.index);
    if (!found) continue;
    parts.push(text.slice(from, match.index), found.element);
    from = found.end;
    MARK.lastIndex = from;
  }
  return [...parts, text.slice(from)];
}

/**
 * Reads the mark at a place of a text, or returns null where it is plain text. Places only grow, and the ends that were
 * searched for are kept: a text of a hundred thousand unclosed marks is read once and not once for each of them.
 * @param {string} text
 */
function reader(text) {
  const backtick = next(text, /`/g);
  const stars = next(text, /\*\*/g);
  const bracket = next(text, /\]/g);
  const addressEnd = next(text, /[\s)]/g);
  /** @param {number} at */
  return (at) => {
    if (text[at] === "`") {
      const end = backtick(at + 1);
      return end > at + 1 ? { element: h("code", null, text.slice(at + 1, end)), end: end + 1 } : null;
    }
    if (text[at] === "*") {
      const end = stars(at + 3);
      return end > 0 ? { element: h("strong", null, text.slice(at + 2, end)), end: end + 2 } : null;
    }
    const label = bracket(at + 1);
    if (label <= at + 1) return null;
    ADDRESS.lastIndex = label;
    const start = ADDRESS.exec(text);
    if (!start) return null;
    const end = addressEnd(ADDRESS.lastIndex);
    if (end <= ADDRESS.lastIndex || text[end] !== ")") return null;
    const href = text.slice(label + 2, end);
    const attributes = { href, rel: "noreferrer noopener", target: "_blank" };
    return { element: h("a", attributes, text.slice(at + 1, label)), end: end + 1 };
  };
}

/**
 * The first place of a pattern from a place on, -1 where there is none. It searches on only behind what it found last.
 * @param {string} text @param {RegExp} pattern
 */
function next(text, pattern) {
  let found = -2;
  /** @param {number} from */
  return (from) => {
    if (found !== -1 && found < from) {
      pattern.lastIndex = from;
      found = pattern.exec(text)?.index ?? -1;
    }
    return found;
  };
}
