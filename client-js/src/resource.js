/** What the handles of all five resources share. */

import { bulk, given, segment } from "./http.js";

/** The options of a call that belong to how it is sent; `node` is not for others than this package. */
export function sending({ signal, idempotencyKey, node } = {}) {
  return { signal, idempotencyKey, node };
}

/** A resource by name, whether it exists or not. Throws TypeError for what cannot be a name. */
export class Resource {
  constructor(client, connection, type, name, subscriptions = "subscriptions") {
    this.name = name;
    this.type = type;
    this.path = `${type}/${name}`;
    this.client = client;
    this.connection = connection;
    this.root = `/v1/${type}/${segment(name)}`;
    this.subscriptionsPath = `${this.root}/${subscriptions}`;
  }

  /** The path of a subscription. */
  pathOf(id, ...parts) {
    return [this.subscriptionsPath, segment(id), ...parts].join("/");
  }

  send(method, path, body, options, more = {}) {
    return this.connection.send(method, path, { ...sending(options), ...more, body });
  }

  /** Send many elements, or one, or the bytes of an Arrow stream, with the given options as fields beside them. */
  sendBulk(path, field, elements, fields, options, { wire, ...more } = {}) {
    const request = bulk(field, elements, given(fields), wire);
    return this.connection.send("POST", path, { ...sending(options), ...more, ...request });
  }

  /** Make the resource, or change what its PATCH may change; a 409 if it is there and differs otherwise. */
  put(config, options) {
    return this.send("PUT", this.root, config, options);
  }

  /** The configuration, sizes and `seq`. */
  info(options) {
    return this.send("GET", this.root, undefined, options);
  }

  /** Delete the resource with all that is in it and end its streams. */
  delete(options) {
    return this.send("DELETE", this.root, undefined, options);
  }

  /** Follow a subscription: see `Watcher`. */
  watch(id, options = {}) {
    return this.client.follow(this, id, options);
  }

  // Subscriptions, which maps call queries.

  readSubscription(id, options) {
    return this.send("GET", this.pathOf(id), undefined, options);
  }

  writeSubscription(method, id, body, options) {
    return this.send(method, this.pathOf(id), body, options);
  }

  removeSubscription(id, options) {
    return this.send("DELETE", this.pathOf(id), undefined, options);
  }

  removeSubscriptions(ids, options) {
    return this.send("POST", `${this.subscriptionsPath}/delete`, { ids: Array.from(ids) }, options);
  }

  listSubscriptions(options) {
    return this.connection.listing(this.subscriptionsPath, sending(options));
  }
}

/** A resource whose subscriptions are called so. */
export class Subscribed extends Resource {
  /** The subscription as it is now, with its list if it has one. */
  subscription(id, options) {
    return this.readSubscription(id, options);
  }

  /** Delete it and end its streams. */
  deleteSubscription(id, options) {
    return this.removeSubscription(id, options);
  }

  /** Delete many; unknown ids are passed over. */
  deleteSubscriptions(ids, options) {
    return this.removeSubscriptions(ids, options);
  }

  /** All subscriptions, in order of id and without lists, fetched page by page. */
  subscriptions(options) {
    return this.listSubscriptions(options);
  }
}
