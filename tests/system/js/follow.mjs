/**
 * Publish random events and follow lists in both forms over both transports, while the service is killed and comes back.
 *
 * `node follow.mjs URL EVENTS`; says `half` when half of the events are published, and in the end each list.
 */

import { Rankcast } from "../../../client-js/index.js";

const [url, count] = process.argv.slice(2);
const EVENTS = Number(count);
const rc = new Rankcast(url, { retry: { attempts: 10_000, most: 0.2 }, heartbeat: 1 });
const board = rc.board("js");
const SUBSCRIPTIONS = {
  wide: { k: 5 },
  middle: { range: { x: [2, 7] }, k: 3 },
  below: { range: { x: [null, 5] }, k: 2, offset: 1 },
};

await board.put({ range_attributes: ["x"], rank: { attribute: "y", order: "desc" }, ks: [3, 5] });
await Promise.all(Object.entries(SUBSCRIPTIONS).map(([id, one]) => board.putSubscription(id, one)));
const begun = (await board.info()).seq;

const followed = [];
for (const id of Object.keys(SUBSCRIPTIONS)) {
  for (const transport of ["sse", "websocket"]) {
    for (const form of ["changes", "tiles"]) {
      const watch = board.watch(id, { transport, form });
      const one = { id, transport, form, watch, events: new Set() };
      one.loop = follow(one);
      followed.push(one);
    }
  }
}

async function follow({ watch, events }) {
  for await (const { event } of watch) events.add(event);
}

await Promise.all(followed.map(({ watch }) => watch.ready()));

// A generator of numbers that is the same in each run.
let state = 20;
function draw(below) {
  state = (state * 1_103_515_245 + 12_345) % 2_147_483_648;
  return Math.floor((state / 2_147_483_648) * below);
}

const there = new Set();
for (let n = 0; n < EVENTS; n++) {
  if (n === EVENTS / 2) console.log("half");
  const id = `o${draw(20)}`;
  if (there.has(id) && draw(4) === 0) {
    await board.publish({ op: "delete", id });
    there.delete(id);
  } else {
    await board.publish({ op: "upsert", id, values: { x: draw(10), y: draw(8) }, payload: n % 3 ? { n } : null });
    there.add(id);
  }
}

const text = (list) => JSON.stringify(list.map(({ rank, id, values, payload }) => [rank, id, values.x, values.y, payload ?? null]));
for (const id of Object.keys(SUBSCRIPTIONS)) {
  const wanted = text((await board.subscription(id)).list);
  const mine = followed.filter((one) => one.id === id);
  while (!mine.every(({ watch }) => text(watch.list) === wanted)) await new Promise((resolve) => setTimeout(resolve, 5));
}
const { seq } = await board.info();
await board.delete();
await Promise.all(followed.map(({ loop }) => loop));
const lists = followed.map(({ id, transport, form, watch, events }) => ({
  id, transport, form, gone: watch.gone, reconnects: watch.reconnects, events: [...events], list: watch.list,
})); // prettier-ignore
console.log(JSON.stringify({ applied: seq - begun, lists }));
rc.close();
