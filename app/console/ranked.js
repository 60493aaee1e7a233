// A live table: one row an object, whose rank moves visibly when it changes.

import { el } from "./dom.js";
import { throttled } from "./scope.js";

const SHOWN = 3000; // milliseconds for which a move is marked
const still = matchMedia("(prefers-reduced-motion: reduce)");

export class RankedTable {
  #rows = new Map();
  #body = el("tbody");
  #caption = el("caption");
  #head = el("tr");
  #list = [];
  #columns = [];
  #first = true;

  /** `columns(list)` gives `[{title, of(entry), class}]` of what follows rank and id. */
  constructor(label, columns, empty) {
    this.columns = columns;
    this.empty = empty;
    this.node = el(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
      el("table", { class: "ranked" }, this.#caption, el("thead", {}, this.#head), this.#body),
    );
    this.show = throttled(180, () => this.#render());
  }

  set caption(text) {
    this.#caption.textContent = text;
  }

  /** Begin again: what comes first is not marked as new. */
  restart() {
    this.#first = true;
  }

  set list(list) {
    this.#list = list;
    this.show();
  }

  get list() {
    return this.#list;
  }

  #render() {
    const list = this.#list;
    const columns = this.columns(list);
    const titles = columns.map((column) => column.title).join("\n");
    if (titles !== this.#columns.join("\n") || !this.#head.firstChild) {
      this.#columns = columns.map((column) => column.title);
      this.#head.replaceChildren(
        el("th", { scope: "col", class: "rank" }, "Rank"),
        el("th", { scope: "col" }, "Id"),
        ...columns.map((column) => el("th", { scope: "col", class: column.class ?? null }, column.title)),
        el("th", { scope: "col", class: "moved" }, "Moved"),
      );
      this.#rows.clear();
    }
    const moves = !still.matches && !this.#first && !document.hidden;
    const before = new Map();
    if (moves) for (const [id, row] of this.#rows) before.set(id, row.node.getBoundingClientRect().top);
    const now = performance.now();
    const kept = new Map();
    for (const entry of list) kept.set(entry.id, this.#row(entry, columns, now));
    this.#rows = kept;
    const rows = [...kept.values()].map((row) => row.node);
    if (!rows.length) rows.push(el("tr", {}, el("td", { colspan: columns.length + 3, class: "soft" }, this.empty)));
    this.#body.replaceChildren(...rows);
    this.#first = false;
    if (!moves) return;
    for (const [id, { node }] of kept) {
      const from = before.get(id);
      if (from === undefined) {
        node.animate([{ opacity: 0 }, { opacity: 1 }], { duration: 350 });
      } else {
        const by = from - node.getBoundingClientRect().top;
        if (by)
          node.animate([{ transform: `translateY(${by}px)` }, { transform: "none" }], {
            duration: 300,
            easing: "ease-out",
          });
      }
    }
  }

  #row(entry, columns, now) {
    const known = this.#rows.get(entry.id);
    const cells = columns.map((column) => column.of(entry));
    const row = known ?? { node: el("tr", { "data-id": entry.id }), cells: [], rank: null, mark: "", until: 0 };
    if (!this.#first && row.rank !== entry.rank) {
      row.mark =
        row.rank === null
          ? "new"
          : row.rank > entry.rank
            ? `up ${row.rank - entry.rank}`
            : `down ${entry.rank - row.rank}`;
      row.until = now + SHOWN;
      setTimeout(this.show, SHOWN + 50);
    } else if (now >= row.until) {
      row.mark = "";
    }
    row.rank = entry.rank;
    const changed = known ? cells.map((cell, i) => cell !== row.cells[i]) : [];
    row.cells = cells;
    row.node.replaceChildren(
      el("td", { class: "rank" }, String(entry.rank)),
      el("th", { scope: "row", class: "id" }, entry.id),
      ...cells.map((cell, i) => el("td", { class: columns[i].class ?? null }, cell)),
      el("td", { class: "moved" }, moved(row.mark)),
    );
    if (!this.#first && !still.matches) {
      changed.forEach((is, i) => {
        if (is)
          row.node.children[i + 2].animate(
            [{ backgroundColor: "var(--accent-soft)" }, { backgroundColor: "transparent" }],
            900,
          );
      });
    }
    return row;
  }
}

function moved(mark) {
  if (!mark) return "";
  const [way, by] = mark.split(" ");
  const sign = { new: "●", up: "▲", down: "▼" }[way];
  return el(
    "span",
    { class: `mark ${way}` },
    el("span", { "aria-hidden": "true" }, by ? `${sign} ${by}` : `${sign} new`),
    el("span", { class: "hidden" }, by ? `${way} ${by}` : "new"),
  );
}
