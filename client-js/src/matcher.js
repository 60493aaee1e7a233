/** One matcher: scored subscriptions, and events that are matched with them. */

import { withRanges, wireRanges } from "./http.js";
import { Subscribed } from "./resource.js";

const wire = withRanges("intervals");

export class Matcher extends Subscribed {
  /**
   * Register subscriptions as one request, all or nothing: a list of `{id, intervals, weights}` (in exact mode `score` in place
   * of `weights`), one of them, or the bytes of an Arrow stream.
   */
  register(subscriptions, { onError, ...options } = {}) {
    const fields = { on_error: onError };
    return this.sendBulk(this.subscriptionsPath, "subscriptions", subscriptions, fields, options, { wire });
  }

  /** Make the subscription or change it to this: what a client may send each time it starts. */
  putSubscription(id, subscription, options) {
    return this.writeSubscription("PUT", id, wire(subscription), options);
  }

  /** Change what is given, by dimension; null takes a dimension out with its weight. */
  patchSubscription(id, change, options) {
    return this.writeSubscription("PATCH", id, wire(change), options);
  }

  /**
   * The k best subscriptions for each event (20 by default): a list of `{values, payload}`, one of them, or the bytes of an Arrow
   * stream. `explain` says which dimensions matched, `notify` logs the events and sends them to the winners' open streams.
   */
  match(events, { k, explain, notify, onError, ...options } = {}) {
    const fields = { k, explain, notify, on_error: onError };
    const asks = !notify;
    return this.sendBulk(`${this.root}/match`, "events", events, fields, options, { wire: wireEvent, asks });
  }
}

function wireEvent(event) {
  return { ...event, values: wireRanges(event.values) };
}
