/** How requests are sent: with retries, a write at most once. */

import { ProblemError, RankcastError, Unreachable, reason } from "./errors.js";
import { Nodes } from "./nodes.js";
import { BUSY, Deadline, REQUESTS, pause, sleep } from "./retry.js";

const NAME = /^[A-Za-z0-9._:-]{1,128}$/;
const ARROW = "application/vnd.apache.arrow.stream";

/** Up to so many elements go as one JSON list; more go as NDJSON, for which the service allows larger bodies. */
const JSON_ELEMENTS = 1000;

/** Elements of one page of a listing. */
const PAGE = 1000;

/** How the paths begin that are asked of the leader, reads too: jobs are known where they run. */
const ADMIN = "/v1/admin/";

/** Seconds that a node has to say what it is. */
const ASK_SECONDS = 1;

/** A name or an id in a path. Throws TypeError for what cannot be one, before it becomes another path. */
export function segment(name) {
  if (typeof name !== "string" || !NAME.test(name) || name === "." || name === "..") {
    throw new TypeError(`${JSON.stringify(name)} is no name: 1-128 of A-Z a-z 0-9 . _ : -, and not . or ..`);
  }
  return encodeURIComponent(name);
}

/** The fields that are not undefined. */
export function given(fields) {
  return Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
}

/** A new Idempotency-Key. (`crypto.randomUUID` is missing on pages without TLS.) */
export function newKey() {
  const bytes = globalThis.crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** An end of a range for the wire: infinite is null. Throws TypeError for NaN, which JSON would turn into an open end. */
function end(value) {
  if (Number.isNaN(value)) throw new TypeError("an end of a range is a number, or null where it is unbounded, not NaN");
  return value === undefined || value === Infinity || value === -Infinity ? null : value;
}

/** Ranges by attribute for the wire; null stays null. */
export function wireRanges(ranges) {
  return Object.fromEntries(
    Object.entries(ranges).map(([name, pair]) => [name, Array.isArray(pair) ? pair.map(end) : pair]),
  );
}

/** An object with the ranges in one of its fields as the wire has them. */
export function withRanges(field) {
  return (element) => (element[field] ? { ...element, [field]: wireRanges(element[field]) } : element);
}

/**
 * The body of a request for many elements: Arrow where they are the bytes of an IPC stream, JSON for some, NDJSON for many.
 *
 * A single element stands for a list of one. `rest` are the other fields; they become query parameters beside elements
 * that are no JSON list.
 */
export function bulk(field, elements, rest, wire = (element) => element) {
  const query = Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, String(value)]));
  if (elements instanceof ArrayBuffer || ArrayBuffer.isView(elements)) {
    return { body: elements, contentType: ARROW, query };
  }
  const many = Array.from(Array.isArray(elements) || elements?.[Symbol.iterator] ? elements : [elements], wire);
  if (many.length <= JSON_ELEMENTS) return { body: { ...rest, [field]: many } };
  return { body: lines(many), contentType: "application/x-ndjson", query };
}

/** Elements as lines of JSON. */
export function lines(elements) {
  return elements.map((element) => JSON.stringify(element)).join("\n");
}

/** The connection to the nodes of one service: where they are, who asks, and how patiently. */
export class Connection {
  constructor(url, options) {
    const { key, ticket, retry, timeout = 60, heartbeat = 15, buffer = 256, maxMessage = 1 << 26 } = options;
    this.nodes = new Nodes(url);
    this.retry = { ...REQUESTS, ...retry };
    this.timeout = timeout;
    this.heartbeat = heartbeat;
    this.buffer = buffer;
    this.maxMessage = maxMessage;
    this.fetch = options.fetch ?? ((...given) => globalThis.fetch(...given));
    this.WebSocket = options.WebSocket;
    this.#key = key;
    this.#ticket = ticket;
  }

  #key;
  #ticket;
  #sending = new Set();
  #closed = null;

  /** Throws where the client has been closed. */
  throwIfClosed() {
    if (this.#closed !== null) throw this.#closed;
  }

  /** End what is being sent, and send nothing more. */
  close() {
    this.#closed ??= new RankcastError("this client has been closed");
    for (const deadline of this.#sending) deadline.abort(this.#closed);
  }

  /** Whether streams are opened by tickets. */
  get hasTickets() {
    return this.#ticket !== undefined;
  }

  /** Whether credentials can be renewed when they expire. */
  get renews() {
    return this.hasTickets || typeof this.#key === "function";
  }

  /** The API key or token, undefined without one. One that is a function is called for each request. */
  async key() {
    return typeof this.#key === "function" ? await this.#key() : this.#key;
  }

  /** A ticket for the next stream of these subscriptions, undefined where they are opened by key. */
  async ticket(wanted) {
    return typeof this.#ticket === "function" ? await this.#ticket(wanted) : this.#ticket;
  }

  /** The node that is tried next, after those that were `tried`; with `leads`, first find out which leads. */
  async choose(tried, leads = false) {
    if (leads && this.nodes.wantsLeader) {
      const asked = this.nodes.asking();
      this.nodes.learn(await Promise.all(asked.map(async (node) => [node, await this.#about(node)])));
    }
    return this.nodes.turn(tried);
  }

  /** Whether a node of several says that it is a replica, which may not have yet what others have. */
  async follows(node) {
    return this.nodes.several && (await this.#about(node))?.role === "replica";
  }

  /** What a node says of itself; null where it does not. */
  async #about(node) {
    let text;
    try {
      const response = await this.once("GET", "/readyz", { node, signal: AbortSignal.timeout(ASK_SECONDS * 1000) });
      text = await response.text();
    } catch {
      this.nodes.failed(node);
      return null;
    }
    try {
      return JSON.parse(text);
    } catch {
      return null;
    }
  }

  /** Send one request to a node without retries, by key or by ticket. Resolves to the response, whatever its status. */
  async once(method, path, { query, body, contentType, headers = {}, signal, ticket, node = this.nodes.urls[0] } = {}) {
    const asked = new URLSearchParams(ticket ? { ...query, ticket } : query).toString();
    const key = ticket ? undefined : await this.key();
    return await this.fetch(node + path + (asked ? `${path.includes("?") ? "&" : "?"}${asked}` : ""), {
      method,
      body,
      signal,
      headers: {
        ...(contentType ? { "Content-Type": contentType } : {}),
        ...headers,
        ...(key ? { Authorization: `Bearer ${key}` } : {}),
      },
      cache: "no-store",
      credentials: "omit",
    });
  }

  /**
   * Send one request, again where that is needed, and resolve to the JSON of its response.
   *
   * A body that is no string and no bytes is sent as JSON. Rejects with `ProblemError` when refused and `Unreachable` when
   * every attempt failed. A write carries the same Idempotency-Key in every attempt, so that it is applied at most once
   * even where a response was lost, and goes to the node that is known to lead; what `asks` changes nothing, whatever its
   * method, and has none. With `node`, no other is asked.
   */
  async send(method, path, options = {}) {
    const { asks = false, read = JSON.parse } = options;
    this.nodes.checkPath(path);
    const headers = { ...options.headers };
    let key = null;
    if (method !== "GET" && !asks) {
      key = options.idempotencyKey ?? headers["Idempotency-Key"] ?? newKey();
      headers["Idempotency-Key"] = key;
    }
    const request = { ...options, headers, ...encoded(options) };
    this.throwIfClosed();
    const whole = new Deadline(options.signal);
    this.#sending.add(whole);
    try {
      return await this.#attempts(method, path, request, read, whole.signal, key);
    } finally {
      this.#sending.delete(whole);
      whole.release();
    }
  }

  async #attempts(method, path, request, read, signal, key) {
    const tried = new Set();
    let again = false;
    for (let failures = 1; ; ) {
      const node = request.node ?? (await this.choose(tried, key !== null || path.startsWith(ADMIN)));
      let problem = null;
      let lost = null;
      const deadline = new Deadline(signal, this.timeout, `no response within ${this.timeout} s`);
      try {
        signal.throwIfAborted();
        const response = await this.once(method, path, { ...request, node, signal: deadline.signal });
        const text = await response.text();
        this.nodes.worked(node);
        if (response.ok) return text ? read(text) : {};
        problem = ProblemError.of(response.status, text, response.headers.get("retry-after"));
      } catch (error) {
        if (signal.aborted) throw signal.reason;
        if (error instanceof RankcastError || error instanceof SyntaxError) throw error;
        lost = error;
        this.nodes.failed(node);
      } finally {
        deadline.release();
      }
      // A 409 may be an earlier attempt in progress, whose answer was lost.
      const inProgress = problem?.slug === "in-progress" && again;
      if (problem && !BUSY.has(problem.status) && !inProgress) throw problem;
      if (problem) this.nodes.doubt(node);
      again = true;
      tried.add(node);
      // A write that was refused for now is the leader's, whichever node is asked: that takes time, not a node.
      if (request.node === undefined && !(problem && key !== null) && this.nodes.left(tried)) continue;
      if (failures >= this.retry.attempts) {
        throw problem ?? new Unreachable(`${this.nodes} does not answer: ${reason(lost)}`, key, lost);
      }
      await sleep(pause(this.retry, failures, problem?.retryAfter), signal);
      failures += 1;
    }
  }

  /** All elements of a listing, fetched page by page. */
  async *listing(path, options = {}) {
    let cursor = null;
    do {
      const query = { limit: String(PAGE), ...(cursor === null ? {} : { cursor }) };
      const page = await this.send("GET", path, { ...options, query });
      yield* page.items;
      cursor = page.next;
    } while (cursor !== null);
  }
}

/** The body as it is sent, and its type. */
function encoded({ body, contentType }) {
  if (body === undefined || typeof body === "string" || body instanceof ArrayBuffer || ArrayBuffer.isView(body)) {
    return { body, contentType };
  }
  return { body: JSON.stringify(body), contentType: "application/json" };
}
