/** One relay: subscriptions, whether to forward them, and notifications. */

import { ProblemError } from "./errors.js";
import { lines, withRanges } from "./http.js";
import { Subscribed } from "./resource.js";

/** Commands in one request, which are carried out together. */
const PIECE = 5_000;

const wire = withRanges("box");

export class Relay extends Subscribed {
  /** Add links, change them, or with null remove them. A link that would close a cycle is a 409. */
  link(links, options) {
    return this.send("PATCH", this.root, { links }, options);
  }

  /**
   * Make subscriptions as one request, all or nothing: a list of `{id, box}`, one of them, or the bytes of an Arrow stream.
   * Resolves to what to forward.
   */
  subscribe(subscriptions, { onError, ...options } = {}) {
    const fields = { on_error: onError };
    return this.sendBulk(this.subscriptionsPath, "subscriptions", subscriptions, fields, options, { wire });
  }

  /** Make the subscription or change it to this: what a client may send each time it starts. */
  putSubscription(id, subscription, options) {
    return this.writeSubscription("PUT", id, wire(subscription), options);
  }

  /** Change what is given, by attribute; null is unbounded. */
  patchSubscription(id, change, options) {
    return this.writeSubscription("PATCH", id, wire(change), options);
  }

  /**
   * Carry out commands `{op, id, box}` in order, some thousand in a request, and yield the result of each.
   *
   * A command that cannot be carried out refuses those of its request: throws ProblemError. What was yielded before stays.
   */
  async *commands(commands, { onError, ...options } = {}) {
    const query = onError === undefined ? {} : { on_error: onError };
    let piece = [];
    for await (const command of commands) {
      piece.push(wire(command));
      if (piece.length < PIECE) continue;
      yield* await this.#run(piece, query, options);
      piece = [];
    }
    if (piece.length > 0) yield* await this.#run(piece, query, options);
  }

  /**
   * Publish notifications to the subscriptions whose boxes hold them, here and over links: a list of `{values, payload}`, one of
   * them, or the bytes of an Arrow stream.
   */
  notify(notifications, { onError, ...options } = {}) {
    const fields = { on_error: onError };
    return this.sendBulk(`${this.root}/notifications`, "notifications", notifications, fields, options);
  }

  async #run(piece, query, options) {
    const request = { contentType: "application/x-ndjson", query, read: answers };
    return await this.send("POST", `${this.root}/commands`, lines(piece), options, request);
  }
}

/** The results of a piece of commands. Throws ProblemError where it ended with one. */
function answers(text) {
  const read = text.split("\n").filter(Boolean).map((line) => JSON.parse(line));
  const problem = read.at(-1)?.problem;
  if (problem) throw new ProblemError(problem.status, problem);
  return read;
}
