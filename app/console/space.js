// Subscription space of a board with one range attribute: the plane of all ranges (l, r), with the density of its
// subscriptions, the tiles of events as they come, and the point of one subscription.

import { pages, path } from "./api.js";
import { Plot } from "./canvas.js";
import { count, el, setRows, shown, table, unique } from "./dom.js";
import { Live } from "./live.js";
import { throttled } from "./scope.js";

const READ = 5000; // subscriptions that the density is made of, at most
const FOLLOWED = 512; // subscriptions whose tiles are drawn
const CELLS = 32;
const FADE = 1800; // milliseconds
const DRAWN = 80;
const LISTED = 20;
const still = matchMedia("(prefers-reduced-motion: reduce)");

const low = (value) => value ?? -Infinity;
const high = (value) => value ?? Infinity;

/** The cell of an end: its number along an axis, −1 and `CELLS` for unbounded ones. */
function cell(value, [from, to]) {
  if (value === -Infinity) return -1;
  if (value === Infinity) return CELLS;
  return Math.min(CELLS - 1, Math.max(0, Math.floor(((value - from) / (to - from)) * CELLS)));
}

/** How many points lie in each cell: `[{i, j, n}]`, the fullest first. */
export function densityOf(points, domain) {
  const cells = new Map();
  for (const { l, r } of points) {
    const at = `${cell(l, domain)} ${cell(r, domain)}`;
    cells.set(at, (cells.get(at) ?? 0) + 1);
  }
  return [...cells]
    .map(([at, n]) => ({ i: Number(at.split(" ")[0]), j: Number(at.split(" ")[1]), n }))
    .sort((a, b) => b.n - a.n || a.i - b.i || a.j - b.j);
}

/** Points far from each other, so that what reaches any place is likely to reach one of them. */
export function spread(points, most, domain) {
  if (points.length <= most) return points;
  const span = domain[1] - domain[0];
  const at = (value) => (value === -Infinity ? -0.1 : value === Infinity ? 1.1 : (value - domain[0]) / span);
  const places = points.map((point) => [at(point.l), at(point.r)]);
  const far = places.map(() => Infinity);
  const chosen = [0];
  while (chosen.length < most) {
    const [x, y] = places[chosen.at(-1)];
    let best = 0;
    places.forEach(([px, py], i) => {
      far[i] = Math.min(far[i], (px - x) ** 2 + (py - y) ** 2);
      if (far[i] > far[best]) best = i;
    });
    chosen.push(best);
  }
  return chosen.map((i) => points[i]);
}

export class Space {
  #live = new Live();
  #points = [];
  #cells = [];
  #tiles = [];
  #fixed = [];
  #recent = [];
  #seen = new Set();
  #stops = [];
  #rows = [];
  #domain = [0, 1];
  #total = 0;
  #tileCount = 0;
  mine = null;

  constructor(scope, board) {
    this.scope = scope;
    this.board = board;
    this.attribute = board.range_attributes[0];
    const id = unique("space");
    this.plot = new Plot(scope, (context) => this.#draw(context), {
      label: `Subscription space of ${board.name}: a point for each range, from l to r`,
      describedBy: id,
      xTitle: `l, the least ${this.attribute}`,
      yTitle: `r, the largest`,
      aspect: 0.86,
      edge: 26,
    });
    this.about = el("p", { id, class: "soft" }, "Reading the subscriptions.");
    this.density = table(
      "Subscriptions by cell of the plane",
      [`l: ${this.attribute} from`, `r: ${this.attribute} to`, { title: "Subscriptions", class: "number" }],
      [],
    );
    this.latest = table(
      "The latest tiles drawn",
      [{ title: "Seq", class: "number" }, { title: "k", class: "number" }, "Object", "l in", "r in"],
      [],
      { empty: "None yet." },
    );
    this.node = el(
      "div",
      { class: "panel-body" },
      this.plot.node,
      el(
        "ul",
        { class: "legend", "aria-label": "Legend" },
        el(
          "li",
          {},
          el("span", { class: "swatch density", "aria-hidden": "true" }),
          "subscriptions, stronger where more",
        ),
        el("li", {}, el("span", { class: "swatch tile", "aria-hidden": "true" }), "tile of an event"),
        el("li", {}, el("span", { class: "swatch exposed", "aria-hidden": "true" }), "tile of an exposed object"),
        el("li", {}, el("span", { class: "swatch place", "aria-hidden": "true" }), "your range"),
      ),
      this.about,
      el("details", {}, el("summary", {}, "The plane as tables"), this.density, this.latest),
    );
    this.showTables = throttled(1000, () => this.#showTables());
    scope.onLeave(() => this.#live.close());
  }

  /** Read the subscriptions, and follow the tiles of some of them. */
  async read() {
    const { items, more } = await pages(path("boards", this.board.name, "subscriptions"), READ, this.scope.signal);
    this.#total = more ? this.board.subscriptions : items.length;
    this.#points = items
      .filter((one) => one.range)
      .map((one) => {
        const [l, r] = one.range[this.attribute] ?? [null, null];
        return { id: one.id, k: one.k, l: low(l), r: high(r) };
      });
    const ends = this.#points.flatMap(({ l, r }) => [l, r]).filter(Number.isFinite);
    this.#domain = ends.length
      ? [ends.reduce((a, b) => Math.min(a, b)), ends.reduce((a, b) => Math.max(a, b))]
      : [0, 1];
    if (this.#domain[0] === this.#domain[1]) this.#domain = [this.#domain[0] - 1, this.#domain[1] + 1];
    this.#cells = densityOf(this.#points, this.#domain);
    this.plot.show(this.#domain, this.#domain);
    this.#follow();
    this.showTables();
  }

  #follow() {
    const wanted = new Map(spread(this.#points, FOLLOWED, this.#domain).map((one) => [one.id, one]));
    this.#stops = this.#stops.filter(({ id, stop }) => {
      if (wanted.delete(id)) return true;
      stop();
      return false;
    });
    for (const id of wanted.keys()) {
      const stop = this.#live.follow(`boards/${this.board.name}`, id, { form: "tiles" }, (message) =>
        this.#take(message, id),
      );
      this.#stops.push({ id, stop });
    }
  }

  #take(message, id) {
    if (message.event === "gone" || message.event === "error") {
      this.#stops = this.#stops.filter((one) => one.id !== id);
    } else if (message.event === "tiles") {
      for (const tile of message.tiles) this.add(tile, message.seq);
    }
  }

  /** Draw a tile, once, however many subscriptions it came to. */
  add(tile, seq) {
    const name = [seq, tile.k, tile.l_outer, tile.l_inner, tile.r_inner, tile.r_outer, tile.object.id].join(" ");
    if (this.#seen.has(name)) return;
    this.#seen.add(name);
    if (this.#seen.size > 10 * DRAWN) this.#seen = new Set([...this.#seen].slice(-5 * DRAWN));
    this.#tileCount += 1;
    this.#tiles.push({ tile, born: performance.now() });
    if (this.#tiles.length > DRAWN) this.#tiles.shift();
    this.#recent.unshift({ tile, seq });
    this.#recent.length = Math.min(this.#recent.length, LISTED);
    if (!document.hidden) this.plot.ask();
    this.showTables();
  }

  /** Draw these until others are given: what an event would do. Each is `{tile, exposed}`. */
  fix(tiles) {
    this.#fixed = tiles;
    this.plot.ask();
  }

  /** Where the page's own range lies, null: nowhere. */
  set point(range) {
    this.mine = range && { l: low(range[0]), r: high(range[1]) };
    this.plot.ask();
  }

  #showTables() {
    const [from, to] = this.#domain;
    const step = (to - from) / CELLS;
    const words = (i) =>
      i < 0 || i === CELLS ? "unbounded" : `${shown(from + i * step)} to ${shown(from + (i + 1) * step)}`;
    const shownCells = this.#cells.slice(0, 200);
    setRows(
      this.density.querySelector("tbody"),
      [{}, {}, { class: "number" }],
      shownCells.map(({ i, j, n }) => [words(i), words(j), shown(n)]),
    );
    setRows(
      this.latest.querySelector("tbody"),
      [{ class: "number" }, { class: "number" }, {}, {}, {}],
      this.#recent.map(({ tile, seq }) => [
        shown(seq),
        shown(tile.k),
        tile.object.id,
        `(${tile.l_outer === null ? "−∞" : shown(tile.l_outer)}, ${tile.l_inner === null ? "−∞" : shown(tile.l_inner)}]`,
        `[${tile.r_inner === null ? "∞" : shown(tile.r_inner)}, ${tile.r_outer === null ? "∞" : shown(tile.r_outer)})`,
      ]),
      "None yet.",
    );
    const followed = this.#stops.length;
    const all = followed >= this.#points.length && this.#points.length >= this.#total;
    this.about.textContent =
      `${count(this.#points.length, "subscription")}${
        this.#points.length < this.#total ? ` of ${shown(this.#total)}, the first by id,` : ""
      } in ${count(this.#cells.length, "cell")}. ${
        all
          ? "All tiles that reach a subscription are drawn"
          : `Tiles that reach any of ${followed} subscriptions, spread over the plane, are drawn`
      }` + `: ${shown(this.#tileCount)} so far.`;
  }

  #draw(context) {
    const { plot } = this;
    const c = plot.colours;
    const { x0, x1, y0, y1 } = plot.ends;
    // Below the diagonal l is above r: nobody asks for that.
    context.strokeStyle = c.line;
    context.beginPath();
    context.moveTo(plot.x(this.#domain[0]), plot.y(this.#domain[0]));
    context.lineTo(plot.x(this.#domain[1]), plot.y(this.#domain[1]));
    context.stroke();
    const most = Math.log1p(this.#cells[0]?.n ?? 1);
    const [from, to] = this.#domain;
    const at = (i) => from + (i * (to - from)) / CELLS;
    const sides = (i, place, start, end) =>
      i < 0 ? [start, place(from)] : i === CELLS ? [place(to), end] : [place(at(i)), place(at(i + 1))];
    context.fillStyle = c.soft;
    for (const { i, j, n } of this.#cells) {
      const [xa, xb] = sides(i, (value) => plot.x(value), x0, x1);
      const [ya, yb] = sides(j, (value) => plot.y(value), y0, y1);
      context.globalAlpha = 0.16 + 0.5 * (Math.log1p(n) / most);
      context.fillRect(Math.min(xa, xb) + 0.5, Math.min(ya, yb) + 0.5, Math.abs(xb - xa) - 1, Math.abs(yb - ya) - 1);
    }
    const now = performance.now();
    this.#tiles = this.#tiles.filter(({ born }) => now - born < FADE);
    const newest = this.#tiles.at(-1)?.born;
    const share = Math.min(1, 16 / this.#tiles.length); // many tiles at once hide neither each other nor what is below
    for (const { tile, born } of this.#tiles) {
      if (still.matches && born < newest - 300) continue;
      this.#tile(context, tile, c.own, share * (still.matches ? 0.8 : 1 - (now - born) / FADE));
    }
    for (const { tile, exposed } of this.#fixed) this.#tile(context, tile, exposed ? c.exposed : c.own, 1, exposed);
    context.globalAlpha = 1;
    if (this.mine) this.#cross(context);
    if (this.#tiles.length) plot.ask();
  }

  #tile(context, tile, colour, strength, dashed = false) {
    const { plot } = this;
    const { x0, x1, y0, y1 } = plot.ends;
    const [from, to] = this.#domain;
    const xa = tile.l_outer === null ? x0 : plot.x(tile.l_outer);
    const xb = tile.l_inner === null ? plot.x(from) : Math.min(plot.x(tile.l_inner), x1);
    const ya = tile.r_inner === null ? plot.y(to) : plot.y(tile.r_inner);
    const yb = tile.r_outer === null ? y1 : plot.y(tile.r_outer);
    const width = Math.max(2, xb - xa);
    const height = Math.max(2, ya - yb);
    context.globalAlpha = 0.2 * strength;
    context.fillStyle = colour;
    context.fillRect(xa, yb, width, height);
    context.globalAlpha = 0.9 * strength;
    context.strokeStyle = colour;
    context.setLineDash(dashed ? [4, 3] : []);
    context.strokeRect(xa + 0.5, yb + 0.5, width - 1, height - 1);
    context.setLineDash([]);
  }

  #cross(context) {
    const { plot } = this;
    const c = plot.colours;
    const clamp = (value) =>
      Number.isFinite(value) ? Math.min(this.#domain[1], Math.max(this.#domain[0], value)) : value;
    const [x, y] = [plot.x(clamp(this.mine.l)), plot.y(clamp(this.mine.r))];
    for (const [colour, width] of [
      [c.panel, 5],
      [c.mark, 2],
    ]) {
      context.strokeStyle = colour;
      context.lineWidth = width;
      context.beginPath();
      context.moveTo(x - 8, y);
      context.lineTo(x + 8, y);
      context.moveTo(x, y - 8);
      context.lineTo(x, y + 8);
      context.stroke();
    }
    context.beginPath();
    context.arc(x, y, 5, 0, 2 * Math.PI);
    context.stroke();
    context.lineWidth = 1;
  }
}
