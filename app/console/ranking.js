// Keeps a list by the protocol of streams: a snapshot, then what entered, left or got new values.

/**
 * The list after a change: take out all that it names, then put in those with a new rank, ascending, each at its place.
 * `offset` ranks come before the list.
 */
export function applied(list, changes, offset = 0) {
  const named = new Set(changes.map((change) => change.id));
  const next = list.filter((entry) => !named.has(entry.id));
  const entering = changes.filter((change) => change.new_rank !== null).sort((a, b) => a.new_rank - b.new_rank);
  for (const { old_rank: _, new_rank, ...entry } of entering) next.splice(new_rank - 1 - offset, 0, entry);
  return next.map((entry, i) => ({ ...entry, rank: offset + i + 1 }));
}

/** A list that follows the messages of one stream; `changes` counts them. */
export class FollowedList {
  list = [];
  seq = null;
  changes = 0;
  offset = 0;

  /** Take a message. True if the list may be another one now. */
  take(message) {
    if (message.event === "snapshot" || message.event === "reset") {
      this.offset = message.offset ?? 0;
      this.list = message.list;
    } else if (message.event === "change") {
      this.list = applied(this.list, message.changes, this.offset);
      this.changes += 1;
    } else {
      return false;
    }
    this.seq = message.seq;
    return true;
  }
}
