// Forms: fields with labels, what is in them, and why something was refused.

import { Refusal } from "./api.js";
import { el, unique } from "./dom.js";

/** A field with its label. `input` may be a string (the type) or an element. */
export function field(label, input, { hint = null, className = "", ...attributes } = {}) {
  const id = unique("field");
  const node = typeof input === "string" ? el("input", { type: input, ...attributes }) : input;
  node.id = id;
  if (hint) node.setAttribute("aria-describedby", `${id}-hint`);
  const box = el(
    "div",
    { class: `field ${className}` },
    el("label", { for: id }, label),
    node,
    hint ? el("small", { id: `${id}-hint` }, hint) : null,
  );
  return { box, node };
}

/** A field for a number, which may be empty. */
export function numberField(label, value = null, options = {}) {
  return field(label, "text", { inputmode: "decimal", autocomplete: "off", size: 8, value, ...options });
}

/** A choice. `options` are values, or pairs of value and text. */
export function choice(label, options, value = undefined, more = {}) {
  const node = el(
    "select",
    {},
    ...options.map((option) => {
      const [of, text] = Array.isArray(option) ? option : [option, option];
      return el("option", { value: of, selected: String(of) === String(value) }, String(text));
    }),
  );
  return field(label, node, more);
}

export function checkbox(label, checked = false) {
  const id = unique("field");
  const node = el("input", { type: "checkbox", id, checked });
  return { box: el("div", { class: "field check" }, node, el("label", { for: id }, label)), node };
}

/** A number in a field, null where it is empty. Raises an `Error` that names the field. */
export function numberIn({ node, box }) {
  const text = node.value.trim().replace("−", "-");
  if (text === "") return null;
  const value = Number(text);
  if (Number.isFinite(value)) return value;
  node.focus();
  throw new Error(`${box.querySelector("label").textContent}: “${text}” is not a number.`);
}

/** JSON in a field, undefined where it is empty. Raises an `Error` that names the field. */
export function jsonIn({ node, box }) {
  const text = node.value.trim();
  if (text === "") return undefined;
  try {
    return JSON.parse(text);
  } catch {
    node.focus();
    throw new Error(`${box.querySelector("label").textContent}: this is not JSON.`);
  }
}

export function button(text, onclick, { kind = "", type = "button", ...more } = {}) {
  return el("button", { type, class: kind, onclick, ...more }, text);
}

/** Where a form says what came of it: politely, or with the reasons why not. */
export class Outcome {
  constructor() {
    this.node = el("div", { class: "outcome", role: "status" });
  }

  clear() {
    this.node.replaceChildren();
  }

  say(...content) {
    this.node.replaceChildren(el("div", { class: "good" }, ...content));
  }

  refuse(error) {
    const fields = error instanceof Refusal ? error.fields : [];
    this.node.replaceChildren(
      el(
        "div",
        { class: "bad", role: "alert" },
        el("p", {}, error.message),
        fields.length > 1 || (fields.length === 1 && !error.message.includes(fields[0].reason))
          ? el("ul", {}, ...fields.slice(0, 10).map((one) => el("li", {}, el("code", {}, one.field), ` ${one.reason}`)))
          : null,
      ),
    );
  }

  /** Do it, and show why not where it fails. */
  async of(work) {
    try {
      return await work();
    } catch (error) {
      this.refuse(error);
      return undefined;
    }
  }
}

/** A form that does something when it is sent; buttons are disabled meanwhile. */
export function form(label, children, onsubmit) {
  const node = el("form", { "aria-label": label, novalidate: true }, ...children);
  node.addEventListener("submit", async (event) => {
    event.preventDefault();
    if (node.dataset.busy) return;
    node.dataset.busy = "1";
    try {
      await onsubmit(event.submitter);
    } finally {
      delete node.dataset.busy;
    }
  });
  return node;
}
