import assert from "node:assert/strict";
import { test } from "node:test";

import { BadSignature, verifyWebhook } from "../index.js";

// The example of the Standard Webhooks specification, as in the Python client.
const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const HEADERS = {
  "Webhook-Id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
  "webhook-timestamp": "1614265330",
  "webhook-signature": "v1,aaaa v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE= v2,x",
};
const BODY = '{"test": 2432232314}';
const now = 1614265330;

test("a message of the service is read, as text and as bytes", async () => {
  const events = [{ test: 2432232314 }];
  assert.deepEqual(await verifyWebhook(SECRET, HEADERS, BODY, { now }), events);
  assert.deepEqual(await verifyWebhook(SECRET, new Headers(HEADERS), new TextEncoder().encode(BODY), { now }), events);
});

test("what was changed, is another's, too old or from the future is refused", async () => {
  const refused = [
    [SECRET, HEADERS, '{"test": 2432232315}', now],
    ["whsec_AAAA", HEADERS, BODY, now],
    [SECRET, HEADERS, BODY, now + 301],
    [SECRET, HEADERS, BODY, now - 301],
    [SECRET, { ...HEADERS, "webhook-timestamp": "soon" }, BODY, now],
    [SECRET, { ...HEADERS, "webhook-signature": "v1,???" }, BODY, now],
    [SECRET, { ...HEADERS, "Webhook-Id": "" }, BODY, now],
    [SECRET, { ...HEADERS, "Webhook-Id": "another" }, BODY, now],
  ];
  for (const [secret, headers, body, at] of refused) {
    await assert.rejects(verifyWebhook(secret, headers, body, { now: at }), BadSignature);
  }
  await assert.rejects(verifyWebhook("no secret", HEADERS, BODY, { now }), TypeError);
});
