/** What a stream has sent so far, one follower for each kind of stream. No I/O. */

import { TopKList, applyChanges } from "./lists.js";

/**
 * The list of a subscription of a board or a feed.
 *
 * `apply` takes one message in order and returns the event to yield, null where it makes none. `list` is kept without ranks and
 * given with them.
 */
export class ListFollower {
  constructor({ form = "changes", old = false, squash, ready = false } = {}) {
    this.options = { ready: true };
    if (form !== "changes") this.options.form = form;
    if (old) this.options.old = true;
    if (squash !== undefined) this.options.squash = squash;
    this.seq = null;
    this.offset = 0;
    this.#wantsReady = ready;
    this.#tiles = form === "tiles";
  }

  #wantsReady;
  #tiles;
  #best = null;
  #entries = [];
  #list = null;

  /** Whether a list comes whole with this event. */
  begins(event) {
    return event === "snapshot" || event === "reset";
  }

  /** Whether `learn` must be called before this event: where tiles are followed and a list comes whole. */
  needsSubscription(event) {
    return this.#tiles && this.begins(event);
  }

  /** Take what tiles need: how deep the list reaches, and how it is ordered. */
  learn({ subscription, board }) {
    this.offset = subscription.offset ?? 0;
    this.#best = new TopKList(subscription, board.rank);
  }

  get list() {
    this.#list ??= this.#entries.map((entry, at) => ({ ...entry, rank: this.offset + at + 1 }));
    return this.#list;
  }

  /** Take nothing until a list comes whole. */
  lose() {
    this.seq = null;
  }

  /** The event that stands for all that was applied. */
  whole(event) {
    return { event, seq: this.seq, list: this.list };
  }

  apply(event, data) {
    if (event === "ready") return this.#wantsReady && this.seq !== null ? { event, ...data } : null;
    if (this.begins(event)) {
      if (this.#best !== null) {
        // Tiles are applied to all ranks down to offset + k, and the list comes so in that form.
        this.#best.reset(data.list);
        this.#entries = this.#best.entries.slice(this.offset);
      } else {
        this.offset = data.offset ?? 0;
        this.#entries = data.list.map(({ rank, ...entry }) => entry);
      }
    } else if (this.seq === null) {
      return null;
    } else if (event === "change") {
      this.#entries = applyChanges(this.#entries, data.changes, this.offset);
    } else if (event === "tiles" && this.#best !== null) {
      for (const tile of data.tiles) this.#best.apply(tile);
      this.#entries = this.#best.entries.slice(this.offset);
    } else {
      return null;
    }
    this.#list = null;
    this.seq = data.seq;
    return this.begins(event) ? { event, ...data, list: this.list } : { event, ...data };
  }
}

/** A stream of single events: what a matcher's subscription wins (`win`), or a relay's notifications. */
export class EventFollower {
  constructor(name) {
    this.options = { ready: true };
    this.list = [];
    this.seq = null;
    this.#name = name;
  }

  #name;

  begins(event) {
    return event === "ready" || event === "reset" || event === this.#name;
  }

  needsSubscription() {
    return false;
  }

  apply(event, data) {
    if (!this.begins(event)) return null;
    this.seq = data.seq;
    return { event, ...data };
  }
}

/** The answer of a standing query, each of which stands for all before it. */
export class ResultFollower {
  constructor({ ready = false } = {}) {
    this.options = { ready: true };
    this.answer = null;
    this.#wantsReady = ready;
  }

  #wantsReady;

  get seq() {
    return this.answer?.seq ?? null;
  }

  begins(event) {
    return event === "snapshot" || event === "reset" || event === "result";
  }

  needsSubscription() {
    return false;
  }

  /** The objects of the answer, best first; of a skyline, nearest first. */
  get list() {
    const found = this.answer?.list ?? this.answer?.skyline ?? [];
    return found.map((entry, at) => ({ ...entry, rank: at + 1 }));
  }

  whole(event) {
    return { event, ...this.answer };
  }

  apply(event, data) {
    if (event === "ready") return this.#wantsReady && this.answer !== null ? { event, ...data } : null;
    if (!this.begins(event)) return null;
    this.answer = data;
    return { event, ...data };
  }
}

/** The follower of a stream of a resource such as "boards". Throws TypeError for what it does not have. */
export function followerOf(type, options) {
  const { form = "changes", old, squash } = options;
  if (form !== "changes" && form !== "tiles") throw new TypeError('the form is "changes" or "tiles"');
  if (type === "boards") return new ListFollower(options);
  if (form !== "changes" || old !== undefined || squash !== undefined) {
    throw new TypeError("form, old and squash go with boards only");
  }
  if (type === "feeds") return new ListFollower(options);
  if (type === "maps") return new ResultFollower(options);
  return new EventFollower(type === "matchers" ? "win" : "notification");
}
