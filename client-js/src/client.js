/** The client: one object for the service, with a handle for each resource. */

import { Board } from "./board.js";
import { EventStream } from "./event-stream.js";
import { Feed } from "./feed.js";
import { Connection } from "./http.js";
import { Jobs } from "./jobs.js";
import { Webhooks } from "./webhooks.js";
import { RankcastMap } from "./map.js";
import { Matcher } from "./matcher.js";
import { Relay } from "./relay.js";
import { sending } from "./resource.js";
import { Socket } from "./socket.js";
import { Watcher } from "./watcher.js";

/**
 * A connection to a Rankcast service.
 *
 * `url` is its URL, or the URLs of its nodes: an array, or a text with commas. They are tried in that order, and a node that failed
 * after the others for a moment; writes go to the one that leads, and once it is known all else too.
 *
 * `key` is an API key or token, or a function that gives one; `ticket` a function that gives a ticket for the next stream, called
 * with `{resource, ids}`, and with the `url` of the node where there are several. Requests that meet a 503 or a broken connection are sent again as `retry` says (`{attempts, first, most}`);
 * writes carry an Idempotency-Key, so that none is ever applied twice. `timeout` is that of one attempt and `heartbeat` the
 * service's setting, in seconds; `buffer` is how many events wait for a slow consumer.
 *
 * Every method rejects with `ProblemError` when the service refuses, and with `Unreachable` when it does not answer. All take a
 * `signal` among their last options, writes an `idempotencyKey` too.
 */
export class Rankcast {
  constructor(url = "http://127.0.0.1:8000", options = {}) {
    this.#connection = new Connection(url, options);
    this.jobs = new Jobs(this.#connection);
    this.webhooks = new Webhooks(this.#connection);
  }

  #connection;
  #sockets = new Set();
  #watchers = new Set();

  /** The URL of the service; of several nodes the first. */
  get url() {
    return this.#connection.nodes.urls[0];
  }

  /** A handle of the board with this name, whether it exists or not. Sends nothing. */
  board(name) {
    return new Board(this, this.#connection, "boards", name);
  }

  matcher(name) {
    return new Matcher(this, this.#connection, "matchers", name);
  }

  relay(name) {
    return new Relay(this, this.#connection, "relays", name);
  }

  map(name) {
    return new RankcastMap(this, this.#connection, name);
  }

  feed(name) {
    return new Feed(this, this.#connection, "feeds", name);
  }

  /** All boards, in order of name, fetched page by page. */
  boards(options) {
    return this.#connection.listing("/v1/boards", sending(options));
  }

  matchers(options) {
    return this.#connection.listing("/v1/matchers", sending(options));
  }

  relays(options) {
    return this.#connection.listing("/v1/relays", sending(options));
  }

  maps(options) {
    return this.#connection.listing("/v1/maps", sending(options));
  }

  feeds(options) {
    return this.#connection.listing("/v1/feeds", sending(options));
  }

  /**
   * Make a ticket `{ticket, expires}` with which a page in a browser opens streams of these subscriptions, and does nothing
   * else. `resource` is named as `boards/delays`; without `ids` the ticket is for all of its subscriptions.
   */
  ticket(resource, ids = null, { seconds = 60, ...options } = {}) {
    const body = { resource, ids, seconds };
    return this.#connection.send("POST", "/v1/tickets", { ...sending(options), body, asks: true });
  }

  /** Whether the service can be used now, at any of its nodes. Does not retry and does not reject. */
  async ready() {
    for (const node of this.#connection.nodes.ordered) {
      try {
        const response = await this.#connection.once("GET", "/readyz", { node, signal: AbortSignal.timeout(5_000) });
        await response.text();
        if (response.status === 200) return true;
      } catch {
        // The next one may be.
      }
    }
    return false;
  }

  /** Send any request of the API, with `{query, body, headers, signal, idempotencyKey}`. Resolves to the body of its response. */
  request(method, path, options = {}) {
    return this.#connection.send(method, path, options);
  }

  /** The WebSocket that watchers of this client share; it stays open until it is closed. */
  socket() {
    this.#connection.throwIfClosed();
    const [first] = [...this.#sockets].filter((socket) => !socket.closed);
    return (first ?? this.#open(true)).keep();
  }

  /** Follow a subscription of a resource; `socket` carries it where it can. */
  follow(resource, id, options, socket = null) {
    const { transport = socket === null ? "sse" : "websocket" } = options;
    if (transport !== "sse" && transport !== "websocket") throw new TypeError('the transport is "sse" or "websocket"');
    this.#connection.throwIfClosed();
    const watcher = new Watcher(resource, id, options, this.#connection, () => this.#watchers.delete(watcher));
    if (watcher.closed) return watcher;
    this.#watchers.add(watcher);
    if (transport === "sse") {
      new EventStream(watcher, this.#connection);
    } else {
      for (const other of this.#sockets) if (other.closed) this.#sockets.delete(other);
      const carriers = [...(socket === null ? [] : [socket]), ...this.#sockets];
      (carriers.find((one) => one.accepts(watcher)) ?? this.#open(false)).follow(watcher);
    }
    return watcher;
  }

  /** Close all streams and sockets, and end what is being sent. */
  close() {
    this.#connection.close();
    for (const watcher of [...this.#watchers]) watcher.close();
    for (const socket of this.#sockets) socket.close();
  }

  async [Symbol.asyncDispose]() {
    this.close();
  }

  #open(kept) {
    const watch = (resource, id, options, socket) => this.follow(this.#named(resource), id, options, socket);
    const socket = new Socket(this.#connection, watch, kept);
    this.#sockets.add(socket);
    return socket;
  }

  /** The handle of a resource such as `boards/delays`. */
  #named(resource) {
    const [type, name, ...rest] = String(resource).split("/");
    const handles = { boards: "board", matchers: "matcher", relays: "relay", maps: "map", feeds: "feed" };
    if (!Object.hasOwn(handles, type) || rest.length > 0) {
      throw new TypeError(`${JSON.stringify(resource)} is no resource, as boards/<name> is`);
    }
    return this[handles[type]](name);
  }
}
