/** The JavaScript client of Rankcast, for browsers and Node 20 or newer. Without dependencies. */

export { Rankcast } from "./src/client.js";
export { RankcastError, ProblemError, Unreachable } from "./src/errors.js";
export { TopKList, applyChanges, near, tileReaches } from "./src/lists.js";
export { CircleZone, PolygonZone, zoneOf } from "./src/zones.js";
export { Ranking } from "./src/ranking.js";
export { Moving } from "./src/moving.js";
export { BadSignature, verifyWebhook } from "./src/webhooks.js";
export { Parser } from "./src/sse.js";
