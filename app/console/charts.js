// Small live charts: the last minutes of one value, as a line, with the value beside it as text.

import { el, svg } from "./dom.js";

const WIDTH = 160;
const HEIGHT = 36;
const MOST = 60;

export class Spark {
  #values = [];
  #line;
  #area;
  #figure;
  #value;
  #write;

  /** `write` gives a value as text; `unit` follows it. */
  constructor(title, about, write, unit = "") {
    this.#write = write;
    this.#line = svg("polyline", { class: "line", points: "" });
    this.#area = svg("polygon", { class: "area", points: "" });
    this.#figure = svg(
      "svg",
      {
        viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
        role: "img",
        "aria-label": `${title}: no values yet`,
        preserveAspectRatio: "none",
      },
      this.#area,
      this.#line,
    );
    this.#value = el("span", { class: "value" }, "–");
    this.title = title;
    this.node = el(
      "div",
      { class: "spark" },
      el("div", { class: "name" }, title),
      el("div", { class: "now" }, this.#value, unit ? el("span", { class: "unit" }, unit) : null),
      this.#figure,
      el("p", { class: "soft" }, about),
    );
  }

  add(value) {
    this.#values.push(value);
    if (this.#values.length > MOST) this.#values.shift();
    const least = Math.min(0, ...this.#values);
    const most = Math.max(...this.#values, least + 1e-9);
    const step = WIDTH / (MOST - 1);
    const first = WIDTH - step * (this.#values.length - 1);
    const points = this.#values.map(
      (one, i) =>
        `${(first + i * step).toFixed(1)},${(HEIGHT - 2 - ((one - least) / (most - least)) * (HEIGHT - 4)).toFixed(1)}`,
    );
    this.#line.setAttribute("points", points.join(" "));
    this.#area.setAttribute("points", `${first.toFixed(1)},${HEIGHT} ${points.join(" ")} ${WIDTH},${HEIGHT}`);
    this.#value.textContent = this.#write(value);
    this.#figure.setAttribute(
      "aria-label",
      `${this.title}: now ${this.#write(value)}, of the last ` +
        `${this.#values.length} values the least ${this.#write(Math.min(...this.#values))}, the greatest ` +
        this.#write(Math.max(...this.#values)),
    );
  }
}
