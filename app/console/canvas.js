// A canvas with two axes, in the colours of the page, sharp on any screen.

import { el, short } from "./dom.js";

const COLOURS = [
  "paper",
  "panel",
  "ink",
  "soft",
  "line",
  "grid",
  "accent",
  "accent-soft",
  "mark",
  "own",
  "exposed",
  "bad",
];

const [LEFT, RIGHT, TOP, BOTTOM] = [52, 18, 10, 36];

/** Round numbers between two ends, at most about so many. */
export function ticks(low, high, most = 6) {
  const rough = (high - low) / most;
  if (!(rough > 0)) return [low];
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 5, 10].map((factor) => factor * power).find((one) => one >= rough);
  const found = [];
  for (let at = Math.ceil(low / step - 1e-9) * step; at <= high + step * 1e-9; at += step)
    found.push(Number(at.toPrecision(12)) + 0);
  return found;
}

export class Plot {
  #ratio = 1;
  #asked = false;

  /** `draw(context, plot)` draws what is between the axes; `aspect` is height to width; `same` keeps both scales alike. */
  constructor(
    scope,
    draw,
    { label, describedBy = null, xTitle = "", yTitle = "", aspect = 0.75, same = false, edge = 0 },
  ) {
    this.draw = draw;
    this.aspect = aspect;
    this.same = same;
    this.edge = edge;
    this.xTitle = xTitle;
    this.yTitle = yTitle;
    this.canvas = el("canvas", { role: "img", "aria-label": label, "aria-describedby": describedBy });
    this.node = el("div", { class: "plot" }, this.canvas);
    this.domain = { x: [0, 1], y: [0, 1] };
    const sizes = new ResizeObserver(() => this.#resize());
    sizes.observe(this.node);
    scope.onLeave(() => sizes.disconnect());
    const dark = matchMedia("(prefers-color-scheme: dark)");
    scope.listen(dark, "change", () => {
      this.#colours();
      this.ask();
    });
    this.#colours();
  }

  #colours() {
    const style = getComputedStyle(document.documentElement);
    this.colours = Object.fromEntries(COLOURS.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
  }

  #resize() {
    const width = Math.floor(this.node.clientWidth);
    if (!width) return;
    this.width = width;
    const { x, y } = this.domain;
    // With one scale for both, the canvas is as high as what it shows; not much higher than wide.
    const ratio = (y[1] - y[0]) / (x[1] - x[0]);
    this.height = Math.round(
      this.same ? Math.min(1.1 * width, (width - LEFT - RIGHT) * ratio + TOP + BOTTOM) : width * this.aspect,
    );
    this.#ratio = devicePixelRatio || 1;
    this.canvas.width = Math.round(this.width * this.#ratio);
    this.canvas.height = Math.round(this.height * this.#ratio);
    this.canvas.style.width = `${this.width}px`;
    this.canvas.style.height = `${this.height}px`;
    this.ask();
  }

  /** Set what the axes show. */
  show(x, y) {
    const wide = ([low, high]) => (low < high ? [low, high] : [low - 1, high + 1]);
    this.domain = { x: wide(x), y: wide(y) };
    this.#resize();
  }

  /** Draw at the next frame. */
  ask() {
    if (this.#asked || !this.width) return;
    this.#asked = true;
    requestAnimationFrame(() => {
      this.#asked = false;
      this.#paint();
    });
  }

  get #box() {
    let [x0, x1, y0, y1] = [LEFT, this.width - RIGHT, this.height - BOTTOM, TOP];
    if (this.same) {
      const { x, y } = this.domain;
      const scale = Math.min((x1 - x0) / (x[1] - x[0]), (y0 - y1) / (y[1] - y[0]));
      x1 = x0 + scale * (x[1] - x[0]);
      y1 = y0 - scale * (y[1] - y[0]);
    }
    return { x0, x1, y0, y1 };
  }

  /** Where a value lies on the canvas; an unbounded one in the strip at the edge. */
  x(value) {
    const { x0, x1 } = this.#box;
    const [low, high] = this.domain.x;
    return this.#along(value, low, high, x0, x1);
  }

  y(value) {
    const { y0, y1 } = this.#box;
    const [low, high] = this.domain.y;
    return this.#along(value, low, high, y0, y1);
  }

  #along(value, low, high, from, to) {
    const edge = Math.sign(to - from) * this.edge;
    if (value === -Infinity) return from + edge / 2;
    if (value === Infinity) return to - edge / 2;
    return from + edge + ((value - low) / (high - low)) * (to - from - 2 * edge);
  }

  /** The ends of the canvas between the axes. */
  get ends() {
    return this.#box;
  }

  /** The values at a point of the canvas. */
  valuesAt(px, py) {
    const { x0, x1, y0, y1 } = this.#box;
    const { x, y } = this.domain;
    return [x[0] + ((px - x0) / (x1 - x0)) * (x[1] - x[0]), y[0] + ((py - y0) / (y1 - y0)) * (y[1] - y[0])];
  }

  #paint() {
    const context = this.canvas.getContext("2d");
    const { x0, x1, y0, y1 } = this.#box;
    const c = this.colours;
    context.setTransform(this.#ratio, 0, 0, this.#ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    context.font = "11px system-ui, sans-serif";
    context.lineWidth = 1;
    context.fillStyle = c.panel;
    context.fillRect(x0, y1, x1 - x0, y0 - y1);
    context.strokeStyle = c.grid;
    const marks = {
      x: ticks(...this.domain.x, Math.max(2, Math.floor((x1 - x0) / 72))),
      y: ticks(...this.domain.y, Math.max(2, Math.floor((y0 - y1) / 48))),
    };
    context.beginPath();
    for (const at of marks.x) line(context, this.x(at), y0, this.x(at), y1);
    for (const at of marks.y) line(context, x0, this.y(at), x1, this.y(at));
    context.stroke();
    context.save();
    context.beginPath();
    context.rect(x0, y1, x1 - x0, y0 - y1);
    context.clip();
    this.draw(context, this);
    context.restore();
    context.strokeStyle = c.line;
    context.strokeRect(x0 + 0.5, y1 + 0.5, x1 - x0 - 1, y0 - y1 - 1);
    context.fillStyle = c.soft;
    context.textBaseline = "top";
    context.textAlign = "center";
    // Numbers leave room for the signs of unbounded ends.
    const room = this.edge ? 24 : 0;
    for (const at of marks.x) {
      if (this.x(at) - this.x(-Infinity) >= room && this.x(Infinity) - this.x(at) >= room)
        context.fillText(short(at), this.x(at), y0 + 5);
    }
    if (this.xTitle) context.fillText(this.xTitle, (x0 + x1) / 2, y0 + 20);
    if (this.edge) {
      context.fillText("−∞", this.x(-Infinity), y0 + 5);
      context.fillText("∞", this.x(Infinity), y0 + 5);
    }
    context.textBaseline = "middle";
    context.textAlign = "right";
    for (const at of marks.y) {
      if (this.y(-Infinity) - this.y(at) >= room / 2 && this.y(at) - this.y(Infinity) >= room / 2)
        context.fillText(short(at), x0 - 6, this.y(at));
    }
    if (this.edge) {
      context.fillText("∞", x0 - 6, this.y(Infinity));
      context.fillText("−∞", x0 - 6, this.y(-Infinity));
    }
    if (this.yTitle) {
      context.save();
      context.translate(9, (y0 + y1) / 2);
      context.rotate(-Math.PI / 2);
      context.textAlign = "center";
      context.fillText(this.yTitle, 0, 0);
      context.restore();
    }
  }
}

function line(context, xa, ya, xb, yb) {
  context.moveTo(Math.round(xa) + 0.5, Math.round(ya) + 0.5);
  context.lineTo(Math.round(xb) + 0.5, Math.round(yb) + 0.5);
}

/** Writes labels beside places, each where none was written before: `[{x, y, text}]`, the most important first. */
export function labels(context, wanted, colour) {
  const taken = [];
  context.font = "600 11px system-ui, sans-serif";
  context.textAlign = "left";
  context.textBaseline = "middle";
  context.fillStyle = colour;
  for (const { x, y, text } of wanted) {
    const width = context.measureText(text).width;
    const free = [
      [8, -7],
      [8, 8],
      [-8 - width, -7],
      [-8 - width, 8],
    ]
      .map(([by, down]) => [x + by, y + down])
      .find(
        ([left, middle]) =>
          !taken.some((one) => left < one.right && left + width > one.left && Math.abs(middle - one.middle) < 12),
      );
    if (!free) continue;
    context.fillText(text, ...free);
    taken.push({ left: free[0], right: free[0] + width, middle: free[1] });
  }
  context.font = "11px system-ui, sans-serif";
}

/** A filled dot with a ring in the colour of the ground, so that it is seen on anything. */
export function dot(context, x, y, radius, fill, ring) {
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
  context.fillStyle = fill;
  context.fill();
  if (ring) {
    context.strokeStyle = ring;
    context.lineWidth = 1.5;
    context.stroke();
    context.lineWidth = 1;
  }
}
