/** Watchers and requests that share one WebSocket. */

import assert from "node:assert/strict";
import test from "node:test";

import { Rankcast, Unreachable } from "../index.js";
import { QUICK, fakeService, problem, until } from "./fake-service.js";

const SLOW = { timeout: 60_000 };

/** A service that answers subscribes by a snapshot, and requests by `respond`. */
function serve(peer, { respond = (message) => ({ status: 200, body: { seq: message.ref } }), key = null } = {}) {
  const talk = { subscribes: [], requests: [], known: key === null };
  peer.onmessage = (message) => {
    const { op, resource, id, ref } = message;
    if (op === "auth") {
      talk.known = message.key === key;
      if (talk.known) peer.send({ event: "authenticated" });
      else peer.send({ event: "error", resource: null, id: null, problem: { status: 401, title: "Unauthorized" } });
    } else if (op === "subscribe") {
      talk.subscribes.push(message);
      const data = { seq: 1, list: [{ rank: 1, id: `first of ${id}`, values: {}, created: 0 }] };
      if (!message.after) peer.send({ resource, id, event: "snapshot", cursor: "e:1", ...data });
      peer.send({ resource, id, event: "ready", cursor: "e:1", seq: 1 });
    } else if (op === "unsubscribe") {
      peer.send({ resource, id, event: "unsubscribed" });
    } else if (op === "ping") {
      peer.send({ event: "pong" });
    } else if (op === "request") {
      talk.requests.push(message);
      const answer = respond(message, talk.requests.length);
      if (answer) peer.send({ event: "response", ref, ...answer });
    }
  };
  return talk;
}

function change(resource, id, seq) {
  const changes = [{ id: `o${seq}`, old_rank: null, new_rank: 1, values: {}, created: seq }];
  return { resource, id, event: "change", cursor: `e:${seq}`, seq, changes };
}

test("watchers share one connection, and each resumes at its own position", SLOW, async (t) => {
  const talks = [];
  const fake = await fakeService(t, { talk: (peer) => talks.push(serve(peer)) });
  const rc = new Rankcast(fake.url, QUICK);
  const options = { transport: "websocket" };
  const first = rc.board("b").watch("one", options);
  const second = rc.board("b").watch("two", options);
  await Promise.all([first.ready(), second.ready()]);
  assert.equal(talks.length, 1);
  const [peer] = fake.peers;
  peer.send(change("boards/b", "one", 2));
  await until(() => first.cursor === "e:2");
  peer.send({ event: "heartbeat", cursors: { "boards/b": "e:5", "feeds/f": "e:9" } });
  await until(() => first.cursor === "e:5" && second.cursor === "e:5");
  peer.send(change("boards/b", "two", 7));
  await until(() => second.cursor === "e:7");
  peer.socket.destroy();
  await until(() => talks.length === 2 && talks[1].subscribes.length === 2);
  const after = Object.fromEntries(talks[1].subscribes.map(({ id, after }) => [id, after]));
  assert.deepEqual(after, { one: "e:5", two: "e:7" });
  await Promise.all([first.ready(), second.ready()]);
  assert.deepEqual(first.list.map(({ id }) => id), ["o2", "first of one"]);
  assert.deepEqual([first.reconnects, first.connected], [1, true]);
  first.close();
  await until(() => [...fake.peers][1].frames.some(({ payload }) => payload.includes("unsubscribe")));
  second.close();
  await until(() => [...fake.peers][1].frames.some(({ opcode }) => opcode === 8));
});

test("a subscription that is followed twice has two connections", SLOW, async (t) => {
  let connections = 0;
  const fake = await fakeService(t, { talk: (peer) => ++connections && serve(peer) });
  const rc = new Rankcast(fake.url, QUICK);
  const both = [0, 1].map(() => rc.board("b").watch("s", { transport: "websocket" }));
  await Promise.all(both.map((watch) => watch.ready()));
  assert.equal(connections, 2);
  rc.close();
});

test("what comes before an unsubscribe is answered is for nobody", SLOW, async (t) => {
  const fake = await fakeService(t, { talk: (peer) => serve(peer) });
  const rc = new Rankcast(fake.url, QUICK);
  const kept = rc.socket().watch("boards/b", "other");
  const old = rc.socket().watch("boards/b", "s");
  await Promise.all([kept.ready(), old.ready()]);
  const [peer] = fake.peers;
  const answer = peer.onmessage;
  peer.onmessage = (message) => {
    if (message.op === "unsubscribe") peer.send(change("boards/b", "s", 5));
    answer(message);
  };
  old.close();
  const again = rc.socket().watch("boards/b", "s");
  assert.equal((await again.next()).value.event, "snapshot");
  assert.equal(again.list.length, 1);
  rc.close();
});

test("a watcher that is refused rejects, and the others go on", SLOW, async (t) => {
  const fake = await fakeService(t, { talk: (peer) => serve(peer) });
  const rc = new Rankcast(fake.url, QUICK);
  const kept = rc.socket().watch("boards/b", "s");
  await kept.ready();
  const [peer] = fake.peers;
  peer.onmessage = ({ resource, id }) => {
    peer.send({ event: "error", resource, id, problem: { status: 404, type: "/problems/not-found", title: "Not found" } });
  };
  await assert.rejects(rc.socket().watch("boards/b", "nobody").next(), { status: 404, slug: "not-found" });
  peer.send(change("boards/b", "s", 2));
  await until(() => kept.list.length === 2);
  peer.send({ resource: "boards/b", id: "s", event: "gone", cursor: "e:3", seq: 3 });
  const seen = [];
  for await (const { event } of kept) seen.push(event);
  assert.deepEqual(seen, ["snapshot", "gone"]);
  rc.close();
});

test("a key is sent first, and a wrong one rejects all", SLOW, async (t) => {
  const fake = await fakeService(t, { talk: (peer) => serve(peer, { key: "right" }) });
  const good = new Rankcast(fake.url, { ...QUICK, key: "right" });
  await good.board("b").watch("s", { transport: "websocket" }).ready();
  good.close();
  const bad = new Rankcast(fake.url, { ...QUICK, key: "wrong" });
  const watch = bad.board("b").watch("s", { transport: "websocket" });
  const request = bad.socket().request("GET", "/v1/boards");
  await assert.rejects(watch.next(), { status: 401 });
  await assert.rejects(request, { status: 401 });
  bad.close();
});

test("a handshake that is refused says why, with a WebSocket that cannot too", SLOW, async (t) => {
  const fake = await fakeService(t, {
    answer: ({ response }) => problem(response, 403, "forbidden"),
    upgrade(request, socket) {
      socket.end('HTTP/1.1 401 Unauthorized\r\nContent-Length: 16\r\n\r\n{"title":"Gone"}');
      return false;
    },
  });
  const ticket = async () => "t";
  const watch = new Rankcast(fake.url, { ...QUICK, ticket }).board("b").watch("s", { transport: "websocket" });
  await assert.rejects(watch.next(), { status: 401, message: /Gone/ });
  class Blind {
    constructor() {
      setTimeout(() => this.onerror?.({ type: "error" }));
    }

    close() {}
  }
  const blind = new Rankcast(fake.url, { ...QUICK, ticket, WebSocket: Blind }).board("b").watch("s", { transport: "websocket" });
  await assert.rejects(blind.next(), { status: 403 });
  assert.equal(fake.requests[0].query.ticket, "t");
});

test("a service that is not there is unreachable", SLOW, async (t) => {
  const fake = await fakeService(t, { upgrade: (request, socket) => socket.destroy() && false });
  const rc = new Rankcast(fake.url, QUICK);
  await assert.rejects(rc.socket().request("GET", "/v1/boards"), Unreachable);
  rc.close();
});

test("tickets are asked for by resource, and a socket whose ticket lacks an id does not carry it", SLOW, async (t) => {
  const asked = [];
  const fake = await fakeService(t, { talk: (peer) => serve(peer) });
  const rc = new Rankcast(fake.url, { ...QUICK, ticket: async (wanted) => `t${asked.push(wanted)}` });
  const options = { transport: "websocket" };
  const first = [rc.board("b").watch("one", options), rc.board("b").watch("two", options), rc.board("c").watch("one", options)];
  await Promise.all(first.map((watch) => watch.ready()));
  await rc.board("b").watch("three", options).ready();
  assert.deepEqual(asked, [
    { resource: "boards/b", ids: ["one", "two"] },
    { resource: "boards/c", ids: ["one"] },
    { resource: "boards/b", ids: ["three"] },
  ]);
  assert.deepEqual([...fake.peers].map(({ request }) => request.url), ["t1", "t2", "t3"].map((one) => `/v1/stream?ticket=${one}`));
  rc.close();
});

test("requests are answered by their ref, refused as problems, and resolve to bodies", SLOW, async (t) => {
  let talk;
  const held = [];
  const fake = await fakeService(t, {
    talk(peer) {
      talk = serve(peer, {
        respond({ ref, path }) {
          if (path === "/v1/refused") {
            return { status: 422, body: { type: "/problems/invalid", title: "Invalid", status: 422 } };
          }
          held.push(ref);
          return null;
        },
      });
    },
  });
  const rc = new Rankcast(fake.url, QUICK);
  const socket = rc.socket();
  const body = { events: [] };
  const one = socket.request("POST", "/v1/boards/b/events?messages=count", body, { "Idempotency-Key": "mine" });
  const two = socket.request("GET", "/v1/boards/b/top?k=1");
  await assert.rejects(socket.request("PATCH", "/v1/refused", {}), { status: 422, slug: "invalid" });
  const [peer] = fake.peers;
  peer.send({ event: "response", ref: held[1], status: 200, body: { seq: 1, list: [] } });
  peer.send({ event: "response", ref: held[0], status: 201, body: { seq: 2 } });
  assert.deepEqual(await two, { seq: 1, list: [] });
  const done = await one;
  assert.deepEqual([done, done.status, done.body.seq], [{ seq: 2 }, 201, 2]);
  const { ref, ...sent } = talk.requests[0];
  const headers = { "Idempotency-Key": "mine" };
  assert.deepEqual(sent, { op: "request", method: "POST", path: "/v1/boards/b/events?messages=count", headers, body });
  assert.ok(!("Idempotency-Key" in (talk.requests[1].headers ?? {})));
  assert.match(talk.requests[2].headers["Idempotency-Key"], /^[0-9a-f]{32}$/);
  rc.close();
});

test("requests without a response are sent again in order under their keys", SLOW, async (t) => {
  const talks = [];
  const fake = await fakeService(t, {
    talk(peer, count) {
      talks.push(serve(peer, { respond: ({ path }) => (count > 1 ? { status: 200, body: { path } } : null) }));
    },
  });
  const rc = new Rankcast(fake.url, QUICK);
  const paths = ["/v1/a", "/v1/b", "/v1/c"];
  const answers = paths.map((path) => rc.socket().request("POST", path, {}));
  await until(() => talks[0]?.requests.length === 3);
  [...fake.peers][0].socket.destroy();
  assert.deepEqual((await Promise.all(answers)).map(({ path }) => path), paths);
  const keys = talks.map(({ requests }) => requests.map(({ path, headers }) => [path, headers["Idempotency-Key"]]));
  assert.deepEqual(keys[0], keys[1]);
  rc.close();
});

test("half a surrogate pair is refused before it is sent", SLOW, async (t) => {
  const fake = await fakeService(t, { talk: (peer) => serve(peer, { respond: ({ body }) => ({ status: 200, body }) }) });
  const rc = new Rankcast(fake.url, QUICK);
  const socket = rc.socket();
  for (const text of ["\ud83d", "a\udfff", "\\\ud800", "\ude00\ud83d"]) {
    await assert.rejects(socket.request("PUT", "/v1/boards/b", { payload: [text] }), TypeError);
  }
  for (const text of ["😀", "\\ud83d", "\\\\ud83d", "é\u0000"]) {
    assert.deepEqual(await socket.request("PUT", "/v1/boards/b", { payload: text }), { payload: text });
  }
  rc.close();
});

test("a busy service is asked again, when it says so", SLOW, async (t) => {
  const times = [];
  const fake = await fakeService(t, {
    talk: (peer) =>
      serve(peer, {
        respond(message, count) {
          times.push(performance.now());
          if (count > 1) return { status: 200, body: {} };
          return { status: 503, body: { title: "Busy", status: 503 }, headers: { "Retry-After": "0.2" } };
        },
      }),
  });
  const rc = new Rankcast(fake.url, QUICK);
  assert.deepEqual(await rc.socket().request("PUT", "/v1/boards/b", {}), {});
  assert.ok(times[1] - times[0] >= 199);
  rc.close();
});

test("no more requests are under way than the service takes", SLOW, async (t) => {
  let talk;
  const fake = await fakeService(t, { talk: (peer) => (talk = serve(peer, { respond: () => null })) });
  const rc = new Rankcast(fake.url, QUICK);
  const answers = Array.from({ length: 300 }, (_, n) => rc.socket().request("GET", `/v1/${n}`));
  await until(() => talk?.requests.length === 256);
  const [peer] = fake.peers;
  for (const { ref } of [...talk.requests]) peer.send({ event: "response", ref, status: 200, body: { ref } });
  await until(() => talk.requests.length === 300);
  for (const { ref } of talk.requests.slice(256)) peer.send({ event: "response", ref, status: 200, body: { ref } });
  assert.equal((await Promise.all(answers)).length, 300);
  const giving = new AbortController();
  const given = rc.socket().request("GET", "/v1/given", undefined, {}, { signal: giving.signal });
  giving.abort(new Error("enough"));
  await assert.rejects(given, /enough/);
  const last = rc.socket().request("GET", "/v1/last");
  rc.close();
  await assert.rejects(last, Unreachable);
  assert.throws(() => rc.socket(), /closed/);
});

test("a service that knows no requests refuses them", SLOW, async (t) => {
  const fake = await fakeService(t, {
    talk(peer) {
      peer.onmessage = () => peer.send({ event: "error", resource: null, id: null, problem: { status: 422, title: "op" } });
    },
  });
  const rc = new Rankcast(fake.url, QUICK);
  await assert.rejects(rc.socket().request("GET", "/v1/boards"), { status: 422 });
  rc.close();
});

test("a silent connection is pinged, then left", SLOW, async (t) => {
  const fake = await fakeService(t, { talk: (peer, count) => count > 1 && serve(peer) });
  const rc = new Rankcast(fake.url, { ...QUICK, heartbeat: 0.05 });
  await rc.board("b").watch("s", { transport: "websocket" }).ready();
  const [first] = fake.peers;
  assert.ok(first.frames.some(({ payload }) => payload.toString() === '{"op":"ping"}'));
  rc.close();
});

test("an expired ticket is renewed", SLOW, async (t) => {
  let made = 0;
  const fake = await fakeService(t, { talk: (peer) => serve(peer) });
  const rc = new Rankcast(fake.url, { ...QUICK, ticket: async () => `t${++made}` });
  const watch = rc.board("b").watch("s", { transport: "websocket" });
  await watch.ready();
  [...fake.peers][0].send({ resource: "boards/b", id: "s", event: "gone", cursor: "e:1", seq: 1, reason: "expired" });
  await until(() => made === 2 && watch.current);
  assert.equal(watch.gone, false);
  rc.close();
});
