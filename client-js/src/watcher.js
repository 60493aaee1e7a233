/** One subscription as it changes: an async iterable over whatever connection carries it. */

import { RankcastError } from "./errors.js";
import { followerOf } from "./followers.js";

/** Messages that wait for what tiles need to know. Past that the stream begins again. */
const MOST_HELD = 4096;

/**
 * `for await (const event of board.watch(id))`: `{event, seq, ...}` as on the wire, with `list` as it is right after the event.
 *
 * Connects at once and reconnects where it was. Rejects when the stream is refused (401, 403, 404, ...), and with `Unreachable` when
 * the first connection cannot be made. Ends after `gone`, and by `close()`. Leaving a loop does not close it: another one goes
 * on where the first one was.
 *
 * At most `buffer` events wait for a slow consumer. When one more comes they are squashed: a list is brought up to date and given as
 * one `{event: "reset", squashed: true}`; of single events the oldest are dropped, and a `reset` says that some were missed. Until
 * the iteration begins there is only the latest list.
 */
export class Watcher {
  constructor(resource, id, options, connection, onEnd = () => {}) {
    this.id = id;
    this.resource = resource.path;
    this.gone = false;
    this.connected = false;
    this.current = false;
    this.cursor = null;
    this.begun = false;
    this.reconnects = 0;
    this.path = resource.pathOf(id, "stream");
    this.heartbeat = options.heartbeat ?? connection.heartbeat;
    this.#resource = resource;
    this.#connection = connection;
    this.#follower = followerOf(resource.type, options);
    this.#buffer = options.buffer ?? connection.buffer;
    this.#onEnd = onEnd;
    this.#known = options.known;
    this.#signal = options.signal;
    if (!(this.#buffer >= 1)) throw new RangeError("a buffer has room for one event or more");
    this.#onAbort = () => this.fail(this.#signal.reason);
    if (this.#signal?.aborted) this.#onAbort();
    else this.#signal?.addEventListener("abort", this.#onAbort, { once: true });
  }

  #resource;
  #connection;
  #follower;
  #buffer;
  #known;
  #signal;
  #onAbort;
  #onEnd;
  #transport = null;
  #queue = [];
  #waiting = [];
  #readers = [];
  #iterated = false;
  #behind = null;
  #missed = null;
  #ended = false;
  #error = null;
  #held = null;
  #generation = 0;
  #node = null;

  /** The query parameters of the stream, or the members of its `subscribe`. */
  get options() {
    return this.#follower.options;
  }

  /** The list right after the event that was yielded last; before the first iteration, the latest. */
  get list() {
    return this.#follower.list;
  }

  /** The seq of `list`, null before there is one. */
  get seq() {
    return this.#follower.seq;
  }

  /** How many ranks lie before the list. */
  get offset() {
    return this.#follower.offset ?? 0;
  }

  /** Of a map: the present answer with its zone, null before the first. */
  get answer() {
    return this.#follower.answer ?? null;
  }

  get closed() {
    return this.#ended;
  }

  [Symbol.asyncIterator]() {
    return { next: () => this.next(), [Symbol.asyncIterator]: () => this[Symbol.asyncIterator]() };
  }

  async [Symbol.asyncDispose]() {
    this.close();
  }

  /** The next event, as of an iterator: `{value, done}`. */
  next() {
    this.#iterated = true;
    const event = this.#take();
    if (event !== null) return Promise.resolve({ value: event, done: false });
    if (!this.#ended) return new Promise((resolve, reject) => this.#waiting.push({ resolve, reject }));
    const error = this.#error;
    this.#error = null;
    return error === null ? Promise.resolve({ value: undefined, done: true }) : Promise.reject(error);
  }

  /** Resolves once a connection has caught up; rejects when the stream is refused, or ends before. */
  ready() {
    if (this.current) return Promise.resolve();
    if (this.#ended) return Promise.reject(this.#error ?? new RankcastError("the watcher has ended"));
    return new Promise((resolve, reject) => this.#readers.push({ resolve, reject }));
  }

  /** Stop following. The subscription itself stays. */
  close() {
    this.#end(null);
  }

  // What a transport calls.

  attach(transport) {
    if (this.#ended) transport.close();
    else this.#transport = transport;
  }

  /** A connection to a node is there, or lost. */
  setConnected(connected, node = null) {
    this.connected = connected;
    this.#node = node;
    if (!connected) {
      this.current = false;
      this.#generation += 1;
      this.#held = null;
    }
  }

  /** Move the position of a quiet stream. */
  beat(cursor) {
    if (this.begun && this.#held === null) this.cursor = cursor;
  }

  /** Take one message in order. */
  deliver(event, data, cursor) {
    if (this.#ended) return;
    if (this.#held !== null) {
      this.#hold([event, data, cursor]);
    } else if (this.#follower.needsSubscription(event)) {
      this.#held = [[event, data, cursor]];
      this.#learn(this.#generation);
    } else {
      this.#accept(event, data, cursor);
    }
  }

  /** End with an error, once what has come is taken. */
  fail(error) {
    this.#end(error);
  }

  // What comes in.

  #hold(message) {
    this.#held.push(message);
    if (this.#held.length > MOST_HELD) this.#again();
  }

  /** Begin the stream again, whole. */
  #again() {
    this.cursor = null;
    this.begun = false;
    this.#queue = [];
    this.#follower.lose?.();
    this.#transport?.restart();
  }

  /** Fetch what tiles need. A subscription that is changed from then on begins with a `reset`, and it is fetched again. */
  async #learn(generation) {
    // Another node may not be so far.
    const node = this.#node ?? undefined;
    try {
      const facts = this.#known ?? {
        subscription: await this.#resource.subscription(this.id, { signal: this.#signal, node }),
        board: await this.#resource.info({ signal: this.#signal, node }),
      };
      if (generation !== this.#generation || this.#ended) return;
      const held = this.#held;
      this.#held = null;
      const [[event, data, cursor], ...rest] = held;
      this.#accept(event, data, cursor, facts);
      for (const message of rest) this.deliver(...message);
    } catch (error) {
      if (generation === this.#generation) this.fail(error);
    }
  }

  #accept(event, data, cursor, facts) {
    const follower = this.#follower;
    this.begun ||= follower.begins(event);
    if (this.begun && cursor != null) this.cursor = cursor;
    if (event === "ready" && this.begun) {
      this.current = true;
      for (const { resolve } of this.#readers.splice(0)) resolve();
    }
    const message = { event, data, facts };
    const whole = follower.whole !== undefined;
    if (event === "gone") {
      this.gone = true;
      this.#queue.push(message);
      this.#wake();
      this.#end(null);
      return;
    }
    if (whole && (this.#behind !== null || !this.#iterated)) {
      if (this.#apply(message) !== null) this.#behind ??= event;
    } else if (this.#queue.length < this.#buffer) {
      this.#queue.push(message);
    } else if (whole) {
      for (const waiting of this.#queue.splice(0)) this.#apply(waiting);
      this.#apply(message);
      this.#behind = "reset";
    } else {
      this.#missed = this.#queue.shift().data.seq;
      this.#queue.push(message);
    }
    this.#wake();
  }

  #apply({ event, data, facts }) {
    try {
      if (facts) this.#follower.learn(facts);
      return this.#follower.apply(event, data);
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      // A change that does not fit the list: one was missed, so the list is asked for whole.
      this.#again();
      return null;
    }
  }

  // What goes out.

  #take() {
    if (this.#behind !== null) {
      const event = this.#follower.whole(this.#behind);
      if (this.#behind === "reset") event.squashed = true;
      this.#behind = null;
      return event;
    }
    if (this.#missed !== null) {
      const event = { event: "reset", seq: this.#missed, squashed: true };
      this.#missed = null;
      return event;
    }
    while (this.#queue.length > 0) {
      const message = this.#queue.shift();
      if (message.event === "gone") return { event: "gone", ...message.data };
      const event = this.#apply(message);
      if (event !== null) return event;
    }
    return null;
  }

  #wake() {
    while (this.#waiting.length > 0) {
      const event = this.#take();
      if (event === null) return;
      this.#waiting.shift().resolve({ value: event, done: false });
    }
  }

  #end(error) {
    if (this.#ended) return;
    this.#ended = true;
    this.connected = this.current = false;
    this.#held = null;
    this.#signal?.removeEventListener("abort", this.#onAbort);
    const transport = this.#transport;
    this.#transport = null;
    transport?.close();
    this.#onEnd();
    this.#error = error;
    for (const { reject } of this.#readers.splice(0)) reject(error ?? new RankcastError("the watcher has ended"));
    for (const { resolve, reject } of this.#waiting.splice(0)) {
      if (this.#error === null) {
        resolve({ value: undefined, done: true });
      } else {
        this.#error = null;
        reject(error);
      }
    }
  }
}
