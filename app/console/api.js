// Requests to the service. The key is kept here, in memory, and nowhere else.

/** What the service refused, as its problem document says. */
export class Refusal extends Error {
  constructor(status, problem) {
    super(problem.detail || problem.title || `status ${status}`);
    this.status = status;
    this.problem = problem;
  }

  /** The wrong fields, each with the reason. */
  get fields() {
    return this.problem.errors ?? [];
  }
}

/** The service did not answer. */
export class Unreachable extends Error {
  constructor() {
    super("The service does not answer.");
  }
}

/** `reachable` (detail: whether the last request was answered) and `key` (a key was given or forgotten). */
export const events = new EventTarget();

let key = "";
let asking = null;
let ask = async () => null;
let dismissed = false;

/** Set what asks the user for a key: called with a message, gives a promise of the key, or of null. */
export function askWith(asker) {
  ask = asker;
}

export const currentKey = () => key;

export function setKey(given) {
  key = given;
  dismissed = false;
  events.dispatchEvent(new Event("key"));
}

/** Ask for a key once, however many requests need one. True if there is another one now. */
export async function needKey(message, used = key) {
  if (key !== used) return true;
  if (dismissed) return false;
  asking ??= ask(message).finally(() => {
    asking = null;
  });
  const given = await asking;
  if (given === null) {
    dismissed = true;
    return false;
  }
  if (given !== key) setKey(given);
  return true;
}

function announce(reachable) {
  events.dispatchEvent(new CustomEvent("reachable", { detail: reachable }));
}

/** The headers of a request: the key, if there is one. */
export function headers(more = {}) {
  return key ? { Authorization: `Bearer ${key}`, ...more } : more;
}

/** Sends a request and gives the `Response`, whatever its status. Raises `Unreachable`. */
export async function send(method, path, { body, query = {}, signal, more = {} } = {}) {
  const pairs = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const url = pairs.length ? `${path}?${new URLSearchParams(pairs)}` : path;
  for (;;) {
    const used = key;
    let response;
    try {
      response = await fetch(url, {
        method,
        signal,
        cache: "no-store",
        redirect: "error",
        headers: headers(body === undefined ? more : { "Content-Type": "application/json", ...more }),
        body: body === undefined ? undefined : JSON.stringify(body),
      });
    } catch (error) {
      if (signal?.aborted) throw error;
      announce(false);
      throw new Unreachable();
    }
    announce(true);
    const message = used ? "The service does not take this key." : "The service asks for a key.";
    if (response.status !== 401 || !(await needKey(message, used))) return response;
  }
}

/** Sends a request and gives the JSON of its answer. Raises `Refusal` and `Unreachable`. */
export async function request(method, path, options) {
  const response = await send(method, path, options);
  const text = await response.text();
  let read = {};
  try {
    read = text ? JSON.parse(text) : {};
  } catch {
    read = { title: text.slice(0, 200) };
  }
  if (!response.ok) throw new Refusal(response.status, read);
  return read;
}

export const get = (path, query, signal) => request("GET", path, { query, signal });

/** The items of a list, page by page, at most so many, and whether there are more. */
export async function pages(path, most = 1000, signal = undefined) {
  const items = [];
  let cursor = null;
  do {
    const page = await get(path, { limit: Math.min(1000, most - items.length), cursor }, signal);
    items.push(...page.items);
    cursor = page.next;
  } while (cursor && items.length < most);
  return { items, more: cursor !== null };
}

/** The path of a resource, or of what is under it. */
export function path(...parts) {
  return `/v1/${parts.map(encodeURIComponent).join("/")}`;
}
