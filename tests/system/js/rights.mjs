/** What keys and tickets open, and how refusals look. `node rights.mjs URL ADMIN READER`: `delays/mine` is there. */

import assert from "node:assert/strict";

import { ProblemError, Rankcast } from "../../../client-js/index.js";

const [url, admin, reader] = process.argv.slice(2);
const transports = ["sse", "websocket"];
const owner = new Rankcast(url, { key: admin });
const board = owner.board("delays");

async function refusal(promise) {
  const error = await promise.then(() => assert.fail("it was not refused"), (found) => found);
  assert.ok(error instanceof ProblemError, error);
  assert.equal(error.problem.status, error.status);
  return error.status;
}

const statuses = {};
for (const transport of transports) {
  const follow = async (key, id) => {
    const rc = new Rankcast(url, { key });
    try {
      return await refusal(rc.board("delays").watch(id, { transport }).next());
    } finally {
      rc.close();
    }
  };
  statuses[transport] = [await follow(undefined, "mine"), await follow("wrong", "mine"), await follow(reader, "mine"), await follow(admin, "nobody")];
  const rc = new Rankcast(url, { ticket: async () => "no-ticket" });
  statuses[transport].push(await refusal(rc.board("delays").watch("mine", { transport }).next()));
}
statuses.requests = [
  await refusal(new Rankcast(url).board("delays").info()),
  await refusal(new Rankcast(url, { key: reader }).board("delays").publish([])),
  await refusal(board.publish({ op: "delete", id: "nobody" })),
  await refusal(board.putSubscription("s", { k: 77 })),
  await refusal(board.put({ range_attributes: ["y"], rank: { attribute: "z" }, ks: [1] })),
  await refusal(owner.board("nothing").info()),
];

// A ticket for one subscription, asked for again at each connection.
let made = 0;
const page = new Rankcast(url, {
  async ticket({ resource, ids }) {
    made += 1;
    return (await owner.ticket(resource, ids, { seconds: 30 })).ticket;
  },
});
for (const transport of transports) {
  const watch = page.board("delays").watch("mine", { transport });
  assert.equal((await watch.next()).value.event, "snapshot");
  await board.upsert(`by ${transport}`.replace(" ", "-"), { values: { distance: 5, delay: 100 + made } });
  assert.equal((await watch.next()).value.event, "change");
  assert.equal(watch.list[0].id, `by-${transport}`);
  watch.close();
}
assert.equal(made, 2);
statuses.ticket = [await refusal(page.board("delays").info())];
page.close();
owner.close();
console.log(JSON.stringify(statuses));
