// Says what changed to those who do not see it: politely, and not more often than one can listen.

import { throttled } from "./scope.js";

const EVERY = 5000;
let next = "";
const speak = throttled(EVERY, () => {
  const region = document.getElementById("announcer");
  if (region.textContent !== next) region.textContent = next;
});

/** Say this soon, in place of what was not said yet. */
export function announce(text) {
  next = text;
  speak();
}
