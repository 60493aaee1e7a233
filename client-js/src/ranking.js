/**
 * The k best of some candidates at any place, scored as the service scores them: the same steps in the same order.
 *
 * Sums and products run over the map's attributes in their order, then distance. So a score is the service's, but for the last
 * bit of powers and functions. What has no score is null, and ranks last; of equal scores the object that was created first is
 * the better.
 */

import { Expression } from "./expressions.js";
import { MEASURES } from "./zones.js";

const SHIFT = 0.01;
const LAMBDA = 0.5;

/** A score over the objects of a map. Throws TypeError for what is no score of that map. */
export class Ranking {
  constructor(score, map) {
    if (!Object.hasOwn(PARTS, score.kind) && score.kind !== "expression") {
      throw new TypeError(`${JSON.stringify(score.kind)} is no kind of score`);
    }
    this.#score = { scale: 1, shift: SHIFT, lambda: LAMBDA, ...score };
    this.#measure = MEASURES[map.metric];
    const weights = score.weights ?? {};
    this.#farWeight = weights.distance ?? 0;
    this.#chosen = Object.entries(map.attributes)
      .filter(([name]) => weights[name] > 0)
      .map(([name, attribute]) => ({ name, weight: weights[name], ...attributeOf(attribute) }));
    if (score.kind === "expression") this.#expression = new Expression(score.expression, Object.keys(map.attributes));
  }

  #score;
  #measure;
  #farWeight;
  #chosen;
  #expression = null;

  /** All candidates, the best first, with their distances and scores at (x, y). O(c log c). */
  ranked(candidates, x, y) {
    return candidates
      .map((one) => {
        const distance = this.#measure(x, y, one.location[0], one.location[1]);
        return { ...one, distance, score: this.score(one.values, distance) };
      })
      .sort((a, b) => order(a.score, b.score) || a.created - b.created);
  }

  /** The score of an object with these values at a distance, null where it has none. O(attributes). */
  score(values, distance) {
    const away = distance / this.#score.scale;
    if (this.#expression !== null) return this.#expression.at(away, values);
    const [total, product] = PARTS[this.#score.kind](this.#chosen, values, this.#score.shift);
    const score = this.#whole(away, total, product);
    return Number.isFinite(score) ? score : null;
  }

  #whole(away, total, product) {
    const { kind, lambda } = this.#score;
    if (kind === "weighted_distance") return total > 0 ? away / total : Infinity;
    const plain = this.#farWeight > 0 ? total + this.#farWeight * away : total;
    if (kind === "weighted_sum") return plain;
    const times = this.#farWeight > 0 && product > 0 ? product * away ** this.#farWeight : product;
    if (kind === "weighted_product" || lambda === 0) return times;
    return lambda === 1 ? plain : lambda * plain + (1 - lambda) * times;
  }
}

/** What the static values of an object come to, by kind: a sum and a product. */
const PARTS = { weighted_sum: sum, weighted_product: products, weighted_distance: distances, waspas: products };

function sum(chosen, values) {
  let total = 0;
  for (const { name, weight, order } of chosen) total += weight * (order === "high" ? -values[name] : values[name]);
  return [total, 1];
}

function products(chosen, values, shift) {
  let total = 0;
  let product = 1;
  for (const attribute of chosen) {
    const v = normal(attribute, values[attribute.name]);
    total += attribute.weight * v;
    product *= (v + shift) ** attribute.weight;
  }
  return [total, product];
}

function distances(chosen, values, shift) {
  let total = 0;
  for (const attribute of chosen) total += attribute.weight * (1 - normal(attribute, values[attribute.name]));
  return [shift + total, 1];
}

function attributeOf(attribute) {
  return typeof attribute === "string" ? { order: attribute, range: null } : { range: null, ...attribute };
}

/** A value within its attribute's range: 0 the best, 1 the worst. */
function normal({ order, range }, value) {
  const [low, high] = range ?? [0, 0];
  const v = low < high ? (value - low) / (high - low) : Number.NaN;
  return order === "high" ? 1 - v : v;
}

function order(a, b) {
  if (a === b) return 0;
  if (a === null || b === null) return a === null ? 1 : -1;
  return a - b;
}
