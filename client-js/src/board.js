/** One board: objects, subscriptions with ranked lists, and questions. */

import { given, segment, withRanges, wireRanges } from "./http.js";
import { Subscribed, sending } from "./resource.js";

const wire = withRanges("range");

export class Board extends Subscribed {
  #attributes = null;

  /** Change what is given: `{ks}`, `{algorithm}`, `{epsilon}`, `{sketch}`. */
  patch(change, options) {
    return this.send("PATCH", this.root, change, options);
  }

  /**
   * Apply events in order as one request, all or nothing; with `onError: "skip"` all that are good.
   *
   * A list of `{op, id, values, payload}`, one of them, or the bytes of an Arrow stream. More than 1,000 go as NDJSON.
   */
  publish(events, { mode, messages = "count", onError, ...options } = {}) {
    return this.sendBulk(`${this.root}/events`, "events", events, { mode, messages, on_error: onError }, options);
  }

  /** Insert the object or give it these values: `{values, payload}`. */
  upsert(id, object, options) {
    return this.send("PUT", this.#object(id), object, options);
  }

  /** Change some values of an existing object, or its payload, which null takes away. */
  update(id, change, options) {
    return this.send("PATCH", this.#object(id), change, options);
  }

  deleteObject(id, options) {
    return this.send("DELETE", this.#object(id), undefined, options);
  }

  object(id, options) {
    return this.send("GET", this.#object(id), undefined, options);
  }

  /** All objects, in order of id, fetched page by page. */
  objects(options) {
    return this.connection.listing(`${this.root}/objects`, sending(options));
  }

  /**
   * The k best objects between l and r, both included, behind the first `offset`; unbounded where left out.
   *
   * With several range attributes l and r are objects by attribute. `where` says what the payload must have in indexed fields.
   * Resolves to `{seq, list}`.
   */
  top({ l, r, k, offset, where } = {}, options) {
    const query = { ...bounds("l", l), ...bounds("r", r), ...given({ k, offset }) };
    for (const [name, value] of Object.entries(where ?? {})) query[`where.${name}`] = JSON.stringify(value);
    return this.send("GET", `${this.root}/top`, undefined, options, { query });
  }

  /** What an event would do now, without doing it. */
  explain(event, { algorithm, epsilon, ...options } = {}) {
    const body = given({ event, algorithm, epsilon });
    return this.send("POST", `${this.root}/explain`, body, options, { asks: true });
  }

  /**
   * Register subscriptions as one request, all or nothing: a list of `{id, range, k, ...}`, one of them, or the bytes of an
   * Arrow stream. `lists` asks for their lists.
   */
  async register(subscriptions, { lists, onError, ...options } = {}) {
    const fields = { lists, on_error: onError };
    const name = await this.#only(subscriptions);
    const each = (one) => wire(named(one, name));
    return await this.sendBulk(this.subscriptionsPath, "subscriptions", subscriptions, fields, options, { wire: each });
  }

  /** Make the subscription or change it to this: what a client may send each time it starts. */
  async putSubscription(id, subscription, options) {
    return await this.writeSubscription("PUT", id, wire(named(subscription, await this.#only(subscription))), options);
  }

  /** Move the range or change the filter, k or the offset; its streams miss nothing. What is left out stays. */
  async patchSubscription(id, change, options) {
    return await this.writeSubscription("PATCH", id, wire(named(change, await this.#only(change))), options);
  }

  /** What the subscription costs, and how many changes reach it. */
  explainSubscription(id, options) {
    return this.send("GET", this.pathOf(id, "explain"), undefined, options);
  }

  #object(id) {
    return `${this.root}/objects/${segment(id)}`;
  }

  /** The board's only range attribute, where one of these has a pair in place of ranges by attribute. */
  async #only(subscriptions) {
    const many = Array.isArray(subscriptions) ? subscriptions : [subscriptions];
    if (!many.some((one) => Array.isArray(one?.range))) return null;
    this.#attributes ??= (await this.info()).range_attributes;
    if (this.#attributes.length === 1) return this.#attributes[0];
    throw new TypeError(`the board has the range attributes ${this.#attributes.join(", ")}: say which a range is for`);
  }
}

function named(one, name) {
  return name !== null && Array.isArray(one.range) ? { ...one, range: { [name]: one.range } } : one;
}

function bounds(name, end) {
  const ends = end !== null && typeof end === "object" ? end : { "": end };
  const query = {};
  for (const [attribute, value] of Object.entries(wireRanges({ "": Object.values(ends) })[""])) {
    const at = Object.keys(ends)[attribute];
    if (value !== null) query[at ? `${name}.${at}` : name] = String(value);
  }
  return query;
}
