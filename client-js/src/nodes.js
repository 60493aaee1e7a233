/** The nodes of a service: which of them is asked next, and which leads. */

/** Seconds for which a node that failed is tried after the others. */
const AWAY = 5;

/** Seconds after which a client that writes asks again who leads; the second where nobody is known to. */
const BELIEVED = 10;
const UNKNOWN = 1;

/** How the path begins that makes the node that is asked the leader. */
const PROMOTE = "/v1/admin/promote";

/** URLs that a client takes. */
const MOST = 16;

/** The URLs of a service in their order, with what is known of each. Throws TypeError for none, for more than 16 and for what is no URL. */
export class Nodes {
  /** `urls` is a text with commas, or an array; `clock` is in seconds. */
  constructor(urls, clock = () => performance.now() / 1000) {
    const given = Array.isArray(urls) ? urls : String(urls).split(",");
    this.urls = [...new Set(given.map((url) => based(given.length > 1 ? String(url).trim() : url)))];
    if (this.urls.length < 1 || this.urls.length > MOST) throw new TypeError(`a client takes from 1 to ${MOST} URLs`);
    this.#clock = clock;
  }

  /** The node that is known to lead. */
  leader = null;
  #clock;
  #failed = new Map();
  #askAt = 0;

  toString() {
    return this.urls.join(", ");
  }

  /** Whether there is another one to go on at. */
  get several() {
    return this.urls.length > 1;
  }

  /**
   * All of them as they are tried: the one known to lead, the others as they were given, and last those that failed a moment
   * ago, the one that failed first before the others.
   */
  get ordered() {
    const away = this.urls.filter((url) => this.#isAway(url)).sort((a, b) => this.#failed.get(a) - this.#failed.get(b));
    const here = this.urls.filter((url) => !away.includes(url));
    return [...here.filter((url) => url === this.leader), ...here.filter((url) => url !== this.leader), ...away];
  }

  /** A node as a member of what a function for tickets is given; nothing where there is one alone. */
  named(url) {
    return this.several ? { url } : {};
  }

  /** Throws TypeError for a request that is about one node and does not say which. */
  checkPath(path) {
    if (this.several && path.startsWith(PROMOTE)) throw new TypeError(`name the node that is to lead, one of ${this}`);
  }

  /** Whether one has not been tried. */
  left(tried) {
    return this.urls.some((url) => !tried.has(url));
  }

  /** The node that is tried next. Once all were tried, they begin again and `tried` is emptied. */
  turn(tried) {
    if (!this.left(tried)) tried.clear();
    return this.ordered.find((url) => !tried.has(url));
  }

  /** Note that a node answered. */
  worked(url) {
    this.#failed.delete(url);
  }

  /** Note that a node could not be reached. One that led is asked no more whether it does, but others are. */
  failed(url) {
    this.#failed.set(url, this.#clock());
    if (url !== this.leader) return;
    this.leader = null;
    this.#askAt = 0;
  }

  /** Note that a node refused a write for now: if it leads, this may be about to end. */
  doubt(url) {
    if (url === this.leader) this.#askAt = Math.min(this.#askAt, this.#clock() + UNKNOWN);
  }

  /** Whether it is time to ask who leads. */
  get wantsLeader() {
    return this.several && this.#clock() >= this.#askAt;
  }

  /** The nodes to ask now; nobody else asks them meanwhile. */
  asking() {
    this.#askAt = this.#clock() + UNKNOWN;
    return this.urls.filter((url) => !this.#isAway(url));
  }

  /** Take what nodes said at `/readyz`, as pairs: of those that lead, the one with the highest term does. */
  learn(said) {
    const leading = said.filter(([, about]) => about?.role === "leader");
    leading.sort(([, a], [, b]) => term(b) - term(a));
    this.leader = leading[0]?.[0] ?? null;
    this.#askAt = this.#clock() + (this.leader === null ? UNKNOWN : BELIEVED);
  }

  #isAway(url) {
    const at = this.#failed.get(url);
    return at !== undefined && this.#clock() - at < AWAY;
  }
}

function term(about) {
  return Number.isFinite(about.term) ? about.term : 0;
}

/** A URL without the slash at its end, made whole where a page gives a part of one. */
function based(url) {
  const base = new URL(url, globalThis.location?.href);
  if (base.protocol !== "http:" && base.protocol !== "https:") throw new TypeError(`${url} is no URL of HTTP`);
  return base.origin + base.pathname.replace(/\/+$/, "");
}
