/** Moving clients, which know the zone of their answer and send a request only when they leave it. */

import { Ranking } from "./ranking.js";
import { MEASURES, zoneOf } from "./zones.js";

/**
 * A moving client that sends a request where it leaves the zone of its answer. `map.moving(question)` makes it.
 *
 * `question` is `{kind: "top", k, score, m, ordered}` or `{kind: "skyline"}`. Each answer is right for the objects as they were at its
 * `seq`. Changes of objects are not noticed until the next request: when the client leaves the zone, or by `refresh`.
 * `moves`, `asked` and `saved` count the moves, the requests, and the moves that needed none.
 */
export class Moving {
  constructor(map, question) {
    const { kind, ...rest } = question;
    if (kind !== "top" && kind !== "skyline") throw new TypeError('a question has the kind "top" or "skyline"');
    this.moves = this.asked = this.saved = 0;
    this.answer = null;
    this.location = null;
    this.#map = map;
    this.#kind = kind;
    this.#question = rest;
  }

  #map;
  #kind;
  #question;
  #info = null;
  #ranking = null;
  #zone = null;
  #asking = Promise.resolve();

  /** The answer at a place. */
  async move(location) {
    this.moves += 1;
    this.location = location;
    const found = this.#here(location);
    if (found !== null) {
      this.saved += 1;
      return found;
    }
    return await this.#ask(location);
  }

  /** The answer of the service where the client is; null before it moved anywhere. */
  async refresh() {
    return this.location === null ? null : await this.#ask(this.location);
  }

  /** What is held, where it is valid; null where it may be another answer, which only the service knows. */
  #here(location) {
    const [x, y] = location;
    if (this.answer === null || !this.#zone.holds(x, y)) return null;
    if (this.#kind === "skyline") {
      const measure = MEASURES[this.#info.metric];
      const skyline = this.answer.skyline
        .map((one) => ({ ...one, distance: measure(x, y, one.location[0], one.location[1]) }))
        .sort((a, b) => a.distance - b.distance || a.created - b.created);
      return { ...this.answer, skyline };
    }
    const candidates = this.#ranking.ranked(this.answer.candidates, x, y).map((one, at) => ({ ...one, rank: at + 1 }));
    return { ...this.answer, list: candidates.slice(0, this.#question.k), candidates };
  }

  /** One request at a time, so that an older answer never replaces a newer one. */
  async #ask(location) {
    const turn = this.#asking;
    let done;
    this.#asking = new Promise((resolve) => {
      done = resolve;
    });
    await turn;
    try {
      if (this.#info === null) {
        const info = await this.#map.info();
        if (this.#kind === "top") this.#ranking = new Ranking(this.#question.score, info);
        this.#info = info;
      }
      this.asked += 1;
      const body = { ...this.#question, location };
      const answer = this.#kind === "top" ? await this.#map.top(body) : await this.#map.skyline(body);
      this.answer = answer;
      this.#zone = zoneOf(answer.zone, this.#info.metric, this.#info.bounds);
      return answer;
    } finally {
      done();
    }
  }
}
