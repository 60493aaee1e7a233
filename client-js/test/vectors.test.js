/** What every client must make of the same messages: the files of `tests/vectors`, which the Python client's tests run too. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import test from "node:test";

import { Parser, zoneOf } from "../index.js";
import { ListFollower } from "../src/followers.js";

function cases(name) {
  return JSON.parse(readFileSync(new URL(`../../tests/vectors/${name}.json`, import.meta.url), "utf8"));
}

for (const { name, form, subscription, board, steps } of cases("lists")) {
  test(`a list is right after each message: ${name}`, () => {
    const follower = new ListFollower({ form });
    for (const { event, data, list } of steps) {
      if (follower.needsSubscription(event)) follower.learn({ subscription, board });
      const yielded = follower.apply(event, data);
      assert.deepEqual(follower.list, list);
      assert.equal(yielded === null, event === "ready" || event === "gone");
    }
  });
}

test("a place is inside by the margin", () => {
  for (const { zone, metric, bounds, places } of cases("zones")) {
    const tested = zoneOf(zone, metric, bounds);
    for (const [x, y, inside] of places) {
      assert.equal(tested.holds(x, y), inside, `${metric} ${JSON.stringify(zone)} ${x} ${y}`);
    }
  }
});

for (const { text, blocks } of cases("sse")) {
  test(`blocks do not depend on how bytes come: ${JSON.stringify(text)}`, () => {
    const data = new TextEncoder().encode(text);
    for (let first = 0; first <= data.length; first++) {
      for (let second = first; second <= data.length; second++) {
        const parser = new Parser();
        const pieces = [data.subarray(0, first), data.subarray(first, second), data.subarray(second)];
        assert.deepEqual(pieces.flatMap((piece) => parser.feed(piece)), blocks);
      }
    }
    const parser = new Parser();
    assert.deepEqual(Array.from(data).flatMap((byte) => parser.feed(Uint8Array.of(byte))), blocks);
  });
}

test("a message without end is refused, not kept", () => {
  const parser = new Parser(1000);
  const line = new TextEncoder().encode("x".repeat(400));
  parser.feed(line);
  parser.feed(line);
  assert.throws(() => parser.feed(line), /more than 1000 characters/);
});
