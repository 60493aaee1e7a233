/**
 * The subscriber's half of the protocols: a list kept by tiles, or by changes.
 *
 * Source: papers/range-topk.txt, section II-A (the subscriber protocol).
 */

const SHAPES = { disc: ["center", "radius"], half_plane: ["a", "b"], simplex: ["points"] };

/** The name of the shape that a subscription or a tile has; "box" is a range. */
function shapeOf(data) {
  return Object.keys(SHAPES).find((name) => data[name] != null) ?? "box";
}

/** The numbers of a shape in their order; of a tile's shape, the pairs of a least and a largest one. */
function numbers(name, shape) {
  return SHAPES[name].flatMap((field) => {
    if (field === "points") return shape.points.flat(1);
    return field === "radius" || field === "b" ? [shape[field]] : shape[field];
  });
}

/** Whether `(l, r)`, infinite where unbounded, is within one attribute's sides. */
function within([lOuter, lInner, rInner, rOuter], [l, r]) {
  return (
    (lOuter === null || lOuter < l) &&
    l <= (lInner ?? -Infinity) &&
    (rInner ?? Infinity) <= r &&
    (rOuter === null || r < rOuter)
  );
}

function ends(pair) {
  return [pair?.[0] ?? -Infinity, pair?.[1] ?? Infinity];
}

/**
 * Whether a tile reaches a subscription `{range, disc, half_plane, simplex, where}`, k aside. `range` may be a pair on a board
 * with one range attribute.
 *
 * An outer side that is infinite takes in every subscription on that side, unbounded ones too, and a finite one never takes
 * in an unbounded one. An infinite inner side takes in the unbounded ones only.
 */
export function tileReaches(tile, subscription) {
  const where = subscription.where ?? {};
  for (const [name, reached] of Object.entries(tile.where ?? {})) {
    if (!(name in where ? reached.values.includes(where[name]) : reached.any)) return false;
  }
  const shape = shapeOf(tile);
  if (shape !== shapeOf(subscription)) return false;
  if (shape !== "box") {
    const mine = numbers(shape, subscription[shape]);
    return numbers(shape, tile[shape]).every(([low, high], at) => low <= mine[at] && mine[at] <= high);
  }
  const range = subscription.range ?? {};
  if (tile.box == null) {
    const only = Array.isArray(range) ? range : Object.values(range)[0];
    return within([tile.l_outer, tile.l_inner, tile.r_inner, tile.r_outer], ends(only));
  }
  const sides = Object.entries(tile.box);
  if (Array.isArray(range)) return sides.length === 1 && within(sides[0][1], ends(range));
  return sides.every(([name, each]) => within(each, ends(range[name])));
}

/** Whether two values of JSON are equal. */
function same(a, b) {
  if (a === b) return true;
  if (a === null || b === null || typeof a !== "object" || typeof b !== "object") return false;
  const names = Object.keys(a);
  return names.length === Object.keys(b).length && names.every((name) => name in b && same(a[name], b[name]));
}

/** An entry without what belongs to its place. */
function bare({ id, values, created = -1, payload }) {
  return payload === undefined ? { id, values, created } : { id, values, created, payload };
}

/**
 * The best k objects of one subscription, kept right by the tiles that reach it and by nothing else.
 *
 * The protocol: on a tile, if the object is in the list it takes its new values (a tile that says `gone` drops it); otherwise it
 * is inserted; then the best k are kept. Objects compare by (rank value in board order, created). Tiles must be applied in
 * the order in which they were sent, starting from a list that was right.
 *
 * `subscription` has the region as on the wire, `k`, and an `offset` where there is one; `rank` is that of the board:
 * `{attribute, order}`. A tile costs O(k).
 */
export class TopKList {
  constructor(subscription, rank) {
    this.subscription = subscription;
    this.depth = (subscription.offset ?? 0) + subscription.k;
    this.#attribute = rank.attribute;
    this.#sign = rank.order === "desc" ? -1 : 1;
  }

  #attribute;
  #sign;

  /** All entries down to rank offset + k, best first. */
  entries = [];

  /** Start over from a list that is right, which begins at rank 1. */
  reset(entries) {
    this.entries = entries.map(bare).sort((a, b) => this.#compare(a, b)).slice(0, this.depth);
  }

  /** Apply one tile and say whether the list is another now. A tile that does not reach this subscription changes nothing. */
  apply(tile) {
    if (tile.k !== this.depth || !tileReaches(tile, this.subscription)) return false;
    const entry = bare(tile.object);
    const at = this.entries.findIndex((held) => held.id === entry.id);
    const old = at < 0 ? null : this.entries.splice(at, 1)[0];
    if (tile.object.gone) return old !== null;
    let low = 0;
    let high = this.entries.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.#compare(this.entries[middle], entry) < 0) low = middle + 1;
      else high = middle;
    }
    this.entries.splice(low, 0, entry);
    if (this.entries.length > this.depth) return this.entries.pop() !== entry;
    return old === null || !same(old, entry);
  }

  #compare(a, b) {
    return this.#sign * (a.values[this.#attribute] - b.values[this.#attribute]) || a.created - b.created;
  }
}

/**
 * The list after a change: every object that it names is taken out, then those with a new rank are put in, in ascending
 * order of it, each at that place behind the list's offset. O(k + changes).
 *
 * Throws RangeError where a rank lies beyond the list, which means that an earlier change was missed.
 */
export function applyChanges(entries, changes, offset = 0) {
  const named = new Set(changes.map((change) => change.id));
  const kept = entries.filter((entry) => !named.has(entry.id));
  const placed = changes.filter((change) => change.new_rank !== null).sort((a, b) => a.new_rank - b.new_rank);
  for (const change of placed) {
    const at = change.new_rank - offset - 1;
    if (at < 0 || at > kept.length) {
      throw new RangeError(`${change.id} is to be at rank ${change.new_rank} of a list of ${kept.length}`);
    }
    const { old_rank, new_rank, old_values, ...entry } = change;
    kept.splice(at, 0, entry);
  }
  return kept;
}

/** The range "at most `radius` away from `center`", by attribute in the maximum norm. */
export function near(center, radius) {
  if (typeof center === "object") {
    return Object.fromEntries(
      Object.entries(center).map(([name, value]) => [name, near(value, typeof radius === "object" ? radius[name] : radius)]),
    );
  }
  if (!(radius >= 0)) throw new RangeError(`a radius is 0 or more, not ${radius}`);
  return [center - radius, center + radius];
}
