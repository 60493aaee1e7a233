/** One map: objects at places, questions about places, and standing queries whose clients move. */

import { segment } from "./http.js";
import { Moving } from "./moving.js";
import { Resource, sending } from "./resource.js";

export class RankcastMap extends Resource {
  constructor(client, connection, name) {
    super(client, connection, "maps", name, "queries");
  }

  /**
   * Insert or change objects, in order, as one request, all or nothing: a list of `{id, location, values, payload}`, one of them, or
   * the bytes of an Arrow stream.
   */
  putObjects(objects, { onError, ...options } = {}) {
    return this.sendBulk(`${this.root}/objects`, "objects", objects, { on_error: onError }, options);
  }

  /** Insert the object or change what is given. A new one needs its location and all values. */
  putObject(id, object, options) {
    return this.send("PUT", this.#object(id), object, options);
  }

  /** Change what is given of an existing object. */
  patchObject(id, change, options) {
    return this.send("PATCH", this.#object(id), change, options);
  }

  object(id, options) {
    return this.send("GET", this.#object(id), undefined, options);
  }

  deleteObject(id, options) {
    return this.send("DELETE", this.#object(id), undefined, options);
  }

  /** Delete many; unknown ids are passed over. */
  deleteObjects(ids, options) {
    return this.send("POST", `${this.root}/objects/delete`, { ids: Array.from(ids) }, options);
  }

  /** All objects, in order of id, fetched page by page. */
  objects(options) {
    return this.connection.listing(`${this.root}/objects`, sending(options));
  }

  /** The k best at a place, and where that holds: `{location, k, score, m, ordered}`; `locations` asks for many places. */
  top(question, options) {
    return this.send("POST", `${this.root}/top`, question, options, { asks: true });
  }

  /** What nothing dominates at a place, and where that holds: `{location}`; `locations` asks for many places. */
  skyline(question, options) {
    return this.send("POST", `${this.root}/skyline`, question, options, { asks: true });
  }

  /** A moving client, which sends a request only where it leaves the zone of its answer: see `Moving`. */
  moving(question) {
    return new Moving(this, question);
  }

  /** Make standing queries as one request, all or nothing: a list of `{id, kind, location, ...}`, or one of them. */
  addQueries(queries, { lists, onError, ...options } = {}) {
    return this.sendBulk(this.subscriptionsPath, "queries", queries, { lists, on_error: onError }, options);
  }

  /** Make the standing query or change it to this: what a client may send each time it starts. */
  putQuery(id, query, options) {
    return this.writeSubscription("PUT", id, query, options);
  }

  /** Change what is given of a standing query; its streams miss nothing. */
  patchQuery(id, change, options) {
    return this.writeSubscription("PATCH", id, change, options);
  }

  /** The standing query with its answer now, at the last location of its client. */
  query(id, options) {
    return this.readSubscription(id, options);
  }

  /** Delete it and end its streams. */
  deleteQuery(id, options) {
    return this.removeSubscription(id, options);
  }

  /** Delete many; unknown ids are passed over. */
  deleteQueries(ids, options) {
    return this.removeSubscriptions(ids, options);
  }

  /** All standing queries, in order of id and without answers, fetched page by page. */
  queries(options) {
    return this.listSubscriptions(options);
  }

  /** Move the client of a standing query: `{seq, inside: true}`, or the new answer. */
  move(id, location, options) {
    return this.writeSubscription("PATCH", id, { location }, options);
  }

  /** Move many, in order, as one request: a list of `{id, location}`. */
  moveMany(moves, { onError, ...options } = {}) {
    return this.sendBulk(`${this.subscriptionsPath}/moves`, "moves", moves, { on_error: onError }, options);
  }

  #object(id) {
    return `${this.root}/objects/${segment(id)}`;
  }
}
