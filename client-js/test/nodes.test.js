/** Clients of several nodes: what is tried next, and that requests, streams and sockets go on elsewhere. */

import assert from "node:assert/strict";
import test from "node:test";

import { Rankcast, Unreachable } from "../index.js";
import { Nodes } from "../src/nodes.js";
import { QUICK, fakeService, json, problem, stream, until } from "./fake-service.js";

const SLOW = { timeout: 60_000 };
const [A, B, C] = ["http://a:1", "http://b:2", "https://c/base"];
const ENTRY = (id) => ({ rank: 1, id, values: {}, created: 0 });

/** A node that says at `/readyz` what its `role` is (null: it answers nothing) and leaves the rest to `answer`. */
async function node(t, role, answer, talk) {
  const self = { role, asked: [] };
  const service = await fakeService(t, {
    answer(request) {
      const { path, response } = request;
      if (self.role === null) return response.socket.destroy();
      if (path === "/readyz") return json(response, 200, { role: self.role, term: 0 });
      self.asked.push(request);
      return answer(request, self.asked.length);
    },
    talk,
    upgrade: (_, socket) => self.role !== null || (socket.destroy(), false),
  });
  return Object.assign(self, { url: service.url, peers: service.peers });
}

test("URLs are a text with commas or an array", () => {
  assert.deepEqual(new Nodes(`${A}/, ${B},${A}`).urls, [A, B]);
  assert.deepEqual(new Nodes([A, B]).urls, [A, B]);
  for (const wrong of [[], [A, "ftp://b"], `${A},`, Array.from({ length: 17 }, (_, i) => `http://n${i}`)]) {
    assert.throws(() => new Nodes(wrong), TypeError);
  }
});

test("the order is kept, and who failed is last for a moment", () => {
  let now = 100;
  const nodes = new Nodes([A, B, C], () => now);
  nodes.failed(A);
  assert.deepEqual(nodes.ordered, [B, C, A]);
  now += 1;
  nodes.failed(B);
  assert.deepEqual(nodes.ordered, [C, A, B]);
  now += 4;
  assert.deepEqual(nodes.ordered, [A, C, B]);
  const tried = new Set();
  for (const expected of [A, C, B]) {
    assert.equal(nodes.turn(tried), expected);
    tried.add(expected);
  }
  assert.equal(nodes.left(tried), false);
  assert.equal(nodes.turn(tried), A);
  assert.equal(tried.size, 0);
});

test("the leader is the one of the highest term, is first, and is forgotten when it fails", () => {
  let now = 100;
  const nodes = new Nodes([A, B, C], () => now);
  assert.ok(nodes.wantsLeader);
  assert.deepEqual(nodes.asking(), [A, B, C]);
  assert.ok(!nodes.wantsLeader, "it is being asked");
  nodes.learn([[A, { role: "leader", term: 1 }], [B, null], [C, { role: "leader", term: 2 }]]); // prettier-ignore
  assert.deepEqual(nodes.ordered, [C, A, B]);
  nodes.doubt(C);
  assert.ok(!nodes.wantsLeader);
  now += 1;
  assert.ok(nodes.wantsLeader);
  nodes.failed(C);
  assert.equal(nodes.leader, null);
  assert.ok(nodes.wantsLeader);
  assert.deepEqual(nodes.asking(), [A, B]);
  assert.ok(!new Nodes(A).wantsLeader, "one alone is never asked");
});

test("reads go to the first, and on at the next when it goes away or refuses for now", async (t) => {
  const first = await node(t, "leader", ({ response }) => problem(response, 503, "not-ready"));
  const second = await node(t, "replica", ({ response }) => json(response, 200, { seq: 4 }));
  const rc = new Rankcast([first.url, second.url], QUICK);
  assert.equal(rc.url, first.url);
  assert.equal((await rc.board("b").info()).seq, 4);
  assert.equal(first.asked.length, 1);
  first.role = null;
  assert.equal((await rc.board("b").info()).seq, 4);
  second.role = null;
  await assert.rejects(rc.board("b").info(), (error) => error instanceof Unreachable && /, http/.test(error.message));
});

test("writes go to the leader, and to the next under one key when it goes away", async (t) => {
  const first = await node(t, "replica", ({ response }, count) => {
    if (count === 1) problem(response, 409, "in-progress");
    else json(response, 200, { seq: 1, applied: 1, replayed: true });
  });
  const second = await node(t, "leader", ({ response }) => {
    Object.assign(second, { role: null });
    Object.assign(first, { role: "leader" });
    response.socket.destroy();
  });
  const rc = new Rankcast(`${first.url},${second.url}`, QUICK);
  assert.ok((await rc.board("b").publish({ op: "delete", id: "o" })).replayed);
  const keys = [...first.asked, ...second.asked].map(({ headers }) => headers["idempotency-key"]);
  assert.equal(second.asked.length, 1);
  assert.equal(keys.length, 3);
  assert.equal(new Set(keys).size, 1);
  await assert.rejects(rc.request("POST", "/v1/admin/promote"), /name the node/);
});

test("a stream goes on at the next from its cursor, and is not ended by a replica that is behind", SLOW, async (t) => {
  const first = await node(t, "leader", ({ response }, count) => {
    const say = stream(response);
    if (count === 1) {
      say("snapshot", { seq: 4, list: [ENTRY("a")] }, "e:4");
      setTimeout(() => response.socket.destroy(), 20);
    } else {
      say("change", { seq: 6, changes: [{ ...ENTRY("c"), old_rank: null, new_rank: 1 }] }, "e:6");
    }
  });
  const second = await node(t, "replica", ({ response }) => problem(response, 404, "not-found"));
  const rc = new Rankcast([first.url, second.url], QUICK);
  const lists = [];
  const watch = rc.board("b").watch("mine");
  while (lists.length < 2) {
    await watch.next();
    lists.push(watch.list.map(({ id }) => id));
  }
  assert.deepEqual(lists, [["a"], ["c", "a"]]);
  assert.ok(second.asked.length >= 1);
  assert.equal(second.asked[0].query.after, "e:4");
  assert.equal(first.asked[1].query.after, "e:4");
  rc.close();
});

test("a stream ends when the leader does not know its subscription", SLOW, async (t) => {
  const first = await node(t, "replica", ({ response }) => {
    stream(response)("snapshot", { seq: 4, list: [] }, "e:4");
    setTimeout(() => response.socket.destroy(), 20);
  });
  const second = await node(t, "leader", ({ response }) => problem(response, 404, "not-found"));
  const watch = new Rankcast([first.url, second.url], QUICK).board("b").watch("mine");
  await watch.next();
  await assert.rejects(watch.next(), { status: 404 });
});

/** What a node says on a WebSocket. */
function talking(said, { known = true, list = "a" } = {}) {
  return (peer) => {
    peer.onmessage = (message) => {
      said.push(message);
      const { op, resource, id, ref, after } = message;
      if (op === "subscribe" && known) {
        peer.send({ resource, id, event: after ? "reset" : "snapshot", cursor: "e:4", seq: 4, list: [ENTRY(list)] });
        peer.send({ resource, id, event: "ready", cursor: "e:4", seq: 4 });
      } else if (op === "subscribe") {
        peer.send({ resource, id, event: "error", problem: { type: "/problems/not-found", status: 404 } });
      } else if (op === "ping") {
        peer.send({ event: "pong" });
      } else if (op === "request") {
        peer.send({ event: "response", ref, status: 200, body: { seq: ref } });
      }
    };
  };
}

test("a socket goes on at the next, resumes there, and leaves a replica that is behind", SLOW, async (t) => {
  const [said, behind] = [[], []];
  const nothing = () => {};
  const first = await node(t, "leader", nothing, talking(said));
  const second = await node(t, "replica", nothing, talking(behind, { known: false }));
  const rc = new Rankcast([first.url, second.url], QUICK);
  const watch = rc.board("b").watch("mine", { transport: "websocket" });
  await watch.ready();
  for (const peer of first.peers) peer.socket.destroy();
  await until(() => watch.reconnects >= 2 && watch.current);
  assert.equal(behind.find(({ op }) => op === "subscribe").after, "e:4");
  assert.equal(watch.gone, false);
  rc.close();
});

test("requests of a socket go to the leader, and on when it goes away", SLOW, async (t) => {
  const [here, there] = [[], []];
  const nothing = () => {};
  const first = await node(t, "replica", nothing, talking(here));
  const second = await node(t, "leader", nothing, (peer) => {
    peer.onmessage = (message) => {
      there.push(message);
      if (message.op === "request") peer.socket.destroy();
    };
  });
  const rc = new Rankcast([first.url, second.url], QUICK);
  const path = "/v1/boards/b/objects/o";
  assert.equal((await rc.socket().request("PUT", path, { values: {} })).seq, 1);
  const sent = [...there, ...here].filter(({ op }) => op === "request");
  assert.equal(sent.length, 2);
  assert.equal(sent[0].headers["Idempotency-Key"], sent[1].headers["Idempotency-Key"]);
  rc.close();
});
