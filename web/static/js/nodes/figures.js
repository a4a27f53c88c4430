// The measured figures of a node: memory, disk and CPU, or "unknown" for one that it does not report.

import { h } from "../lib/dom.js";
import { bytes, many } from "../lib/format.js";

/**
 * @typedef {{gpu_vendor: string, total_vram: number, available_vram: number, total_ram: number, available_ram: number,
 *   total_disk: number, available_disk: number, cpu_logical_cores: number, cpu_usage_percent: number}} Figures
 */

/** @param {Figures} node */
export const disk = (node) => free(node.available_disk, node.total_disk, "");

/** @param {Figures} node */
export function memory(node) {
  return node.total_vram > 0
    ? free(node.available_vram, node.total_vram, node.gpu_vendor || "GPU")
    : free(node.available_ram, node.total_ram, "RAM");
}

/** @param {number} left @param {number} total @param {string} of */
function free(left, total, of) {
  if (total <= 0) return "unknown";
  return [`${bytes(left)} free`, h("span", { class: "faint" }, `of ${bytes(total)} ${of}`)];
}

/** @param {Figures} node */
export function cpu(node) {
  if (node.cpu_logical_cores <= 0) return "unknown";
  return [
    `${Math.round(node.cpu_usage_percent)} %`,
    h("span", { class: "faint" }, `of ${many(node.cpu_logical_cores, "core")}`),
  ];
}
