/** Watchers over server-sent events: resuming, heartbeats, refusals, slow consumers. */

import assert from "node:assert/strict";
import test from "node:test";

import { Rankcast, Unreachable } from "../index.js";
import { QUICK, fakeService, json, problem, stream, until } from "./fake-service.js";

const LIST = [{ rank: 1, id: "a", values: { y: 1 }, created: 0 }];

function change(seq, id, rank) {
  return { seq, changes: [{ id, old_rank: null, new_rank: rank, values: { y: seq }, created: seq }] };
}

function ids(watcher) {
  return watcher.list.map(({ rank, id }) => `${rank}${id}`).join();
}

test("a lost stream goes on where it was, and ends when the subscription does", { timeout: 60_000 }, async (t) => {
  const { url, requests } = await fakeService(t, {
    answer({ response }, count) {
      if (count === 2) return problem(response, 503, "not-ready", { "Retry-After": "0.01" });
      const say = stream(response);
      if (count === 1) {
        say("snapshot", { seq: 1, list: LIST }, "e:1");
        say("ready", { seq: 1 }, "e:1");
        say("change", change(2, "b", 1), "e:2");
        response.write("id: e:7\n\n");
        return response.end("id: e:8\nevent: change\ndata: {");
      }
      say("change", change(9, "c", 3), "e:9");
      say("gone", { seq: 10 }, "e:10");
      return response.end();
    },
  });
  const rc = new Rankcast(url, { ...QUICK, key: () => "fresh" });
  const watch = rc.board("b").watch("s", { old: true, squash: 0.5 });
  const seen = [];
  for await (const { event, seq } of watch) seen.push([event, seq, ids(watch)]);
  assert.deepEqual(seen.at(-1), ["gone", 10, "1b,2a,3c"]);
  assert.deepEqual(seen.at(-2), ["change", 9, "1b,2a,3c"]);
  assert.equal(watch.gone, true);
  assert.ok(watch.reconnects >= 2);
  assert.deepEqual(requests[0].query, { ready: "true", old: "true", squash: "0.5" });
  assert.equal(requests[0].headers.authorization, "Bearer fresh");
  assert.equal(requests.at(-1).query.after, "e:7");
  rc.close();
});

test("a silent connection is left and resumed", { timeout: 60_000 }, async (t) => {
  const { url, requests } = await fakeService(t, {
    answer({ response }) {
      const say = stream(response);
      say("snapshot", { seq: requests.length, list: LIST }, `e:${requests.length}`);
    },
  });
  const rc = new Rankcast(url, { ...QUICK, heartbeat: 0.05 });
  const watch = rc.board("b").watch("s");
  for await (const { seq } of watch) if (seq === 2) break;
  assert.equal(requests[1].query.after, "e:1");
  watch.close();
  assert.deepEqual(await watch.next(), { value: undefined, done: true });
  assert.deepEqual(await Promise.race([watch.ready().catch((error) => error.name)]), "RankcastError");
});

for (const status of [401, 403, 404]) {
  test(`a stream that is refused with ${status} rejects`, { timeout: 60_000 }, async (t) => {
    const { url, requests } = await fakeService(t, { answer: ({ response }) => problem(response, status) });
    const watch = new Rankcast(url, QUICK).board("b").watch("s");
    await assert.rejects(watch.next(), { status });
    assert.deepEqual(await watch.next(), { value: undefined, done: true });
    assert.equal(requests.length, 1);
  });
}

test("a refusal after the stream was there rejects too", { timeout: 60_000 }, async (t) => {
  const { url } = await fakeService(t, {
    answer({ response }, count) {
      if (count > 1) return problem(response, 401);
      stream(response)("snapshot", { seq: 1, list: LIST }, "e:1");
      return response.end();
    },
  });
  const watch = new Rankcast(url, QUICK).board("b").watch("s");
  assert.equal((await watch.next()).value.event, "snapshot");
  await assert.rejects(watch.next(), { status: 401 });
});

test("a service that is not there rejects, and one that comes back does not", { timeout: 60_000 }, async (t) => {
  const { url } = await fakeService(t, { answer: ({ response }) => response.socket.destroy() });
  await assert.rejects(new Rankcast(url, QUICK).board("b").watch("s").next(), Unreachable);
});

test("each connection has a new ticket, and an expired stream goes on with the next", { timeout: 60_000 }, async (t) => {
  const { url, requests } = await fakeService(t, {
    answer({ response }, count) {
      const say = stream(response);
      say("snapshot", { seq: count, list: LIST }, `e:${count}`);
      if (count === 1) say("gone", { seq: 1, reason: "expired" }, "e:1");
      if (count === 1) response.end();
    },
  });
  let made = 0;
  const asked = [];
  const ticket = async (wanted) => {
    asked.push(wanted);
    return `t${++made}`;
  };
  const rc = new Rankcast(url, { ...QUICK, ticket });
  for await (const { seq } of rc.board("b").watch("s")) if (seq === 2) break;
  assert.deepEqual(requests.map(({ query }) => query.ticket), ["t1", "t2"]);
  assert.deepEqual(asked[0], { resource: "boards/b", ids: ["s"] });
  assert.ok(!("authorization" in requests[0].headers));
  rc.close();
});

test("a slow consumer of a list gets the latest one, and never more than its buffer", { timeout: 60_000 }, async (t) => {
  let say;
  const { url } = await fakeService(t, {
    answer({ response }) {
      say = stream(response);
      say("snapshot", { seq: 0, list: [] }, "e:0");
    },
  });
  const rc = new Rankcast(url, QUICK);
  const watch = rc.board("b").watch("s", { buffer: 3 });
  assert.equal((await watch.next()).value.seq, 0);
  for (let seq = 1; seq <= 50; seq++) say("change", change(seq, `o${seq}`, 1), `e:${seq}`);
  await until(() => watch.cursor === "e:50");
  const { value } = await watch.next();
  assert.deepEqual([value.event, value.seq, value.squashed, value.list.length], ["reset", 50, true, 50]);
  assert.equal(watch.list, value.list);
  say("change", change(51, "last", 51), "e:51");
  assert.equal((await watch.next()).value.event, "change");
  assert.equal(watch.list.at(-1).id, "last");
  rc.close();
});

test("before anybody iterates the list is the latest", { timeout: 60_000 }, async (t) => {
  const { url } = await fakeService(t, {
    answer({ response }) {
      const say = stream(response);
      say("snapshot", { seq: 1, list: LIST }, "e:1");
      say("change", change(2, "b", 1), "e:2");
      say("ready", { seq: 2 }, "e:2");
    },
  });
  const rc = new Rankcast(url, QUICK);
  const watch = rc.board("b").watch("s");
  await watch.ready();
  assert.equal(ids(watch), "1b,2a");
  assert.deepEqual([watch.seq, watch.current], [2, true]);
  const { value } = await watch.next();
  assert.deepEqual([value.event, value.seq, value.list.length], ["snapshot", 2, 2]);
  rc.close();
});

test("of single events the oldest are dropped, and it is said", { timeout: 60_000 }, async (t) => {
  let say;
  const { url } = await fakeService(t, {
    answer({ response }) {
      say = stream(response);
      say("ready", { seq: 0 }, "e:0");
    },
  });
  const rc = new Rankcast(url, QUICK);
  const wins = rc.matcher("m").watch("s", { buffer: 2 });
  assert.equal((await wins.next()).value.event, "ready");
  for (let seq = 1; seq <= 5; seq++) say("win", { seq, rank: 1, score: 1, values: {} }, `e:${seq}`);
  await until(() => wins.cursor === "e:5");
  const seen = [await wins.next(), await wins.next(), await wins.next()].map(({ value }) => [value.event, value.seq]);
  assert.deepEqual(seen, [["reset", 3], ["win", 4], ["win", 5]]);
  rc.close();
});

test("a change that does not fit the list asks for the whole one", { timeout: 60_000 }, async (t) => {
  const { url, requests } = await fakeService(t, {
    answer({ response }, count) {
      const say = stream(response);
      say("snapshot", { seq: count, list: LIST }, `e:${count}`);
      if (count === 1) say("change", change(2, "b", 9), "e:2");
    },
  });
  const rc = new Rankcast(url, QUICK);
  const watch = rc.board("b").watch("s");
  const seen = [];
  for await (const { event, seq } of watch) {
    seen.push(event);
    if (seq === 2) break;
  }
  assert.ok(seen.every((event) => event === "snapshot"));
  assert.ok(!("after" in requests[1].query));
  rc.close();
});

test("with tiles the subscription is fetched for each whole list", { timeout: 60_000 }, async (t) => {
  const tile = { k: 2, l_outer: null, l_inner: 0, r_inner: 9, r_outer: null };
  const object = { id: "b", values: { x: 1, y: 0 }, created: 1, gone: false };
  const { url, requests } = await fakeService(t, {
    answer({ path, response }) {
      if (path === "/v1/boards/b") return json(response, 200, { rank: { attribute: "y", order: "asc" } });
      if (path === "/v1/boards/b/subscriptions/s") return json(response, 200, { range: { x: [0, 9] }, k: 2 });
      const say = stream(response);
      say("snapshot", { seq: 1, list: LIST }, "e:1");
      say("ready", { seq: 1 }, "e:1");
      return say("tiles", { seq: 2, tiles: [{ ...tile, object }] }, "e:2");
    },
  });
  const rc = new Rankcast(url, QUICK);
  const watch = rc.board("b").watch("s", { form: "tiles" });
  for await (const { seq } of watch) if (seq === 2) break;
  assert.equal(ids(watch), "1b,2a");
  assert.equal(requests.length, 3);
  const known = { subscription: { range: { x: [0, 9] }, k: 2 }, board: { rank: { attribute: "y", order: "asc" } } };
  const other = rc.board("b").watch("s", { form: "tiles", known });
  await until(() => other.seq === 2);
  assert.equal(ids(other), "1b,2a");
  assert.equal(requests.length, 4);
  rc.close();
});

test("a signal ends a watcher with its reason", { timeout: 60_000 }, async (t) => {
  const { url } = await fakeService(t, { answer: ({ response }) => stream(response) });
  const giving = new AbortController();
  const watch = new Rankcast(url, QUICK).board("b").watch("s", { signal: giving.signal });
  const next = watch.next();
  giving.abort(new Error("enough"));
  await assert.rejects(next, /enough/);
});

test("what a resource does not have is refused at once", () => {
  const rc = new Rankcast("http://localhost:1");
  assert.throws(() => rc.feed("f").watch("s", { form: "tiles" }), TypeError);
  assert.throws(() => rc.board("b").watch("s", { transport: "pigeon" }), TypeError);
  assert.throws(() => rc.socket().watch("boats/b", "s"), TypeError);
  assert.throws(() => rc.board("b").watch("a/b"), TypeError);
});

test("a standing query has its answer, and its list", { timeout: 60_000 }, async (t) => {
  const answer = { seq: 1, location: [0, 0], list: [{ rank: 1, id: "r" }], candidates: [], zone: { center: [0, 0], radius: 1 } };
  const { url, requests } = await fakeService(t, {
    answer({ response }) {
      const say = stream(response);
      say("snapshot", answer, "e:1");
      say("result", { ...answer, seq: 2, list: [{ rank: 1, id: "q" }] }, "e:2");
      say("result", { seq: 3, skyline: [{ id: "z" }], zone: null }, "e:3");
    },
  });
  const rc = new Rankcast(url, QUICK);
  const watch = rc.map("m").watch("q");
  for await (const { seq } of watch) if (seq === 3) break;
  assert.deepEqual(watch.list, [{ id: "z", rank: 1 }]);
  assert.equal(watch.answer.zone, null);
  assert.equal(requests[0].path, "/v1/maps/m/queries/q/stream");
  rc.close();
});
