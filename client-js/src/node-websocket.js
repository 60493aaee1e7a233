/**
 * A WebSocket client for Node 20, which has none (RFC 6455).
 *
 * Text and binary messages without extensions, with fragments, pings, and both ends' closing handshake. It has the handlers of a
 * browser's (`onopen`, `onmessage`, `onerror`, `onclose`), `send`, `close`, `readyState`, `binaryType` as "arraybuffer". The event
 * of an error has `problem` where the handshake was refused. Messages beyond `maxMessage` bytes end the connection with 1009.
 */

import { createHash, randomBytes } from "node:crypto";
import http from "node:http";
import https from "node:https";

import { ProblemError } from "./errors.js";

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const CONTINUATION = 0;
const TEXT = 1;
const BINARY = 2;
const CLOSE = 8;
const PING = 9;
const PONG = 10;

/** Bytes of the body of a refused handshake that are read. */
const MOST_REFUSAL = 1 << 16;

/** Milliseconds that the other end has to answer a close. */
const LINGER = 2_000;

const CONNECTING = 0;
const OPEN = 1;
const CLOSING = 2;
const CLOSED = 3;

/** What the other end did against the protocol, with the code that it is told. */
class Violation extends Error {
  constructor(code, message) {
    super(message);
    this.code = code;
  }
}

export class WebSocket {
  /** Tells it from the platform's, whose second argument is another. */
  static isOurs = true;

  constructor(url, { maxMessage = 1 << 26, headers = {} } = {}) {
    this.url = String(url);
    this.readyState = CONNECTING;
    this.binaryType = "arraybuffer";
    this.onopen = this.onmessage = this.onerror = this.onclose = null;
    this.#most = maxMessage;
    this.#connect(new URL(url), headers);
  }

  #most;
  #request = null;
  #socket = null;
  #frames = null;
  #parts = [];
  #size = 0;
  #opcode = CONTINUATION;
  #closing = null;
  #broken = false;
  #code = 1006;
  #reason = "";

  /** Send a text or bytes. */
  send(data) {
    if (this.readyState === CONNECTING) throw new Error("the WebSocket is not open yet");
    if (this.readyState !== OPEN) return;
    const isText = typeof data === "string";
    this.#write(isText ? TEXT : BINARY, isText ? Buffer.from(data) : bytes(data));
  }

  /** Close the connection, at the latest 2 s from now. */
  close(code = 1000, reason = "") {
    if (this.readyState === CONNECTING) {
      this.#request.destroy(new Error("closed before it was open"));
    } else if (this.readyState === OPEN) {
      this.readyState = CLOSING;
      this.#sendClose(code, reason);
    }
  }

  #connect(url, headers) {
    const key = randomBytes(16).toString("base64");
    const secure = url.protocol === "wss:" || url.protocol === "https:";
    const scheme = secure ? "https:" : "http:";
    const request = (secure ? https : http).request(`${scheme}//${url.host}${url.pathname}${url.search}`, {
      agent: false,
      headers: {
        ...headers,
        Connection: "Upgrade",
        Upgrade: "websocket",
        "Sec-WebSocket-Key": key,
        "Sec-WebSocket-Version": "13",
      },
    });
    this.#request = request;
    request.on("upgrade", (response, socket, head) => {
      const accept = createHash("sha1").update(key + GUID).digest("base64");
      const agreed = response.headers["sec-websocket-accept"] === accept && !response.headers["sec-websocket-extensions"];
      if (!agreed || String(response.headers.upgrade).toLowerCase() !== "websocket") {
        socket.destroy();
        this.#fail(new Error("the other end speaks no WebSocket"));
      } else {
        this.#open(socket, head);
      }
    });
    request.on("response", (response) => this.#refused(response));
    request.on("error", (error) => this.#fail(error));
    request.end();
  }

  #refused(response) {
    const chunks = [];
    let size = 0;
    const finish = () => {
      const text = Buffer.concat(chunks).toString();
      this.#fail(null, ProblemError.of(response.statusCode, text, response.headers["retry-after"] ?? null));
    };
    response.on("data", (chunk) => {
      size += chunk.length;
      if (size <= MOST_REFUSAL) chunks.push(chunk);
      else response.destroy();
    });
    response.on("end", finish);
    response.on("error", finish);
  }

  #open(socket, head) {
    this.#socket = socket;
    this.#frames = new Frames(this.#most, (frame) => this.#take(frame));
    this.readyState = OPEN;
    socket.setNoDelay(true);
    socket.setTimeout(0);
    socket.on("data", (chunk) => this.#feed(chunk));
    socket.on("error", (error) => this.#fail(error));
    socket.on("end", () => socket.end());
    socket.on("close", () => this.#finish());
    this.onopen?.({ type: "open" });
    if (head.length > 0) this.#feed(head);
  }

  #feed(chunk) {
    if (this.readyState === CLOSED || this.#broken) return;
    try {
      this.#frames.feed(chunk);
    } catch (error) {
      if (!(error instanceof Violation)) throw error;
      this.#broken = true;
      this.readyState = CLOSING;
      this.#sendClose(error.code, error.message);
      this.#fail(error);
    }
  }

  /** One frame, in order. */
  #take({ opcode, last, payload }) {
    if (this.readyState === CLOSED) return;
    if (opcode === PING) {
      if (this.readyState === OPEN) this.#write(PONG, payload);
    } else if (opcode === CLOSE) {
      this.#closed(payload);
    } else if (opcode !== PONG && this.#closing === null) {
      this.#join(opcode, last, payload);
    }
  }

  #join(opcode, last, payload) {
    if ((opcode === CONTINUATION) !== (this.#opcode !== CONTINUATION)) {
      throw new Violation(1002, "fragments out of order");
    }
    if (opcode !== CONTINUATION) this.#opcode = opcode;
    this.#size += payload.length;
    if (this.#size > this.#most) throw new Violation(1009, "the message is too large");
    this.#parts.push(payload);
    if (!last) return;
    const whole = this.#parts.length === 1 ? payload : Buffer.concat(this.#parts);
    const isText = this.#opcode === TEXT;
    this.#parts = [];
    this.#size = 0;
    this.#opcode = CONTINUATION;
    this.onmessage?.({ type: "message", data: isText ? decoded(whole) : arrayBuffer(whole) });
  }

  #closed(payload) {
    if (payload.length === 1) throw new Violation(1002, "half a close code");
    this.#code = payload.length ? payload.readUInt16BE(0) : 1005;
    this.#reason = decoded(payload.subarray(2));
    this.readyState = CLOSING;
    if (this.#closing === null) this.#sendClose(payload.length ? this.#code : 1000, "");
    this.#socket.end();
  }

  #sendClose(code, reason) {
    if (this.#closing !== null) return;
    const text = Buffer.from(reason).subarray(0, 123);
    const payload = Buffer.alloc(2 + text.length);
    payload.writeUInt16BE(code, 0);
    text.copy(payload, 2);
    this.#write(CLOSE, payload);
    this.#closing = setTimeout(() => this.#socket.destroy(), LINGER);
  }

  #write(opcode, payload) {
    if (!this.#socket.destroyed) this.#socket.write(frame(opcode, payload));
  }

  #fail(error, problem) {
    if (this.readyState === CLOSED) return;
    this.onerror?.({ type: "error", error, problem, message: error?.message });
    if (this.#socket === null || this.#closing === null) this.#finish();
  }

  #finish() {
    if (this.readyState === CLOSED) return;
    this.readyState = CLOSED;
    clearTimeout(this.#closing);
    this.#request.destroy();
    this.#socket?.destroy();
    const { onclose } = this;
    onclose?.({ type: "close", code: this.#code, reason: this.#reason, wasClean: this.#code !== 1006 });
  }
}

/** A masked frame, as a client sends it. */
function frame(opcode, payload) {
  const size = payload.length;
  const wide = size < 126 ? 0 : size < 65_536 ? 2 : 8;
  const at = 2 + wide;
  const made = Buffer.allocUnsafe(at + 4 + size);
  made[0] = 0x80 | opcode;
  made[1] = 0x80 | (wide === 0 ? size : wide === 2 ? 126 : 127);
  if (wide === 2) made.writeUInt16BE(size, 2);
  if (wide === 8) made.writeBigUInt64BE(BigInt(size), 2);
  const mask = randomBytes(4);
  mask.copy(made, at);
  for (let i = 0; i < size; i++) made[at + 4 + i] = payload[i] ^ mask[i & 3];
  return made;
}

/** Cuts bytes, however they come, into frames. Throws Violation. */
class Frames {
  constructor(most, take) {
    this.#most = most;
    this.#take = take;
  }

  #most;
  #take;
  #chunks = [];
  #size = 0;
  #header = null;

  feed(chunk) {
    this.#chunks.push(chunk);
    this.#size += chunk.length;
    for (;;) {
      if (this.#header === null && !this.#readHeader()) return;
      if (this.#size < this.#header.size) return;
      const { opcode, last, size } = this.#header;
      this.#header = null;
      this.#take({ opcode, last, payload: this.#cut(size) });
    }
  }

  #readHeader() {
    if (this.#size < 2) return false;
    const first = this.#whole(2);
    const short = first[1] & 0x7f;
    const wide = short === 126 ? 2 : short === 127 ? 8 : 0;
    const opcode = first[0] & 0x0f;
    const last = (first[0] & 0x80) !== 0;
    if (first[0] & 0x70) throw new Violation(1002, "reserved bits");
    if (first[1] & 0x80) throw new Violation(1002, "a masked frame");
    if (![CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG].includes(opcode)) throw new Violation(1002, "an unknown opcode");
    if (opcode >= CLOSE && (!last || wide)) throw new Violation(1002, "a long or broken control frame");
    if (this.#size < 2 + wide) return false;
    const head = this.#cut(2 + wide);
    const size = wide === 0 ? short : wide === 2 ? head.readUInt16BE(2) : Number(head.readBigUInt64BE(2));
    if (size > this.#most) throw new Violation(1009, "the message is too large");
    this.#header = { opcode, last, size };
    return true;
  }

  /** The first bytes, in one piece but still there. */
  #whole(size) {
    if (this.#chunks[0].length < size) this.#chunks = [Buffer.concat(this.#chunks)];
    return this.#chunks[0];
  }

  /** Take the first bytes out. O(bytes) in all. */
  #cut(size) {
    this.#size -= size;
    if (size === 0) return Buffer.alloc(0);
    const first = this.#chunks[0];
    if (first.length === size) {
      this.#chunks.shift();
      return first;
    }
    if (first.length > size) {
      this.#chunks[0] = first.subarray(size);
      return first.subarray(0, size);
    }
    const parts = [];
    let missing = size;
    while (missing > 0) {
      const chunk = this.#chunks[0];
      if (chunk.length <= missing) {
        parts.push(chunk);
        this.#chunks.shift();
        missing -= chunk.length;
      } else {
        parts.push(chunk.subarray(0, missing));
        this.#chunks[0] = chunk.subarray(missing);
        missing = 0;
      }
    }
    return Buffer.concat(parts);
  }
}

const UTF8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

function decoded(payload) {
  try {
    return UTF8.decode(payload);
  } catch {
    throw new Violation(1007, "text that is not UTF-8");
  }
}

function arrayBuffer(payload) {
  return payload.buffer.slice(payload.byteOffset, payload.byteOffset + payload.length);
}

function bytes(data) {
  return ArrayBuffer.isView(data) ? Buffer.from(data.buffer, data.byteOffset, data.byteLength) : Buffer.from(data);
}
