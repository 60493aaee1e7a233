// Follows any number of subscriptions over one WebSocket, and goes on where it was when the connection or the service ends.

import { currentKey, events, needKey } from "./api.js";

const LONGEST_PAUSE = 5000;
const SILENCE = 50000; // three heartbeats of the service, in milliseconds

/** One socket. `signals` says `state`: waiting, open or closed. */
export class Live {
  #socket = null;
  #follows = new Map();
  #tries = 0;
  #timer = null;
  #silence = null;
  #ended = false;
  #ready = false;

  constructor() {
    this.signals = new EventTarget();
    this.state = "closed";
    events.addEventListener("key", () => {
      this.#tries = 0;
      if (this.#socket) this.#socket.close();
      else if (this.#follows.size) this.#open();
    });
  }

  /**
   * Follow a subscription. `onMessage` receives each event as the service sends it, and `{event: "error", problem}`
   * where it is refused. Returns what ends it.
   */
  follow(resource, id, options, onMessage) {
    const name = `${resource} ${id}`;
    const follow = { resource, id, options, onMessage, cursor: null };
    this.#follows.set(name, follow);
    if (this.#ready) this.#subscribe(follow);
    else this.#open();
    return () => {
      if (this.#follows.get(name) !== follow) return;
      this.#follows.delete(name);
      if (this.#ready) this.#send({ op: "unsubscribe", resource, id });
    };
  }

  /** End all of it. */
  close() {
    this.#ended = true;
    this.#follows.clear();
    clearTimeout(this.#timer);
    clearTimeout(this.#silence);
    this.#socket?.close();
    this.#say("closed");
  }

  #say(state) {
    if (state === this.state) return;
    this.state = state;
    this.signals.dispatchEvent(new Event("state"));
  }

  #open() {
    if (this.#socket || this.#ended) return;
    clearTimeout(this.#timer);
    this.#say("waiting");
    const socket = new WebSocket(`${location.origin.replace(/^http/, "ws")}/v1/stream`);
    const used = currentKey();
    this.#socket = socket;
    socket.onopen = () => {
      this.#listen();
      if (used) this.#send({ op: "auth", key: used });
      else this.#begin();
    };
    socket.onmessage = (message) => this.#take(JSON.parse(message.data), used);
    socket.onclose = () => {
      if (this.#socket !== socket) return;
      this.#socket = null;
      this.#ready = false;
      clearTimeout(this.#silence);
      if (this.#ended) return;
      this.#say("waiting");
      const pause = Math.min(LONGEST_PAUSE, 250 * 2 ** this.#tries) * (0.5 + Math.random() / 2);
      this.#tries += 1;
      this.#timer = setTimeout(() => this.#open(), pause);
    };
  }

  #begin() {
    this.#ready = true;
    this.#say("open");
    for (const follow of this.#follows.values()) this.#subscribe(follow);
  }

  #listen() {
    clearTimeout(this.#silence);
    this.#silence = setTimeout(() => this.#socket?.close(), SILENCE);
  }

  #send(operation) {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(operation));
  }

  #subscribe({ resource, id, options, cursor }) {
    this.#send({ op: "subscribe", resource, id, ...options, ...(cursor ? { after: cursor } : {}) });
  }

  #take(message, used) {
    this.#listen();
    const { event } = message;
    if (event === "authenticated") {
      this.#begin();
    } else if (event === "heartbeat") {
      for (const follow of this.#follows.values()) follow.cursor = message.cursors[follow.resource] ?? follow.cursor;
    } else if (event === "error" && message.problem.status === 401) {
      this.#askForKey(used);
    } else {
      const name = `${message.resource} ${message.id}`;
      const follow = this.#follows.get(name);
      if (!follow || event === "unsubscribed") return;
      if (message.cursor) follow.cursor = message.cursor;
      if (event === "gone" || event === "error") this.#follows.delete(name);
      else this.#tries = 0;
      follow.onMessage(message);
    }
  }

  /** The service asks for a key now: close, and open again with it. */
  async #askForKey(used) {
    const socket = this.#socket;
    await needKey(used ? "The service does not take this key." : "The service asks for a key.", used);
    socket?.close();
  }
}

/** The socket that the pages share. */
export const live = new Live();
