/**
 * The reading side of `rankcast bench js`: one process of Node that follows many lists.
 *
 * `node follow.mjs JOB` says a line when all streams are open; after a line of input it waits until as many changes as the job
 * says have been taken, and says what it saw. List i is about object i alone, whose y is when its request was due, in milliseconds
 * since the epoch.
 */

import { once } from "node:events";
import { createInterface } from "node:readline";

import { Rankcast } from "../../client-js/index.js";

const job = JSON.parse(process.argv[2]);
const rc = new Rankcast(job.url, { buffer: job.buffer });
const board = rc.board(job.board);
const lags = [];
const wrong = [];
let changes = 0;
let squashed = 0;
let last = 0;

async function follow(watch, i) {
  let before = 0;
  for await (const { event, squashed: isSquashed } of watch) {
    if (event !== "change") {
      squashed += isSquashed ? 1 : 0;
      continue;
    }
    const [entry] = watch.list;
    const y = entry?.values.y;
    if (watch.list.length !== 1 || entry.id !== `o${i}` || y <= before) wrong.push(`l${i}: ${JSON.stringify(watch.list)}`);
    before = y;
    last = performance.timeOrigin + performance.now();
    lags.push([y, last - y]);
    changes += 1;
  }
}

const began = performance.now();
const watchers = [];
for (let i = 0; i < job.lists; i++) {
  const watch = board.watch(`l${i}`, { transport: job.transport });
  watchers.push(watch);
  follow(watch, i).catch((error) => wrong.push(String(error)));
  if (i % 100 === 99) await watch.ready();
}
await Promise.all(watchers.map((watch) => watch.ready()));
console.log(JSON.stringify({ opened: (performance.now() - began) / 1000 }));

const spent = process.cpuUsage();
const loop = performance.eventLoopUtilization();
await once(createInterface({ input: process.stdin }), "line");
const end = performance.now() + job.patience * 1000;
while (changes < job.changes && performance.now() < end) await new Promise((resolve) => setTimeout(resolve, 10));
const { user, system } = process.cpuUsage(spent);
const busy = performance.eventLoopUtilization(loop).utilization;
const reconnects = watchers.reduce((sum, watch) => sum + watch.reconnects, 0);
const memory = process.memoryUsage().rss;
const found = { changes, squashed, reconnects, wrong: wrong.slice(0, 5), lags, cpu: (user + system) / 1e6, memory, busy };
process.stdout.write(`${JSON.stringify(found)}\n`, () => process.exit());
