/** Webhooks of a service, and the check of what they send. */

import { RankcastError } from "./errors.js";
import { segment } from "./http.js";
import { sending } from "./resource.js";

const ROOT = "/v1/webhooks";
const PREFIX = "whsec_";
const HEADERS = ["webhook-id", "webhook-timestamp", "webhook-signature"];

/** Seconds by which the time in a message may differ from the time here. */
const TOLERANCE = 300;

export class Webhooks {
  constructor(connection) {
    this.#connection = connection;
  }

  #connection;

  /** Make a webhook, whose `secret` is shown this once, or change it: `{url, resource, ids, batch}`. */
  put(name, about, options) {
    return this.#send("PUT", `${ROOT}/${segment(name)}`, { ...sending(options), body: about });
  }

  /** The webhook as it is now. */
  get(name, options) {
    return this.#send("GET", `${ROOT}/${segment(name)}`, sending(options));
  }

  /** Delete it, with the events that wait for its receiver. */
  delete(name, options) {
    return this.#send("DELETE", `${ROOT}/${segment(name)}`, sending(options));
  }

  /** Let the service send a test now, once. Resolves to what became of it. */
  test(name, options) {
    return this.#send("POST", `${ROOT}/${segment(name)}/test`, sending(options));
  }

  /** Let one start again that is disabled, or waits for its next try. */
  enable(name, options) {
    return this.#send("POST", `${ROOT}/${segment(name)}/enable`, sending(options));
  }

  /** All webhooks that the key may change, in order of name. */
  list(options) {
    return this.#connection.listing(ROOT, sending(options));
  }

  #send(method, path, options) {
    return this.#connection.send(method, path, options);
  }
}

/** A message is not from the service, was changed, or is too old. */
export class BadSignature extends RankcastError {}

/**
 * The events of a message, once its signature and its time are found to be right; rejects with `BadSignature`.
 *
 * `secret` is the webhook's, `headers` a `Headers` or an object, `body` the text or the bytes as they came. `tolerance`
 * and `now` are in seconds. A message may come again, under the same `webhook-id`.
 */
export async function verifyWebhook(secret, headers, body, { tolerance = TOLERANCE, now = Date.now() / 1000 } = {}) {
  const pairs = typeof headers.entries === "function" ? [...headers.entries()] : Object.entries(headers);
  const found = Object.fromEntries(pairs.map(([name, value]) => [name.toLowerCase(), value]));
  const missing = HEADERS.find((name) => !found[name]);
  if (missing) throw new BadSignature(`the message has no header ${missing}`);
  const [id, stamp, signatures] = HEADERS.map((name) => found[name]);
  if (!/^\d{1,15}$/.test(stamp)) throw new BadSignature("its webhook-timestamp is no time");
  const age = now - Number(stamp);
  if (Math.abs(age) > tolerance) {
    const far = `${Math.round(Math.abs(age))} s`;
    throw new BadSignature(age > 0 ? `it was sent ${far} ago` : `its time is ${far} ahead`);
  }
  const raw = typeof body === "string" ? new TextEncoder().encode(body) : new Uint8Array(body);
  const head = new TextEncoder().encode(`${id}.${stamp}.`);
  const signed = new Uint8Array(head.length + raw.length);
  signed.set(head);
  signed.set(raw, head.length);
  const key = await crypto.subtle.importKey("raw", bytesOf(secret), { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
  for (const one of signatures.split(" ")) {
    const [version, text] = one.split(",", 2);
    const given = version === "v1" && decoded(text ?? "");
    // WebCrypto compares in constant time.
    if (given && (await crypto.subtle.verify("HMAC", key, given, signed))) {
      const read = JSON.parse(new TextDecoder().decode(raw));
      return Array.isArray(read) ? read : [read];
    }
  }
  throw new BadSignature("no signature of it is by this secret: it is another's, or was changed");
}

function bytesOf(secret) {
  const bytes = secret.startsWith(PREFIX) ? decoded(secret.slice(PREFIX.length)) : null;
  if (!bytes?.length) throw new TypeError(`a secret begins with ${PREFIX} and goes on in base64`);
  return bytes;
}

function decoded(text) {
  try {
    return Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  } catch {
    return null;
  }
}
