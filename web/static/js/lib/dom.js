// How a page is drawn: `h` describes elements, `render` makes what is there equal to it and keeps focus and typed text.

/**
 * @typedef {{tag: string, props: Record<string, any>, children: Child[]}} Element_
 * @typedef {Element_ | string} Child
 */

/** @type {WeakMap<Node, Element_>} */
const drawn = new WeakMap();

/**
 * Describe an element. Props: `key` names it among its siblings, `class`, `on…` are listeners, `style` holds custom
 * properties, everything else is an attribute. Children may be nested lists; null and false are left out.
 * @param {string} tag
 * @param {Record<string, any> | null} props
 * @param {...any} children
 * @returns {Element_}
 */
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, children: flat(children) };
}

/**
 * Make the children of an element equal to a description.
 * @param {Element} root
 * @param {...any} children
 */
export function render(root, ...children) {
  const focused = document.activeElement;
  patchChildren(root, flat(children));
  if (focused instanceof HTMLElement && focused !== document.activeElement && root.contains(focused)) focused.focus();
}

/** @param {any[]} children @returns {Child[]} */
function flat(children) {
  return children
    .flat(Infinity)
    .filter((child) => child !== null && child !== undefined && child !== false && child !== "")
    .map((child) => (typeof child === "object" ? child : String(child)));
}

/** @param {Element} root @param {Child[]} children */
function patchChildren(root, children) {
  const spare = [...root.childNodes];
  const nodes = children.map((child) => {
    const at = spare.findIndex((node) => fits(node, child));
    return patch(at < 0 ? null : spare.splice(at, 1)[0], child);
  });
  for (const node of spare) node.remove();
  nodes.forEach((node, at) => {
    if (root.childNodes[at] !== node) root.insertBefore(node, root.childNodes[at] ?? null);
  });
}

/** @param {Node} node @param {Child} child */
function fits(node, child) {
  if (typeof child === "string") return node.nodeType === Node.TEXT_NODE;
  const known = drawn.get(node);
  return known !== undefined && known.tag === child.tag && known.props.key === child.props.key;
}

/** @param {Node | null} node @param {Child} child @returns {Node} */
function patch(node, child) {
  if (typeof child === "string") {
    if (!node) return document.createTextNode(child);
    if (node.nodeValue !== child) node.nodeValue = child;
    return node;
  }
  const element = /** @type {HTMLElement} */ (node ?? document.createElement(child.tag));
  const before = drawn.get(element)?.props ?? {};
  for (const name of Object.keys(before)) if (!(name in child.props)) set(element, name, null);
  for (const [name, value] of Object.entries(child.props)) if (before[name] !== value) set(element, name, value);
  drawn.set(element, child);
  patchChildren(element, child.children);
  return element;
}

/** @param {any} element @param {string} name @param {any} value */
function set(element, name, value) {
  if (name === "key") return;
  if (name.startsWith("on")) element[name] = value;
  else if (name === "style")
    for (const [key, text] of Object.entries(value ?? {})) element.style.setProperty(key, text);
  else if (value === null || value === undefined || value === false) element.removeAttribute(name);
  else element.setAttribute(name, value === true ? "" : value);
}
