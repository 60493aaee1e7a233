/** Each verb of each resource once. `node verbs.mjs URL` says each request as a line: method and path. */

import { createServer } from "node:http";
import assert from "node:assert/strict";

import { Rankcast } from "../../../client-js/index.js";

const [url] = process.argv.slice(2);
const asked = [];
const rc = new Rankcast(url, {
  fetch(target, options) {
    asked.push(`${options.method} ${new URL(target).pathname}`);
    return fetch(target, options);
  },
});

async function all(listing) {
  const found = [];
  for await (const one of listing) found.push(one);
  return found;
}

async function next(watcher, event) {
  for (;;) {
    const { value } = await watcher.next();
    if (value.event === event) return value;
  }
}

assert.equal(await rc.ready(), true);

// Boards
const board = rc.board("verbs");
assert.equal((await board.put({ range_attributes: ["x"], rank: { attribute: "y" }, ks: [2] })).name, "verbs");
assert.deepEqual((await board.patch({ ks: [2, 3] })).ks, [2, 3]);
assert.equal((await board.publish([{ op: "upsert", id: "a", values: { x: 1, y: 1 } }], { messages: "full" })).applied, 1);
await board.upsert("b", { values: { x: 2, y: 0 }, payload: { to: "IAH" } });
await board.update("b", { values: { y: 5 } });
assert.deepEqual((await board.object("b")).values, { x: 2, y: 5 });
assert.deepEqual((await all(board.objects())).map(({ id }) => id), ["a", "b"]);
assert.deepEqual((await board.top({ l: 0, r: 9, k: 1 })).list.map(({ id }) => id), ["a"]);
assert.equal((await board.explain({ op: "delete", id: "a" })).kind, "deletion");
assert.equal((await board.register({ id: "s", range: [0, Infinity], k: 2 }, { lists: true })).subscriptions[0].list.length, 2);
await board.putSubscription("t", { range: { x: [0, 1] }, k: 3, ttl: 600 });
assert.equal((await board.patchSubscription("t", { k: 2 })).k, 2);
assert.equal((await board.subscription("t")).list.length, 1);
assert.equal((await board.explainSubscription("t")).k, 2);
assert.deepEqual((await all(board.subscriptions())).map(({ id }) => id), ["s", "t"]);
const watch = board.watch("s");
assert.deepEqual((await next(watch, "snapshot")).list.map(({ id }) => id), ["a", "b"]);
await board.deleteObject("a");
await next(watch, "change");
assert.deepEqual(watch.list.map(({ rank, id, payload }) => [rank, id, payload.to]), [[1, "b", "IAH"]]);
await board.deleteSubscription("s");
await next(watch, "gone");
assert.equal((await board.deleteSubscriptions(["t", "nobody"])).deleted, 1);
assert.equal((await board.info()).objects, 1);
assert.deepEqual((await all(rc.boards())).map(({ name }) => name), ["verbs"]);
const { ticket } = await rc.ticket("boards/verbs", null, { seconds: 5 });
assert.ok(ticket);

// Matchers
const matcher = rc.matcher("verbs");
await matcher.put({ dimensions: ["age"], mode: "relaxed" });
await matcher.register([{ id: "s", intervals: { age: [20, Infinity] }, weights: { age: 1 } }]);
await matcher.putSubscription("t", { intervals: { age: [0, 30] }, weights: { age: 0.5 } });
await matcher.patchSubscription("t", { weights: { age: 0.25 } });
assert.deepEqual((await matcher.subscription("t")).weights, { age: 0.25 });
assert.equal((await all(matcher.subscriptions())).length, 2);
const wins = matcher.watch("s");
await wins.ready();
const { results } = await matcher.match({ values: { age: 25 }, payload: { page: 1 } }, { notify: true, k: 5 });
assert.deepEqual(results[0].winners.map(({ id, score }) => [id, score]), [["s", 1], ["t", 0.25]]);
const win = await next(wins, "win");
assert.deepEqual([win.rank, win.score, win.payload], [1, 1, { page: 1 }]);
wins.close();
assert.equal((await matcher.match([{ values: { age: [1, 2] } }], { explain: true })).results[0].winners.length, 1);
await matcher.deleteSubscription("s");
await matcher.deleteSubscriptions(["t"]);
assert.equal((await matcher.info()).subscriptions, 0);
assert.equal((await all(rc.matchers())).length, 1);
await matcher.delete();

// Relays
const relay = rc.relay("verbs");
await relay.put({ attributes: ["price"] });
await relay.link({});
assert.equal((await relay.subscribe({ id: "s", box: { price: [0, 50] } })).results[0].forward, true);
await relay.putSubscription("t", { box: { price: [10, 20] } });
await relay.patchSubscription("t", { box: { price: [10, Infinity] } });
assert.deepEqual((await relay.subscription("t")).box, { price: [10, null] });
assert.equal((await all(relay.subscriptions())).length, 2);
const commands = [{ op: "subscribe", id: "u", box: { price: [1, 2] } }, { op: "unsubscribe", id: "u" }];
assert.deepEqual((await all(relay.commands(commands))).map(({ id }) => id), ["u", "u"]);
const notifications = rc.socket().watch("relays/verbs", "s");
await notifications.ready();
assert.deepEqual((await relay.notify({ values: { price: 15 }, payload: { n: 1 } })).results[0].subscriptions, ["s", "t"]);
assert.deepEqual((await next(notifications, "notification")).payload, { n: 1 });
assert.equal((await relay.deleteSubscription("s")).forward_unsubscribe, true);
assert.equal((await relay.deleteSubscriptions(["t"])).results.length, 1);
assert.equal((await relay.info()).subscriptions, 0);
assert.equal((await all(rc.relays())).length, 1);
await relay.delete();

// Maps
const map = rc.map("verbs");
await map.put({ attributes: { price: "low" }, bounds: [0, 0, 100, 100] });
const places = Array.from({ length: 30 }, (_, n) => ({ id: `r${n}`, location: [(n * 37) % 100, (n * 61) % 100], values: { price: n % 9 } }));
assert.equal((await map.putObjects(places)).applied, 30);
await map.putObject("mine", { location: [50, 50], values: { price: 9 } });
await map.patchObject("mine", { values: { price: 8 } });
assert.deepEqual((await map.object("mine")).values, { price: 8 });
assert.equal((await all(map.objects())).length, 31);
const score = { kind: "weighted_sum", weights: { distance: 1, price: 2 } };
const question = { kind: "top", k: 3, m: 4, score };
for (const asking of [question, { kind: "skyline" }]) {
  const moving = map.moving(asking);
  for (let step = 0; step < 60; step++) {
    const location = [20 + step * 0.2, 50 - step * 0.1];
    const answer = await moving.move(location);
    const { list, skyline } = asking.k ? await map.top({ location, k: 3, score }) : await map.skyline({ location });
    assert.deepEqual((answer.list ?? answer.skyline).map(({ id }) => id), (list ?? skyline).map(({ id }) => id));
  }
  assert.ok(moving.saved > 0 && moving.asked + moving.saved === 60);
}
await map.addQueries([{ id: "q", ...question, location: [1, 1] }]);
await map.putQuery("p", { kind: "skyline", location: [1, 1] });
assert.equal((await map.patchQuery("q", { k: 2 })).k, 2);
assert.equal((await map.query("q")).list.length, 2);
assert.equal((await all(map.queries())).length, 2);
const answers = map.watch("q", { transport: "websocket" });
await next(answers, "snapshot");
assert.equal((await map.move("q", [90, 90])).inside, false);
await next(answers, "result");
assert.deepEqual(answers.answer.location, [90, 90]);
assert.deepEqual(answers.list.map(({ rank }) => rank), [1, 2]);
assert.equal((await map.moveMany([{ id: "p", location: [2, 2] }])).results.length, 1);
await map.deleteQuery("q");
await next(answers, "gone");
assert.equal((await map.deleteQueries(["p"])).deleted, 1);
await map.deleteObject("mine");
assert.equal((await map.deleteObjects(["r0", "r1"])).deleted, 2);
assert.equal((await map.info()).objects, 28);
assert.equal((await all(rc.maps())).length, 1);
await map.delete();

// Feeds
const feed = rc.feed("verbs");
await feed.put({ window: 100, bounds: [0, 0, 1, 1] });
await feed.register({ id: "s", keywords: ["ramen"], location: [0, 0], k: 2 }, { lists: false });
await feed.putSubscription("t", { text: "hot ramen", location: [0, 1] });
assert.equal((await feed.patchSubscription("t", { k: 1 })).k, 1);
const posts = feed.watch("s", { transport: "websocket" });
await next(posts, "snapshot");
assert.equal((await feed.post([{ id: "p", keywords: ["ramen"], location: [0.5, 0.5], payload: 7 }])).results[0].reached, 2);
await next(posts, "change");
assert.deepEqual(posts.list.map(({ rank, id, payload }) => [rank, id, payload]), [[1, "p", 7]]);
assert.equal((await feed.subscription("s")).list[0].score, posts.list[0].score);
assert.equal((await feed.getPost("p")).payload, 7);
assert.equal((await all(feed.posts())).length, 1);
await feed.withdraw("p");
await next(posts, "change");
assert.deepEqual(posts.list, []);
assert.equal((await all(feed.subscriptions())).length, 2);
await feed.deleteSubscription("t");
await feed.deleteSubscriptions(["s"]);
await next(posts, "gone");
assert.equal((await feed.info()).posts, 0);
assert.equal((await all(rc.feeds())).length, 1);
await feed.delete();
await board.delete();

// Jobs
const { job } = await rc.jobs.verify();
assert.equal((await all(rc.jobs.follow(job))).at(-1).state, "succeeded");
for (const started of [await rc.jobs.snapshot(), await rc.jobs.rebuild({ engine: "local" })]) {
  assert.equal((await all(rc.jobs.follow(started.job))).at(-1).state, "succeeded");
}
assert.equal((await all(rc.jobs.list())).length, 3);
assert.equal((await rc.jobs.cancel(job)).state, "succeeded");

// Webhooks
const receiver = createServer((request, response) => request.resume().on("end", () => response.end()));
await new Promise((begun) => receiver.listen(0, "127.0.0.1", begun));
const target = `http://127.0.0.1:${receiver.address().port}/`;
await rc.board("hooked").put({ range_attributes: ["x"], rank: { attribute: "y" }, ks: [1] });
await rc.board("hooked").putSubscription("mine", { k: 1 });
const made = await rc.webhooks.put("ops", { url: target, resource: "boards/hooked", ids: ["mine"] });
assert.ok(made.secret.startsWith("whsec_"));
assert.equal((await rc.webhooks.get("ops")).url, target);
assert.equal((await all(rc.webhooks.list())).length, 1);
assert.equal((await rc.webhooks.test("ops")).status, 200);
assert.equal((await rc.webhooks.enable("ops")).name, "ops");
await rc.webhooks.delete("ops");
receiver.closeAllConnections();
receiver.close();

rc.close();
console.log(JSON.stringify(asked));
