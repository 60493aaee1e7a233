/**
 * One WebSocket for many watchers and requests of a client.
 *
 * When the connection is lost it is made again, each subscription is resumed at its own position, and requests without a
 * response are sent again in their order, writes under the Idempotency-Key that they had.
 */

import { ProblemError, RankcastError, Unreachable, reason } from "./errors.js";
import { newKey } from "./http.js";
import { BUSY, RECONNECT, pause, sleep } from "./retry.js";

/** Requests under way at once; the service takes no more, so that others wait here. */
const MOST_SENT = 256;

/** Requests that wait here at once. */
const MOST_WAITING = 10_000;

/** Silent heartbeats after which a connection counts as lost. */
const SILENT = 3;

/** Statuses of a refused handshake after which there is no use in asking again. */
const FINAL = new Set([400, 401, 403, 404, 426]);

/**
 * Half a surrogate pair, as JSON has it: the only character that is escaped so. It is no text in UTF-8, and the service cannot
 * tell to which request a frame belongs that it cannot read.
 */
const HALF = /(?<!\\)(?:\\\\)*\\ud[89a-f][0-9a-f]{2}/;

/** Watchers of subscriptions, and requests, on one WebSocket. It connects when it is needed. */
export class Socket {
  /** `kept` stays connected when nothing is followed any more. */
  constructor(connection, watch, kept) {
    this.reconnects = 0;
    this.connected = false;
    this.#connection = connection;
    this.#watch = watch;
    this.#kept = kept;
  }

  #connection;
  #watch;
  #kept;
  #closing = new AbortController();
  #following = new Map();
  #leaving = new Map();
  #requests = new Map();
  #ref = 0;
  #sent = 0;
  #socket = null;
  #running = false;
  #ever = false;
  #resumed = false;
  #silent = 0;
  #delivered = false;
  #lose = null;
  #wake = null;
  #admitted = null;
  #node = null;
  #tried = new Set();

  get closed() {
    return this.#closing.signal.aborted;
  }

  /** Whether nothing is followed or asked here. */
  get idle() {
    return this.#following.size === 0 && this.#requests.size === 0;
  }

  /** Follow a subscription of a resource such as `boards/delays`. */
  watch(resource, id, options = {}) {
    return this.#watch(resource, id, options, this);
  }

  /** Whether a watcher can be carried: its subscription is not followed here yet, and the ticket opens it. */
  accepts(watcher) {
    if (this.closed || this.#following.has(keyOf(watcher))) return false;
    if (!this.#connection.hasTickets || this.#following.size === 0) return true;
    return this.#resource() === watcher.resource && (this.#admitted === null || this.#admitted.has(watcher.id));
  }

  /** Keep the connection until `close`. */
  keep() {
    this.#kept = true;
    return this;
  }

  /**
   * Send a request of `/v1` but streams, with the rights of the socket. Resolves to the body of its response, which has the
   * response's `status` and `body` as properties that are not enumerable; rejects with `ProblemError` when it is refused, and
   * with `TypeError` where a string has half a surrogate pair.
   *
   * Requests that write to one resource are applied in the order of the calls. `options.signal` gives up the wait.
   */
  request(method, path, body = undefined, headers = {}, { signal } = {}) {
    if (this.closed) return Promise.reject(new Unreachable("this socket has been closed"));
    try {
      this.#connection.nodes.checkPath(path);
    } catch (error) {
      return Promise.reject(error);
    }
    if (this.#requests.size >= MOST_WAITING) {
      return Promise.reject(new RankcastError(`${MOST_WAITING} requests wait for a response`));
    }
    const named = { ...headers };
    const isWrite = method !== "GET";
    if (isWrite && !Object.keys(named).some((name) => name.toLowerCase() === "idempotency-key")) {
      named["Idempotency-Key"] = newKey();
    }
    const ref = ++this.#ref;
    const message = { op: "request", ref, method, path, ...(isWrite ? { headers: named } : { headers }) };
    if (body !== undefined && body !== null) message.body = body;
    return new Promise((resolve, reject) => {
      const text = JSON.stringify(message);
      if (text.includes("\\ud") && HALF.test(text)) throw new TypeError("a string has half a surrogate pair");
      const abort = () => {
        this.#requests.delete(ref);
        reject(signal.reason);
        if (this.idle && !this.#kept) this.#drop();
      };
      const settle = (run) => (value) => {
        this.#requests.delete(ref);
        signal?.removeEventListener("abort", abort);
        run(value);
      };
      signal?.addEventListener("abort", abort, { once: true });
      if (signal?.aborted) {
        abort();
        return;
      }
      const request = { text, writes: isWrite, sent: false, again: false, pausing: false, failures: 0, resolve: settle(resolve), reject: settle(reject) };
      this.#requests.set(ref, request);
      this.#sendRequests();
      this.#start();
    });
  }

  /** Close the connection and end all watchers on it. Subscriptions stay registered. */
  close() {
    this.#closing.abort(new Error("closed"));
    for (const watcher of [...this.#following.values()]) watcher.close();
    for (const request of [...this.#requests.values()]) request.reject(new Unreachable("this socket has been closed"));
    this.#drop();
  }

  // What a watcher calls.

  /** Carry a watcher. */
  follow(watcher) {
    const key = keyOf(watcher);
    this.#following.set(key, watcher);
    watcher.attach({
      close: () => this.#unfollow(key, watcher),
      restart: () => {
        if (this.#leave(key, watcher)) this.#subscribe(watcher);
      },
    });
    if (watcher.closed) return;
    if (this.#socket !== null) this.#subscribe(watcher);
    this.#start();
  }

  #unfollow(key, watcher) {
    if (this.#following.get(key) !== watcher) return;
    this.#following.delete(key);
    if (!watcher.gone) this.#leave(key, watcher);
    if (this.idle && !this.#kept) this.#drop();
  }

  #leave(key, watcher) {
    if (this.#socket === null) return false;
    this.#leaving.set(key, (this.#leaving.get(key) ?? 0) + 1);
    this.#send({ op: "unsubscribe", resource: watcher.resource, id: watcher.id });
    return true;
  }

  #subscribe(watcher) {
    const { resource, id, options, cursor } = watcher;
    this.#send({ op: "subscribe", resource, id, ...options, ...(cursor === null ? {} : { after: cursor }) });
  }

  #send(message) {
    this.#socket.send(JSON.stringify(message));
  }

  #sendRequests() {
    if (this.#socket === null) return;
    for (const request of this.#requests.values()) {
      if (this.#sent >= MOST_SENT) return;
      if (request.sent || request.pausing) continue;
      request.sent = true;
      this.#sent += 1;
      this.#socket.send(request.text);
    }
  }

  // The connection.

  #start() {
    if (this.#running || this.closed) return;
    this.#running = true;
    this.#run();
  }

  /** One connection after the other, as long as one is needed. */
  async #run() {
    const connection = this.#connection;
    let failures = 0;
    while (!this.closed && (this.#kept || !this.idle)) {
      let problem = null;
      let why = "the connection was lost";
      this.#delivered = false;
      const writes = [...this.#requests.values()].some((request) => request.writes);
      const node = (this.#node = await connection.choose(this.#tried, writes));
      try {
        await this.#live(node);
      } catch (error) {
        if (error instanceof ProblemError) problem = error;
        else if (!(error instanceof Behind) && !this.closed) connection.nodes.failed(node);
        why = reason(error);
      }
      this.#down();
      if (this.#delivered) this.#tried.clear();
      this.#tried.add(node);
      if (this.closed || (!this.#kept && this.idle)) break;
      const elsewhere = connection.nodes.left(this.#tried);
      if (problem !== null && FINAL.has(problem.status) && !(problem.status === 401 && connection.hasTickets && elsewhere)) {
        this.#failAll(problem);
        break;
      }
      if (this.#delivered) failures = 0;
      // A node that gave something and broke is not left in a hurry: the next one may do the same.
      if (elsewhere && !this.#delivered) {
        this.#lost();
        continue;
      }
      failures += 1;
      if (!this.#ever && failures >= connection.retry.attempts) {
        this.#failAll(problem ?? new Unreachable(`${connection.nodes} does not answer: ${why}`));
        break;
      }
      this.#lost();
      this.#wake = new AbortController();
      try {
        await sleep(pause(this.#ever ? RECONNECT : connection.retry, failures, problem?.retryAfter), this.#wake.signal);
      } catch {
        // Nothing is needed any more, or something else is: the condition says which.
      }
    }
    this.#admitted = null;
    this.#running = false;
  }

  #lost() {
    if (!this.#ever) return;
    this.reconnects += 1;
    for (const watcher of this.#following.values()) watcher.reconnects += 1;
  }

  #failAll(error) {
    for (const watcher of [...this.#following.values()]) watcher.fail(error);
    for (const request of [...this.#requests.values()]) request.reject(error);
  }

  #down() {
    this.#socket = null;
    this.connected = false;
    this.#resumed = false;
    this.#leaving.clear();
    this.#admitted = null;
    this.#sent = 0;
    for (const request of this.#requests.values()) {
      request.again ||= request.sent;
      request.sent = false;
    }
    for (const watcher of this.#following.values()) watcher.setConnected(false);
  }

  #drop() {
    this.#lose?.(new Error("closed"));
    this.#wake?.abort(new Error("closed"));
  }

  /** One connection to a node: settles when it has ended. */
  async #live(node) {
    const connection = this.#connection;
    // Whoever is followed in the same turn shares the ticket.
    await undefined;
    const ids = [...this.#following.values()].map((watcher) => watcher.id);
    this.#admitted = connection.hasTickets ? new Set(ids) : null;
    const ticket = await connection.ticket({ resource: this.#resource(), ids, ...connection.nodes.named(node) });
    const key = ticket ? undefined : await connection.key();
    const url = `ws${node.slice(4)}/v1/stream${ticket ? `?ticket=${encodeURIComponent(ticket)}` : ""}`;
    const Implementation = await webSocket(connection.WebSocket);
    if (this.closed) return;
    const socket = new Implementation(url, ...(Implementation.isOurs ? [{ maxMessage: connection.maxMessage }] : []));
    const timers = [];
    let opened = false;
    this.#silent = 0;
    try {
      await new Promise((_, lose) => {
        this.#lose = lose;
        timers.push(setTimeout(() => this.#socket ?? lose(new Error("no response in time")), connection.timeout * 1000));
        timers.push(setInterval(() => this.#lookForLife(lose), this.#heartbeat() * 1000));
        socket.onopen = () => {
          opened = true;
          if (key) socket.send(JSON.stringify({ op: "auth", key }));
          else this.#up(socket);
        };
        socket.onmessage = ({ data }) => {
          this.#silent = 0;
          try {
            if (typeof data === "string") this.#take(JSON.parse(data), socket);
          } catch (error) {
            lose(error);
          }
        };
        socket.onerror = ({ problem, error, message }) =>
          lose(problem ?? error ?? new Error(message ?? "the WebSocket could not be opened"));
        socket.onclose = ({ code }) => lose(new Error(`the WebSocket was closed with ${code}`));
      });
    } catch (error) {
      if (!opened && !(error instanceof ProblemError) && !this.closed) await this.#askWhy(node, ticket);
      throw error;
    } finally {
      timers.map(clearTimeout);
      this.#lose = null;
      socket.onopen = socket.onmessage = socket.onclose = null;
      socket.onerror = () => {};
      socket.close();
    }
  }

  /** The resource of what is followed; with tickets there is one. */
  #resource() {
    return this.#following.values().next().value?.resource;
  }

  /** The shortest heartbeat that a watcher expects. */
  #heartbeat() {
    const wanted = [...this.#following.values()].map((watcher) => watcher.heartbeat);
    return Math.min(this.#connection.heartbeat, ...wanted);
  }

  #lookForLife(reject) {
    this.#silent += 1;
    if (this.#silent >= SILENT) reject(new Error("the connection is silent"));
    else if (this.#socket !== null) this.#send({ op: "ping" });
  }

  /**
   * A browser does not say why a handshake was refused; the stream of one subscription, asked for with the same ticket, does.
   * Throws ProblemError where it is refused.
   */
  async #askWhy(node, ticket) {
    const [watcher] = this.#following.values();
    if (watcher === undefined) return;
    const asking = new AbortController();
    try {
      const response = await this.#connection.once("GET", watcher.path, { node, ticket, signal: asking.signal });
      if (response.ok) return;
      throw ProblemError.of(response.status, await response.text(), response.headers.get("retry-after"));
    } catch (error) {
      if (error instanceof ProblemError) throw error;
    } finally {
      asking.abort();
    }
  }

  /** The peer knows us: resume what is followed, and send what waits. */
  #up(socket) {
    this.#socket = socket;
    this.#ever = true;
    this.#connection.nodes.worked(this.#node);
    this.connected = true;
    for (const watcher of this.#following.values()) {
      watcher.setConnected(true, this.#node);
      this.#subscribe(watcher);
    }
    this.#resumed = ![...this.#following.values()].some((watcher) => watcher.begun);
    // Operations are answered in order. Until this one is, a list may still lack what it missed, and the cursor of a
    // heartbeat would skip it.
    if (!this.#resumed) this.#send({ op: "ping" });
    this.#sendRequests();
  }

  #take(message, socket) {
    const { event, resource, id, cursor, ...data } = message;
    this.#delivered = true;
    if (event === "authenticated") return this.#up(socket);
    if (event === "pong") {
      this.#resumed = true;
      return undefined;
    }
    if (event === "heartbeat") return this.#beat(message.cursors);
    if (event === "response") return this.#answer(message);
    if (event === "error" && resource == null) return this.#refused(message);
    const key = `${resource}/${id}`;
    if (this.#leaving.has(key)) {
      // What comes before the answer to an unsubscribe is about the watcher that left.
      if (event === "unsubscribed" || event === "error") this.#left(key);
      return undefined;
    }
    const watcher = this.#following.get(key);
    if (watcher === undefined) return undefined;
    if (event === "error") return this.#refuse(watcher, data.problem);
    if (event === "gone" && data.reason === "expired" && this.#connection.renews) {
      throw new Error("the credentials expired");
    }
    return watcher.deliver(event, data, cursor);
  }

  #left(key) {
    const left = this.#leaving.get(key) - 1;
    if (left > 0) this.#leaving.set(key, left);
    else this.#leaving.delete(key);
  }

  #beat(cursors) {
    if (!this.#resumed) return;
    for (const watcher of this.#following.values()) {
      if (Object.hasOwn(cursors, watcher.resource)) watcher.beat(cursors[watcher.resource]);
    }
  }

  #refuse(watcher, problem) {
    if (BUSY.has(problem.status)) throw ProblemError.of(problem.status, JSON.stringify(problem));
    const error = new ProblemError(problem.status, problem);
    if (problem.status === 404 && watcher.begun) this.#refuseUnlessBehind(watcher, error);
    else watcher.fail(error);
  }

  /** Leave a replica that does not have yet, or any more, what was followed elsewhere. */
  async #refuseUnlessBehind(watcher, error) {
    const { socket, lose } = { socket: this.#socket, lose: this.#lose };
    const behind = await this.#connection.follows(this.#node);
    if (this.#socket !== socket) return;
    if (behind) lose(new Behind(error.message));
    else watcher.fail(error);
  }

  /** An error about the socket itself, or about a request that could not be taken. */
  #refused({ ref, problem }) {
    const error = new ProblemError(problem.status, problem);
    if (this.#socket === null) throw error;
    // A service that knows no requests does not say which one it is about, and answers in order.
    const request = this.#requests.get(ref) ?? [...this.#requests.values()].find((one) => one.sent);
    if (request === undefined) return;
    this.#sent -= 1;
    request.reject(error);
    this.#settled();
  }

  #answer({ ref, status, body, headers }) {
    const request = this.#requests.get(ref);
    this.#sent -= 1;
    if (request !== undefined) {
      if (status < 300) {
        request.resolve(response(status, body));
      } else {
        const error = ProblemError.of(status, JSON.stringify(body ?? {}), retryAfter(headers));
        const inProgress = error.slug === "in-progress" && (request.again || request.failures > 0);
        if (BUSY.has(status) || inProgress) this.#later(request, error);
        else request.reject(error);
      }
    }
    this.#settled();
  }

  /** Send a request again after a pause, under the key that it has. */
  async #later(request, error) {
    request.failures += 1;
    if (request.failures >= this.#connection.retry.attempts) {
      request.reject(error);
      return;
    }
    request.pausing = true;
    try {
      await sleep(pause(this.#connection.retry, request.failures, error.retryAfter), this.#closing.signal);
    } catch {
      return;
    }
    request.pausing = request.sent = false;
    this.#sendRequests();
  }

  #settled() {
    if (this.idle && !this.#kept) this.#drop();
    else this.#sendRequests();
  }
}

/** A node does not have what others have. */
class Behind extends Error {}

function keyOf({ resource, id }) {
  return `${resource}/${id}`;
}

function retryAfter(headers = {}) {
  const [, value] = Object.entries(headers).find(([name]) => name.toLowerCase() === "retry-after") ?? [];
  return value ?? null;
}

/** A body as it came, with the response that it came in. */
function response(status, body) {
  const found = body !== null && typeof body === "object" ? body : {};
  for (const [name, value] of Object.entries({ status, body: found })) {
    if (!(name in found)) Object.defineProperty(found, name, { value });
  }
  return found;
}

/** The WebSocket to use: one that was given, the platform's, or on Node 20 the one that comes with this package. */
async function webSocket(chosen) {
  if (chosen !== undefined) return chosen;
  return globalThis.WebSocket ?? (await import("./node-websocket.js")).WebSocket;
}
