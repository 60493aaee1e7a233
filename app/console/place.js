// A place on a canvas that is chosen by dragging, by arrow keys, or by two fields.

import { numberField, numberIn } from "./form.js";

const STEP = 0.01; // of the width, for an arrow key

export class Place {
  #at;

  /** `onMove([x, y])` is called whenever the place changes; `bounds` are `[x0, y0, x1, y1]`. */
  constructor(scope, plot, bounds, at, onMove) {
    this.#at = at;
    this.bounds = bounds;
    this.plot = plot;
    this.onMove = onMove;
    this.x = numberField("Place x", round(at[0]), { size: 7 });
    this.y = numberField("y", round(at[1]), { size: 7 });
    this.fields = [this.x.box, this.y.box];
    for (const one of [this.x, this.y]) scope.listen(one.node, "change", () => this.#typed());
    const { canvas, node } = plot;
    node.classList.add("moving");
    canvas.tabIndex = 0;
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-roledescription", "map");
    let dragging = false;
    const follow = (event) => {
      const box = canvas.getBoundingClientRect();
      this.move(plot.valuesAt(event.clientX - box.left, event.clientY - box.top));
    };
    scope.listen(canvas, "pointerdown", (event) => {
      dragging = true;
      canvas.setPointerCapture(event.pointerId);
      follow(event);
    });
    scope.listen(canvas, "pointermove", (event) => {
      if (dragging) follow(event);
    });
    scope.listen(canvas, "pointerup", () => {
      dragging = false;
    });
    scope.listen(canvas, "pointercancel", () => {
      dragging = false;
    });
    scope.listen(canvas, "keydown", (event) => {
      const by = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowDown: [0, -1], ArrowUp: [0, 1] }[event.key];
      if (!by) return;
      event.preventDefault();
      const [x0, y0, x1, y1] = this.bounds;
      const far = event.shiftKey ? 5 * STEP : STEP;
      this.move([this.#at[0] + by[0] * far * (x1 - x0), this.#at[1] + by[1] * far * (y1 - y0)]);
    });
  }

  get at() {
    return this.#at;
  }

  move([x, y]) {
    const [x0, y0, x1, y1] = this.bounds;
    this.#at = [round(Math.min(x1, Math.max(x0, x))), round(Math.min(y1, Math.max(y0, y)))];
    [this.x.node.value, this.y.node.value] = this.#at.map(String);
    this.plot.ask();
    this.onMove(this.#at);
  }

  #typed() {
    try {
      const [x, y] = [numberIn(this.x), numberIn(this.y)];
      if (x !== null && y !== null) this.move([x, y]);
    } catch {
      [this.x.node.value, this.y.node.value] = this.#at.map(String);
    }
  }
}

const round = (value) => Number(value.toPrecision(6));
