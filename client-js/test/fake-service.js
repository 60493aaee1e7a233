/** A service for tests: what it answers is said by the test, over HTTP and over a WebSocket of its own. */

import { createHash } from "node:crypto";
import http from "node:http";

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";

/**
 * Start a service on a free port; `answer` takes each request as `{method, path, query, headers, body, response}` and `talk` each
 * WebSocket. It ends with the test.
 */
export async function fakeService(t, { answer = () => {}, talk = () => {}, upgrade = null } = {}) {
  const requests = [];
  const server = http.createServer(async (request, response) => {
    let body = "";
    for await (const chunk of request) body += chunk;
    const url = new URL(request.url, "http://localhost");
    const query = Object.fromEntries(url.searchParams);
    const { method, headers } = request;
    const seen = { method, path: url.pathname, query, headers, body, response };
    requests.push(seen);
    await answer(seen, requests.length);
  });
  const peers = new Set();
  server.on("upgrade", (request, socket) => {
    if (upgrade !== null && !upgrade(request, socket)) return;
    const peer = new Peer(request, socket);
    peers.add(peer);
    talk(peer, peers.size);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => {
    for (const peer of peers) peer.socket.destroy();
    server.closeAllConnections();
    server.close();
  });
  return { url: `http://127.0.0.1:${server.address().port}`, requests, peers };
}

export function json(response, status, body, headers = {}) {
  response.writeHead(status, { "Content-Type": "application/json", ...headers }).end(JSON.stringify(body));
}

export function problem(response, status, slug = "some", headers = {}) {
  json(response, status, { type: `/problems/${slug}`, title: "Refused", status, detail: "", errors: [] }, headers);
}

/** Begin a stream of server-sent events. */
export function stream(response) {
  response.writeHead(200, { "Content-Type": "text/event-stream" });
  response.flushHeaders();
  return (event, data, id) => response.write(`id: ${id}\nevent: ${event}\ndata: ${JSON.stringify(data)}\n\n`);
}

/** A frame, unmasked unless `mask` is given. */
export function frame(opcode, payload, { fin = true, mask = null, reserved = 0 } = {}) {
  const data = Buffer.from(payload);
  const wide = data.length < 126 ? 0 : data.length < 65_536 ? 2 : 8;
  const head = Buffer.alloc(2 + wide);
  head[0] = (fin ? 0x80 : 0) | reserved | opcode;
  head[1] = (mask ? 0x80 : 0) | (wide === 0 ? data.length : wide === 2 ? 126 : 127);
  if (wide === 2) head.writeUInt16BE(data.length, 2);
  if (wide === 8) head.writeBigUInt64BE(BigInt(data.length), 2);
  if (!mask) return Buffer.concat([head, data]);
  return Buffer.concat([head, mask, data.map((byte, at) => byte ^ mask[at & 3])]);
}

/** The other end of a WebSocket: frames as they come, and messages that the test sends. */
class Peer {
  constructor(request, socket) {
    this.request = request;
    this.socket = socket;
    this.frames = [];
    this.onframe = () => {};
    this.onmessage = null;
    this.#rest = Buffer.alloc(0);
    const accept = createHash("sha1").update(request.headers["sec-websocket-key"] + GUID).digest("base64");
    socket.write(
      `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
    );
    socket.on("error", () => {});
    socket.on("data", (chunk) => this.#feed(chunk));
  }

  #rest;

  send(message) {
    if (!this.socket.destroyed) this.socket.write(frame(1, JSON.stringify(message)));
  }

  #feed(chunk) {
    this.#rest = Buffer.concat([this.#rest, chunk]);
    for (;;) {
      const rest = this.#rest;
      if (rest.length < 6) return;
      const short = rest[1] & 0x7f;
      const wide = short === 126 ? 2 : short === 127 ? 8 : 0;
      const size = wide === 0 ? short : wide === 2 ? rest.readUInt16BE(2) : Number(rest.readBigUInt64BE(2));
      const begin = 6 + wide;
      if (rest.length < begin + size) return;
      const mask = rest.subarray(2 + wide, begin);
      const payload = Buffer.from(rest.subarray(begin, begin + size)).map((byte, at) => byte ^ mask[at & 3]);
      this.#rest = rest.subarray(begin + size);
      const found = { opcode: rest[0] & 0x0f, masked: (rest[1] & 0x80) !== 0, payload };
      this.frames.push(found);
      this.onframe(found);
      if (found.opcode === 1 && this.onmessage) this.onmessage(JSON.parse(payload.toString()));
    }
  }
}

/** Resolves once something is true; the test's own limit of time is what ends it in vain. */
export async function until(isTrue) {
  while (!isTrue()) await new Promise((resolve) => setTimeout(resolve, 2));
}

export const QUICK = { retry: { attempts: 4, first: 0.001, most: 0.01 } };
