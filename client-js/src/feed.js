/** One feed: posts with keywords and places, and subscriptions with ranked lists of them. */

import { segment } from "./http.js";
import { Subscribed, sending } from "./resource.js";

export class Feed extends Subscribed {
  /**
   * Post in order as one request, all or nothing: a list of `{id, keywords | text, location, payload}`, one of them, or the bytes
   * of an Arrow stream. Resolves to how many lists each reached.
   */
  post(posts, { onError, ...options } = {}) {
    return this.sendBulk(`${this.root}/posts`, "posts", posts, { on_error: onError }, options);
  }

  /** A post of the window. */
  getPost(id, options) {
    return this.send("GET", this.#post(id), undefined, options);
  }

  /** All posts of the window, in order of id, fetched page by page. */
  posts(options) {
    return this.connection.listing(`${this.root}/posts`, sending(options));
  }

  /** Withdraw a post from the window: lists that had it get the next best. */
  withdraw(id, options) {
    return this.send("DELETE", this.#post(id), undefined, options);
  }

  /**
   * Register subscriptions as one request, all or nothing: a list of `{id, keywords | text, location, k, alpha}`, one of them, or the
   * bytes of an Arrow stream. `lists` asks for their lists.
   */
  register(subscriptions, { lists, onError, ...options } = {}) {
    const fields = { lists, on_error: onError };
    return this.sendBulk(this.subscriptionsPath, "subscriptions", subscriptions, fields, options);
  }

  /** Make the subscription or change it to this: what a client may send each time it starts. */
  putSubscription(id, subscription, options) {
    return this.writeSubscription("PUT", id, subscription, options);
  }

  /** Change what is given; its streams miss nothing. Keywords are given whole. */
  patchSubscription(id, change, options) {
    return this.writeSubscription("PATCH", id, change, options);
  }

  #post(id) {
    return `${this.root}/posts/${segment(id)}`;
  }
}
