// How rows are shown: a table, whose rows become cards on a phone and stay rows to a screen reader.

import { h } from "../lib/dom.js";

/**
 * @template T
 * @param {string} caption for screen readers
 * @param {{label: string, cell: (row: T) => any, class?: string, width?: string}[]} columns with a width of one, the
 *   columns of a wide screen keep their places whatever the rows say
 * @param {T[]} rows
 * @param {(row: T) => string} key
 */
export function table(caption, columns, rows, key) {
  const head = columns.map((column) =>
    h(
      "th",
      { role: "columnheader", scope: "col", class: column.class, style: { "--width": column.width ?? "auto" } },
      column.label || h("span", { class: "unseen" }, "Actions"),
    ),
  );
  const body = rows.map((row) =>
    h(
      "tr",
      { key: key(row), role: "row" },
      columns.map((column) => cell(column, row)),
    ),
  );
  return h(
    "div",
    { class: "panel", key: "table" },
    h(
      "table",
      { role: "table", "aria-label": caption, class: columns.some((column) => column.width) ? "fixed" : null },
      h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, head)),
      h("tbody", { role: "rowgroup" }, body),
    ),
  );
}

/** @template T @param {{label: string, cell: (row: T) => any, class?: string}} column @param {T} row */
function cell(column, row) {
  const content = column.cell(row);
  const nothing = content === null || content === "" || (Array.isArray(content) && content.every((part) => !part));
  return h(
    "td",
    {
      role: "cell",
      class: [column.class, nothing && "empty-cell"].filter(Boolean).join(" ") || null,
      "data-label": column.label,
    },
    nothing ? null : h("div", null, content),
  );
}
