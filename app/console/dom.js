// Builds elements, and writes numbers. Text is only ever set as text.

const numbers = new Intl.NumberFormat("en", { maximumFractionDigits: 3 });
const compact = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
let last = 0;

/** An element with attributes (`class`, `for`, `aria-...`), listeners (`onclick`) and children; null ones are left out. */
export function el(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

/** The same for SVG. */
export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

/** An id for `for`, `aria-labelledby` and the like. */
export function unique(prefix) {
  last += 1;
  return `${prefix}-${last}`;
}

/** A number as people read it; an unbounded end as its sign. */
export function shown(value) {
  return typeof value === "number" ? numbers.format(value).replace("-", "−") : String(value ?? "");
}

/** A number in little room: 12.3K. */
export function short(value) {
  return Math.abs(value) < 1000 ? shown(Math.round(value * 10) / 10) : compact.format(value);
}

/** Bytes in the unit that suits them. */
export function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit < units.length - 1) {
    value /= 1024;
    unit += 1;
  }
  return `${shown(Math.round(value * 10) / 10)} ${units[unit]}`;
}

/** "1 object", "2 objects". */
export function count(n, noun) {
  return `${shown(n)} ${noun}${n === 1 ? "" : "s"}`;
}

/** Any value in a cell: text as it is, other things as JSON. */
export function brief(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number") return shown(value);
  return typeof value === "string" ? value : JSON.stringify(value);
}

/** A range in words: "from 500 to 1,000", "up to 300", "any". */
export function rangeWords([low, high]) {
  if (low === null && high === null) return "any";
  if (low === null) return `up to ${shown(high)}`;
  return high === null ? `from ${shown(low)}` : `from ${shown(low)} to ${shown(high)}`;
}

/** A table with a caption, column headers, and rows of cells; the first cell of a row is its header. */
export function table(caption, columns, rows, { className = "", hideCaption = false, empty = "None." } = {}) {
  const body = el("tbody");
  const node = el(
    "table",
    { class: className },
    el("caption", { class: hideCaption ? "hidden" : null }, caption),
    el(
      "thead",
      {},
      el(
        "tr",
        {},
        columns.map((column) => el("th", { scope: "col", class: column.class ?? null }, column.title ?? column)),
      ),
    ),
    body,
  );
  setRows(body, columns, rows, empty);
  return el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption }, node);
}

/** Put other rows into a table of `table`. */
export function setRows(body, columns, rows, empty = "None.") {
  if (!rows.length) {
    body.replaceChildren(el("tr", {}, el("td", { colspan: columns.length, class: "soft" }, empty)));
    return;
  }
  body.replaceChildren(
    ...rows.map((cells) =>
      el(
        "tr",
        {},
        cells.map((cell, i) => {
          const kind = columns[i]?.class ?? null;
          return i ? el("td", { class: kind }, cell ?? "") : el("th", { scope: "row", class: kind }, cell ?? "");
        }),
      ),
    ),
  );
}

/** A part of a page under a heading, with a line that says what one sees. */
export function section(title, lead, ...children) {
  const id = unique("part");
  return el(
    "section",
    { "aria-labelledby": id, class: "panel" },
    el("h2", { id }, title),
    lead ? el("p", { class: "lead" }, lead) : null,
    ...children,
  );
}

/** Facts as a description list. */
export function facts(pairs) {
  return el(
    "dl",
    { class: "facts" },
    ...pairs.map(([name, value]) =>
      el("div", {}, el("dt", {}, name), el("dd", {}, value instanceof Node ? value : brief(value))),
    ),
  );
}
