/** Requests over the WebSocket: `node requests.mjs URL`, on a service that is killed once `half` is said. */

import assert from "node:assert/strict";

import { Rankcast } from "../../../client-js/index.js";

const [url] = process.argv.slice(2);
const rc = new Rankcast(url, { retry: { attempts: 10_000, most: 0.2 } });
const socket = rc.socket();
const made = await socket.request("PUT", "/v1/boards/asked", {
  range_attributes: ["x"],
  rank: { attribute: "y", order: "desc" },
  ks: [3],
});
assert.deepEqual([made.status, made.body.name, made.seq], [201, "asked", 0]);
await socket.request("PUT", "/v1/boards/asked/subscriptions/s", { k: 3 });
const watch = socket.watch("boards/asked", "s");
await watch.ready();

// Many at once: writes are applied in the order of the calls.
const answers = [];
for (let n = 0; n < 600; n++) {
  if (n === 300) {
    await Promise.all(answers);
    console.log("half");
  }
  const event = { op: "upsert", id: `o${n % 7}`, values: { x: n, y: n } };
  answers.push(socket.request("POST", "/v1/boards/asked/events?messages=count", { events: [event] }));
}
const seqs = (await Promise.all(answers)).map(({ seq }) => seq);
assert.deepEqual(seqs, Array.from({ length: 600 }, (_, n) => n + 2));

const { list } = await socket.request("GET", "/v1/boards/asked/top?k=3");
assert.deepEqual(list.map(({ values }) => values.y), [599, 598, 597]);
for await (const { seq } of watch) if (seq === 601) break;
assert.deepEqual(watch.list.map(({ rank, values }) => [rank, values.y]), [[1, 599], [2, 598], [3, 597]]);

const key = { "Idempotency-Key": "one" };
const body = { events: [{ op: "delete", id: "o0" }] };
const first = await socket.request("POST", "/v1/boards/asked/events", body, key);
const again = await socket.request("POST", "/v1/boards/asked/events", body, key);
assert.deepEqual([again.seq, again.replayed], [first.seq, true]);
for (const [method, path, status] of [
  ["GET", "/v1/boards/nothing", 404],
  ["POST", "/v1/boards/asked/events", 422],
  ["GET", "/v1/boards/asked/subscriptions/s/stream", 422],
  ["PATCH", "/elsewhere", 404],
]) {
  const refused = await socket.request(method, path, method === "GET" ? null : {}).catch((error) => error);
  assert.deepEqual([refused.name, refused.status], ["ProblemError", status], path);
}
await socket.request("DELETE", "/v1/boards/asked");
for await (const { event } of watch) assert.equal(event, "gone");
console.log(JSON.stringify({ reconnects: socket.reconnects }));
rc.close();
