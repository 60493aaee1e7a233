/** The WebSocket client for Node, against frames written by hand (RFC 6455). */

import assert from "node:assert/strict";
import { randomBytes } from "node:crypto";
import http from "node:http";
import test from "node:test";

import { WebSocket } from "../src/node-websocket.js";
import { fakeService, frame, until } from "./fake-service.js";

const SLOW = { timeout: 60_000 };

/** An open pair: `seen` has the client's events in order. */
async function pair(t, options) {
  const fake = await fakeService(t);
  const socket = new WebSocket(`ws${fake.url.slice(4)}/v1/stream?a=b`, options);
  const seen = [];
  for (const name of ["open", "message", "error", "close"]) socket[`on${name}`] = (event) => seen.push(event);
  await until(() => seen.length > 0 && fake.peers.size > 0);
  const [peer] = fake.peers;
  return { socket, seen, peer, write: (bytes) => peer.socket.write(bytes), types: () => seen.map(({ type }) => type) };
}

test("messages of every length go both ways, masked", SLOW, async (t) => {
  const { socket, seen, peer, write } = await pair(t);
  assert.equal(peer.request.url, "/v1/stream?a=b");
  const texts = [0, 1, 125, 126, 65_535, 65_536, 200_000].map((size) => "ä🦊".repeat(size).slice(0, size));
  for (const text of texts) write(frame(1, text));
  await until(() => seen.length === 1 + texts.length);
  assert.deepEqual(seen.slice(1).map(({ data }) => data), texts.map((text) => Buffer.from(text).toString()));
  for (const text of texts) socket.send(text);
  await until(() => peer.frames.length === texts.length);
  for (const [at, { opcode, masked, payload }] of peer.frames.entries()) {
    assert.deepEqual([opcode, masked, payload.toString()], [1, true, Buffer.from(texts[at]).toString()]);
  }
  socket.send(new Uint8Array([1, 2, 3]));
  await until(() => peer.frames.at(-1).opcode === 2);
  write(frame(2, Buffer.from([9, 8])));
  await until(() => seen.at(-1).data instanceof ArrayBuffer);
  assert.deepEqual([...new Uint8Array(seen.at(-1).data)], [9, 8]);
});

test("frames may be cut anywhere", SLOW, async (t) => {
  const { seen, peer, write } = await pair(t);
  peer.socket.setNoDelay(true);
  const all = Buffer.concat([frame(1, "first"), frame(1, "x".repeat(300)), frame(9, "ping"), frame(1, "last")]);
  for (let at = 0; at < all.length; at += 7) {
    write(all.subarray(at, at + 7));
    await new Promise((resolve) => setImmediate(resolve));
  }
  await until(() => seen.length === 4);
  assert.deepEqual(seen.slice(1).map(({ data }) => data), ["first", "x".repeat(300), "last"]);
  await until(() => peer.frames.length === 1);
  assert.deepEqual([peer.frames[0].opcode, peer.frames[0].payload.toString()], [10, "ping"]);
});

test("fragments are joined, with control frames between", SLOW, async (t) => {
  const { seen, peer, write } = await pair(t);
  const fox = Buffer.from("🦊");
  write(frame(1, fox.subarray(0, 2), { fin: false }));
  write(frame(9, "between"));
  write(frame(0, fox.subarray(2), { fin: false }));
  write(frame(0, "!"));
  await until(() => seen.length === 2);
  assert.equal(seen[1].data, "🦊!");
  await until(() => peer.frames.length === 1);
});

test("what follows the handshake in one piece is read", SLOW, async (t) => {
  const fake = await fakeService(t, { talk: (peer) => peer.send("early") });
  const socket = new WebSocket(`ws${fake.url.slice(4)}/`);
  const data = await new Promise((resolve) => {
    socket.onmessage = (event) => resolve(event.data);
  });
  assert.equal(data, '"early"');
});

for (const [name, code, bytes] of [
  ["a masked frame", 1002, frame(1, "x", { mask: randomBytes(4) })],
  ["reserved bits", 1002, frame(1, "x", { reserved: 0x40 })],
  ["an unknown opcode", 1002, frame(3, "x")],
  ["a long control frame", 1002, frame(9, "x".repeat(126))],
  ["a control frame in fragments", 1002, frame(9, "x", { fin: false })],
  ["a continuation of nothing", 1002, frame(0, "x")],
  ["a message within another", 1002, Buffer.concat([frame(1, "x", { fin: false }), frame(1, "y")])],
  ["text that is not UTF-8", 1007, frame(1, Buffer.from([0xff, 0xfe]))],
  ["half a close code", 1002, frame(8, "x")],
  ["a message that is too large", 1009, frame(1, "x".repeat(2000))],
  ["fragments that are too large", 1009, Buffer.concat([frame(1, "x".repeat(600), { fin: false }), frame(0, "x".repeat(600))])],
  ["a length beyond all numbers", 1009, Buffer.concat([Buffer.from([0x81, 127]), Buffer.alloc(8, 0x7f)])],
]) {
  test(`${name} ends the connection with ${code}`, SLOW, async (t) => {
    const { peer, write, types, seen } = await pair(t, { maxMessage: 1000 });
    write(bytes);
    await until(() => peer.frames.some(({ opcode }) => opcode === 8));
    assert.equal(peer.frames.find(({ opcode }) => opcode === 8).payload.readUInt16BE(0), code);
    peer.socket.end(frame(1, "more"));
    await until(() => types().includes("close"));
    assert.deepEqual(types(), ["open", "error", "close"]);
    assert.equal(seen.at(-1).wasClean, false);
  });
}

test("either end closes with a handshake", SLOW, async (t) => {
  const theirs = await pair(t);
  theirs.write(frame(8, Buffer.concat([Buffer.from([0x0f, 0xa0]), Buffer.from("bye")])));
  await until(() => theirs.types().includes("close"));
  assert.equal(theirs.peer.frames[0].payload.readUInt16BE(0), 4000);
  assert.deepEqual([theirs.seen.at(-1).code, theirs.seen.at(-1).reason, theirs.seen.at(-1).wasClean], [4000, "bye", true]);
  const ours = await pair(t);
  ours.peer.onframe = ({ opcode, payload }) => opcode === 8 && ours.write(frame(8, payload));
  ours.socket.close(1000, "done");
  ours.socket.send("ignored");
  await until(() => ours.types().includes("close"));
  assert.equal(ours.seen.at(-1).code, 1000);
  assert.equal(ours.peer.frames.length, 1);
});

test("an end that does not answer a close is left", SLOW, async (t) => {
  const { socket, types } = await pair(t);
  socket.close();
  await until(() => types().includes("close"));
  assert.equal(socket.readyState, 3);
});

test("a connection that breaks is closed with 1006", SLOW, async (t) => {
  const { peer, types, seen } = await pair(t);
  peer.socket.destroy();
  await until(() => types().includes("close"));
  assert.equal(seen.at(-1).code, 1006);
});

test("a handshake that is refused has the problem", SLOW, async (t) => {
  const server = http.createServer();
  server.on("upgrade", (request, socket) => socket.end("HTTP/1.1 429 Too Many\r\nRetry-After: 7\r\nContent-Length: 18\r\n\r\n{\"title\":\"Enough\"}"));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  const socket = new WebSocket(`ws://127.0.0.1:${server.address().port}/`);
  const { problem } = await new Promise((resolve) => {
    socket.onerror = resolve;
  });
  assert.deepEqual([problem.status, problem.retryAfter], [429, 7]);
});

test("an answer to another handshake is none", SLOW, async (t) => {
  const server = http.createServer();
  server.on("upgrade", (request, socket) => {
    socket.on("error", () => {});
    socket.write("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: no\r\n\r\n");
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => server.close());
  const socket = new WebSocket(`ws://127.0.0.1:${server.address().port}/`);
  const { error } = await new Promise((resolve) => {
    socket.onerror = resolve;
  });
  assert.match(error.message, /speaks no WebSocket/);
});

test("one that is closed before it is open fails", SLOW, async (t) => {
  const fake = await fakeService(t, { upgrade: () => false });
  const socket = new WebSocket(`ws${fake.url.slice(4)}/`);
  assert.throws(() => socket.send("x"), /not open yet/);
  const closed = new Promise((resolve) => {
    socket.onclose = resolve;
  });
  socket.close();
  assert.equal((await closed).code, 1006);
});
