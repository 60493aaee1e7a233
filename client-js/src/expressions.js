/**
 * Expressions as scores, `distance * 2 + price ** 0.5`: read and run as the service does, not by JavaScript.
 *
 *     sum      = product {("+" | "-") product}
 *     product  = factor {("*" | "/") factor}
 *     factor   = ("+" | "-") factor | power
 *     power    = atom ["**" factor]
 *     atom     = number | "(" sum ")" | ("min" | "max") "(" sum "," sum {"," sum} ")"
 *              | ("sqrt" | "log" | "exp") "(" sum ")" | "distance" | name of an attribute
 *
 * A number beyond the greatest float64 stays at that. What has no value (a logarithm of what is not positive, a root of what
 * is negative, a division by zero, a negative base under a broken exponent, zero under a negative one) leaves the whole
 * without one.
 */

const MOST = Number.MAX_VALUE;

/** What the exponential function takes to about `MOST`. */
const GREATEST_EXPONENT = 709.782712893384;

const LONGEST = 1000;
const DEEPEST = 50;
const TOKEN = /\s*(?:((?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)|([A-Za-z_][A-Za-z0-9_.]*)|(\*\*|[-+*/(),]))/y;

/** A part of an expression has no value: NaN, which stays NaN through all that follows. */
const UNDEFINED = Number.NaN;

function clamped(x) {
  return x > MOST ? MOST : x < -MOST ? -MOST : x;
}

function power(x, e) {
  if (Number.isNaN(x) || Number.isNaN(e)) return UNDEFINED;
  if ((x < 0 && e !== Math.floor(e)) || (x === 0 && e < 0)) return UNDEFINED;
  if (e === 0 || x === 1) return 1;
  const negative = x < 0 && Math.abs(e % 2) === 1;
  if (x !== 0 && e * Math.log(Math.abs(x)) > GREATEST_EXPONENT) return negative ? -MOST : MOST;
  return x ** e;
}

const UNARY = {
  sqrt: (x) => (x < 0 ? UNDEFINED : Math.sqrt(x)),
  log: (x) => (x <= 0 ? UNDEFINED : Math.log(x)),
  exp: (x) => (x > GREATEST_EXPONENT ? MOST : Math.exp(x)),
};

const BINARY = {
  "+": (x, y) => clamped(x + y),
  "-": (x, y) => clamped(x - y),
  "*": (x, y) => clamped(x * y),
  "/": (x, y) => (y === 0 ? UNDEFINED : clamped(x / y)),
  "**": power,
  min: Math.min,
  max: Math.max,
};

/** An expression that was read. Throws SyntaxError for what is none, or names what is no attribute. */
export class Expression {
  constructor(text, attributes) {
    this.#steps = new Reader(text, attributes).steps;
  }

  #steps;

  /** Its value at a distance; null where it has none. O(length). */
  at(distance, values) {
    const stack = [];
    for (const step of this.#steps) {
      if (typeof step === "string") stack.push(clamped(step === "distance" ? distance : values[step]));
      else if (typeof step === "number") stack.push(step);
      else if (step.length === 1) stack.push(step(stack.pop()));
      else {
        const y = stack.pop();
        stack.push(step(stack.pop(), y));
      }
    }
    return Number.isFinite(stack[0]) ? stack[0] : null;
  }
}

/** Recursive descent. `steps` are in the order in which they are run. */
class Reader {
  constructor(text, attributes) {
    if (text.length > LONGEST) throw new SyntaxError(`it has ${text.length} characters, more than ${LONGEST}`);
    this.steps = [];
    this.#names = new Set(["distance", ...attributes]);
    this.#tokens = split(text);
    this.#sum();
    if (this.#next) throw new SyntaxError(`an operator is missing before '${this.#next}'`);
  }

  #names;
  #tokens;
  #at = 0;
  #depth = 0;

  get #next() {
    return this.#tokens[this.#at];
  }

  #take(token) {
    if (this.#next !== token) {
      throw new SyntaxError(`'${token}' is missing ${this.#next ? `before '${this.#next}'` : "at the end"}`);
    }
    this.#at += 1;
  }

  #sum() {
    this.#left(["+", "-"], () => this.#product());
  }

  #product() {
    this.#left(["*", "/"], () => this.#factor());
  }

  #left(operators, part) {
    part();
    while (operators.includes(this.#next)) {
      const operator = this.#next;
      this.#at += 1;
      part();
      this.steps.push(BINARY[operator]);
    }
  }

  #factor() {
    this.#depth += 1;
    if (this.#depth > DEEPEST) throw new SyntaxError(`it is deeper than ${DEEPEST}`);
    const sign = this.#next;
    if (sign === "+" || sign === "-") {
      this.#at += 1;
      this.#factor();
      if (sign === "-") this.steps.push((x) => -x);
    } else {
      this.#atom();
      if (this.#next === "**") {
        this.#at += 1;
        this.#factor();
        this.steps.push(power);
      }
    }
    this.#depth -= 1;
  }

  #atom() {
    const token = this.#next;
    if (token) this.#at += 1;
    if (/^[\d.]/.test(token)) {
      const number = Number(token);
      if (number > MOST) throw new SyntaxError(`${token} is too large`);
      this.steps.push(number);
    } else if (token === "(") {
      this.#sum();
      this.#take(")");
    } else if ((Object.hasOwn(UNARY, token) || token === "min" || token === "max") && this.#next === "(") {
      this.#call(token);
    } else if (this.#names.has(token) && this.#next !== "(") {
      this.steps.push(token);
    } else {
      throw new SyntaxError(token ? `'${token}' is no number, attribute or function` : "a number or a name is missing");
    }
  }

  #call(name) {
    this.#take("(");
    this.#sum();
    if (Object.hasOwn(UNARY, name)) {
      this.steps.push(UNARY[name]);
    } else {
      this.#take(",");
      for (;;) {
        this.#sum();
        const combine = BINARY[name];
        this.steps.push((x, y) => combine(x, y));
        if (this.#next !== ",") break;
        this.#at += 1;
      }
    }
    this.#take(")");
  }
}

function split(text) {
  const tokens = [];
  const end = text.trimEnd().length;
  TOKEN.lastIndex = 0;
  while (TOKEN.lastIndex < end) {
    const at = TOKEN.lastIndex;
    const found = TOKEN.exec(text);
    if (found === null) throw new SyntaxError(`'${text.slice(at).trimStart()[0]}' is no number, name or operator`);
    tokens.push(found[1] ?? found[2] ?? found[3]);
  }
  return [...tokens, ""];
}
