/**
 * Publish events and follow a list over both transports, while the leader is killed and a replica is promoted.
 *
 * `node failover.mjs URLS EVENTS`; says `half` when half of the events are published, and in the end each list.
 */

import { Rankcast } from "../../../client-js/index.js";

const [urls, count] = process.argv.slice(2);
const EVENTS = Number(count);
const rc = new Rankcast(urls, { retry: { attempts: 10_000, most: 0.2 }, heartbeat: 1 });
const board = rc.board("js");

await board.put({ range_attributes: ["x"], rank: { attribute: "y", order: "desc" }, ks: [5] });
await board.putSubscription("mine", { k: 5 });
// Readers know nothing of who leads.
const readers = new Rankcast(urls.split(","), { retry: { attempts: 10_000, most: 0.2 }, heartbeat: 1 });
const watches = ["sse", "websocket"].flatMap((transport) =>
  ["changes", "tiles"].map((form) => readers.board("js").watch("mine", { transport, form })),
);
await Promise.all(watches.map((watch) => watch.ready()));
const socket = rc.socket();
let answered = 0;
for (let n = 0; n < EVENTS; n++) {
  if (n === EVENTS / 2) console.log("half");
  const values = { x: n % 10, y: (n * 37) % 101 };
  if (n % 2) {
    await board.publish({ op: "upsert", id: `o${n % 30}`, values });
  } else {
    await socket.request("PUT", `/v1/boards/js/objects/o${n % 30}`, { values });
  }
  answered += 1;
}

const shown = (list) => JSON.stringify(list.map(({ rank, id, values }) => [rank, id, values.y]));
const asked = shown((await board.subscription("mine")).list);
const limit = Date.now() + 60_000;
while (watches.some(({ list }) => shown(list) !== asked) && Date.now() < limit) {
  await new Promise((resolve) => setTimeout(resolve, 10));
}
let objects = 0;
for await (const _ of board.objects()) objects += 1;
const lists = watches.map(({ list }) => shown(list));
console.log(JSON.stringify({ answered, asked, lists, objects, reconnects: watches.map((one) => one.reconnects) }));
rc.close();
readers.close();
