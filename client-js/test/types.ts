/** What `index.d.ts` promises, as a program that is compiled and never run. */

import { ProblemError, Rankcast, TopKList, Unreachable, applyChanges, near, zoneOf, type api } from "../index.js";

export async function use(): Promise<void> {
  const rc = new Rankcast("http://127.0.0.1:8000", { key: async () => "k", retry: { attempts: 2 }, buffer: 8 });
  const board = rc.board("delays");
  const info: api.Board = await board.put({
    range_attributes: ["distance"],
    rank: { attribute: "delay", order: "desc" },
    ks: [5],
  });
  await board.publish([{ op: "upsert", id: "a", values: { delay: 1 } }], { mode: "batch", onError: "skip" });
  await board.publish(new Uint8Array(8), { signal: AbortSignal.timeout(1) });
  await board.putSubscription("s", { range: [1, Infinity], k: 5 });
  await board.putSubscription("s", { range: { distance: near(1, 2) }, k: 5, where: { to: "IAH" } });
  await board.register([{ range: [null, 2], k: 5 }], { lists: true });
  await board.patchSubscription("s", { k: info.ks[0] });
  const { list } = await board.top({ l: 1, k: 5 });
  const first: number | undefined = list[0]?.values.delay;

  const watch = board.watch("s", { transport: "websocket", form: "tiles" });
  for await (const event of watch) {
    if (event.event === "change") console.log(event.changes[0].new_rank, first);
    else if (event.event === "tiles") console.log(event.tiles[0].k);
    else if (event.event === "snapshot") console.log(event.list[0].rank);
    console.log(watch.list.map((entry) => [entry.rank, entry.id, entry.values]));
  }
  watch.close();

  for await (const event of rc.matcher("m").watch("s")) if (event.event === "win") console.log(event.score);
  await rc.matcher("m").match({ values: { x: [1, 2] } }, { k: 3, notify: true });
  for await (const one of rc.relay("r").commands([{ op: "unsubscribe", id: "s" }])) console.log(one.seq);
  await rc.feed("f").post({ id: "p", keywords: ["ramen"], location: [1, 2] });
  for await (const event of rc.feed("f").watch("s")) if (event.event === "snapshot") console.log(event.list[0].score);

  const map = rc.map("food");
  const near_ = map.moving({ kind: "top", k: 3, m: 5, score: { kind: "weighted_sum", weights: { distance: 1 } } });
  const answer = await near_.move([1, 2]);
  const { metric, bounds } = await map.info();
  console.log(zoneOf(answer.zone, metric, bounds).holds(1, 2), near_.saved);

  const socket = rc.socket();
  const top = await socket.request<api.BoardTopResponse>("GET", "/v1/boards/delays/top");
  console.log(top.list, top.status, socket.watch("maps/food", "q").answer?.zone);

  try {
    await rc.ticket("boards/delays", ["s"], { seconds: 60 });
  } catch (error) {
    if (error instanceof ProblemError) console.log(error.status, error.problem.title, error.errors[0]?.field);
    if (error instanceof Unreachable) console.log(error.idempotencyKey);
  }
  const best = new TopKList({ range: [1, 2], k: 2 }, { attribute: "delay" });
  best.reset(applyChanges(best.entries, [{ id: "a", new_rank: null }]));

  // @ts-expect-error - an order that is none
  await board.put({ range_attributes: ["x"], rank: { attribute: "y", order: "up" }, ks: [1] });
  // @ts-expect-error - k is required
  await board.putSubscription("s", { range: [1, 2] });
  // @ts-expect-error - tiles are for boards
  rc.feed("f").watch("s", { form: "tiles" });
  // @ts-expect-error - a transport that is none
  board.watch("s", { transport: "pigeon" });
  rc.close();
}
