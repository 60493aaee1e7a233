// A subscription of the page's own: made for as long as the page is open, and made again where it was deleted.

import { Refusal, headers, path, request } from "./api.js";

const TTL = 300;

/** An id that says whose it is. */
export function ownId() {
  const random = crypto.getRandomValues(new Uint32Array(2));
  return `console-${[...random].map((part) => part.toString(36)).join("")}`;
}

export class OwnSubscription {
  #stop = null;
  #again = null;
  #ended = false;

  /** `under` is `subscriptions`, or `queries` on maps; `onMessage` receives the stream. */
  constructor(live, type, name, under, onMessage) {
    this.id = ownId();
    this.#live = live;
    this.#resource = `${type}/${name}`;
    this.#path = path(type, name, under, this.id);
    this.#onMessage = onMessage;
    this.#leave = () => {
      if (this.#body) fetch(this.#path, { method: "DELETE", keepalive: true, headers: headers() }).catch(() => {});
    };
    addEventListener("pagehide", this.#leave);
  }

  #live;
  #resource;
  #path;
  #onMessage;
  #leave;
  #body = null;

  /** Make it, or change it to this, and follow it. Gives the answer. Raises `Refusal` and `Unreachable`. */
  async set(body) {
    const answer = await request("PUT", this.#path, { body: { ...body, ttl: TTL } });
    this.#body = body;
    if (!this.#ended && !this.#stop) this.#follow();
    return answer;
  }

  /** Change what is named. */
  patch(body) {
    return request("PATCH", this.#path, { body });
  }

  #follow() {
    this.#stop = this.#live.follow(this.#resource, this.id, {}, (message) => {
      if (message.event === "gone" || message.event === "error") {
        this.#stop = null;
        if (message.event === "error" && message.problem.status !== 404) this.#onMessage(message);
        else this.#again = setTimeout(() => this.#renew(), 1000);
        return;
      }
      this.#onMessage(message);
    });
  }

  async #renew() {
    if (this.#ended) return;
    try {
      await this.set(this.#body);
    } catch (error) {
      if (error instanceof Refusal) this.#onMessage({ event: "error", problem: error.problem });
      else this.#again = setTimeout(() => this.#renew(), 1000);
    }
  }

  /** End it, and delete it. */
  end() {
    this.#ended = true;
    clearTimeout(this.#again);
    this.#stop?.();
    removeEventListener("pagehide", this.#leave);
    if (this.#body) request("DELETE", this.#path).catch(() => {});
  }
}
