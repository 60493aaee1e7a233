/** Requests: what is sent, retries under one key, refusals. */

import assert from "node:assert/strict";
import test from "node:test";

import { ProblemError, Rankcast, Unreachable } from "../index.js";
import { QUICK, fakeService, json, problem } from "./fake-service.js";

test("a write is sent again under the same key until it is answered", async (t) => {
  const { url, requests } = await fakeService(t, {
    answer({ response }, count) {
      if (count === 1) response.socket.destroy();
      else if (count === 2) problem(response, 503, "not-ready", { "Retry-After": "0.01" });
      else if (count === 3) problem(response, 409, "in-progress");
      else json(response, 200, { seq: 4, applied: 1, replayed: true });
    },
  });
  const rc = new Rankcast(url, { ...QUICK, key: "secret" });
  const done = await rc.board("b").publish({ op: "delete", id: "o" });
  assert.deepEqual(done, { seq: 4, applied: 1, replayed: true });
  const keys = new Set(requests.map(({ headers }) => headers["idempotency-key"]));
  assert.equal(keys.size, 1);
  assert.match([...keys][0], /^[0-9a-f]{32}$/);
  assert.equal(requests[0].headers.authorization, "Bearer secret");
  assert.deepEqual(JSON.parse(requests[3].body), { messages: "count", events: [{ op: "delete", id: "o" }] });
});

test("Retry-After is waited for", async (t) => {
  const times = [];
  const { url } = await fakeService(t, {
    answer({ response }, count) {
      times.push(performance.now());
      if (count === 1) problem(response, 503, "not-ready", { "Retry-After": "0.2" });
      else json(response, 200, { seq: 1 });
    },
  });
  await new Rankcast(url, QUICK).board("b").info();
  assert.ok(times[1] - times[0] >= 199, "it never asks before");
});

test("a refusal has its status and its problem, and is not tried again", async (t) => {
  const { url, requests } = await fakeService(t, {
    answer: ({ response }) =>
      json(response, 422, {
        type: "/problems/invalid", title: "Not valid", status: 422, detail: "See errors.",
        errors: [{ field: "events[0].id", reason: "is unknown" }],
      }),
  }); // prettier-ignore
  const refused = await new Rankcast(url, QUICK).board("b").publish([]).catch((error) => error);
  assert.ok(refused instanceof ProblemError && refused instanceof Error);
  assert.equal(refused.status, 422);
  assert.equal(refused.problem.errors[0].field, "events[0].id");
  assert.equal(refused.slug, "invalid");
  assert.match(refused.message, /422 Not valid: See errors. \(events\[0\].id: is unknown\)/);
  assert.equal(requests.length, 1);
});

test("what is no JSON is a problem too", async (t) => {
  const { url } = await fakeService(t, { answer: ({ response }) => response.writeHead(413).end("<h1>Too large</h1>") });
  await assert.rejects(new Rankcast(url, QUICK).board("b").info(), { status: 413, message: /Too large/ });
});

test("a service that does not answer is unreachable, with the key of the write", async (t) => {
  const { url, requests } = await fakeService(t, { answer: ({ response }) => response.socket.destroy() });
  const lost = await new Rankcast(url, QUICK).board("b").publish([], { idempotencyKey: "mine" }).catch((error) => error);
  assert.ok(lost instanceof Unreachable);
  assert.equal(lost.idempotencyKey, "mine");
  assert.equal(requests.length, 4);
});

test("a signal gives up a request, and closing the client all of them", async (t) => {
  const { url } = await fakeService(t);
  const rc = new Rankcast(url, QUICK);
  const giving = new AbortController();
  const asked = rc.board("b").info({ signal: giving.signal });
  giving.abort(new Error("enough"));
  await assert.rejects(asked, /enough/);
  const many = Array.from({ length: 30 }, () => rc.board("b").info().catch(({ message }) => message));
  rc.close();
  assert.deepEqual([...new Set(await Promise.all(many))], ["this client has been closed"]);
  await assert.rejects(rc.board("b").info(), /closed/);
});

test("an attempt that takes too long is given up", async (t) => {
  const { url } = await fakeService(t, { answer: ({ response }, count) => count > 1 && json(response, 200, { seq: 0 }) });
  assert.deepEqual(await new Rankcast(url, { ...QUICK, timeout: 0.05 }).board("b").info(), { seq: 0 });
});

test("questions carry no key, and many elements go as lines", async (t) => {
  const { url, requests } = await fakeService(t, { answer: ({ response }) => json(response, 200, { seq: 1, list: [] }) });
  const rc = new Rankcast(url, QUICK);
  await rc.map("m").top({ location: [1, 2], k: 1, score: {} });
  await rc.matcher("m").match({ values: { x: [1, Infinity] } });
  await rc.matcher("m").match([{ values: { x: 1 } }], { notify: true });
  await rc.board("b").publish(Array.from({ length: 1001 }, (_, n) => ({ op: "delete", id: `o${n}` })), { mode: "batch" });
  await rc.board("b").publish(new Uint8Array([1, 2]), { onError: "skip" });
  await rc.board("b").top({ l: { x: 1, y: Infinity }, r: { x: 2 }, k: 3, where: { to: "IAH" } });
  await rc.board("b").top({ l: 1.5, r: null, offset: 2 });
  const keyed = requests.map(({ headers }) => "idempotency-key" in headers);
  assert.deepEqual(keyed, [false, false, true, true, true, false, false]);
  assert.deepEqual(JSON.parse(requests[1].body).events, [{ values: { x: [1, null] } }]);
  assert.equal(requests[3].headers["content-type"], "application/x-ndjson");
  assert.equal(requests[3].body.split("\n").length, 1001);
  assert.deepEqual(requests[3].query, { mode: "batch", messages: "count" });
  assert.equal(requests[4].headers["content-type"], "application/vnd.apache.arrow.stream");
  assert.deepEqual(requests[5].query, { "l.x": "1", "r.x": "2", k: "3", "where.to": '"IAH"' });
  assert.deepEqual(requests[6].query, { l: "1.5", offset: "2" });
});

test("a pair is a range on a board with one range attribute", async (t) => {
  const { url, requests } = await fakeService(t, {
    answer: ({ response }) => json(response, 200, { seq: 1, range_attributes: ["x"] }),
  });
  const board = new Rankcast(url, QUICK).board("b");
  await board.putSubscription("s", { range: [1, Infinity], k: 2 });
  await board.register([{ range: [null, 2], k: 2 }, { range: { x: [0, 1] }, k: 2 }], { lists: false });
  assert.deepEqual(JSON.parse(requests[1].body), { range: { x: [1, null] }, k: 2 });
  const made = { lists: false, subscriptions: [{ range: { x: [null, 2] }, k: 2 }, { range: { x: [0, 1] }, k: 2 }] };
  assert.deepEqual(JSON.parse(requests[2].body), made);
  assert.equal(requests.length, 3);
  await assert.rejects(board.putSubscription("s", { range: [NaN, 1], k: 2 }), TypeError);
});

test("what cannot be a name is no path", () => {
  const rc = new Rankcast("http://localhost:1/base/");
  assert.equal(rc.url, "http://localhost:1/base");
  for (const name of ["", ".", "..", "a/b", "a?b", "ä", "x".repeat(129), 7]) assert.throws(() => rc.board(name), TypeError);
  assert.throws(() => new Rankcast("ftp://localhost"), TypeError);
});

test("listings are fetched page by page", async (t) => {
  const { url, requests } = await fakeService(t, {
    answer: ({ query, response }) => json(response, 200, { items: [{ id: query.cursor ?? "a" }], next: query.cursor ? null : "b" }),
  });
  const found = [];
  for await (const one of new Rankcast(url, QUICK).board("b").objects()) found.push(one.id);
  assert.deepEqual(found, ["a", "b"]);
  assert.equal(requests[0].query.limit, "1000");
});

test("commands of a relay are answered line by line, up to one that is refused", async (t) => {
  const { url, requests } = await fakeService(t, {
    answer: ({ response }, count) =>
      response.end(count === 1 ? '{"id":"a"}\n{"id":"b"}\n' : '{"problem":{"status":422,"title":"No"}}\n'),
  });
  const relay = new Rankcast(url, QUICK).relay("r");
  const answers = [];
  for await (const one of relay.commands([{ op: "subscribe", id: "a", box: { x: [0, Infinity] } }])) answers.push(one.id);
  assert.deepEqual(answers, ["a", "b"]);
  assert.equal(requests[0].body, '{"op":"subscribe","id":"a","box":{"x":[0,null]}}');
  await assert.rejects(relay.commands([{ op: "unsubscribe", id: "z" }]).next(), { status: 422 });
});
