/**
 * Open a page in a browser without a window and wait until its text has something: `node browse.mjs BROWSER PROFILE URL TEXT`. Says
 * the text of the page.
 */

import { spawn } from "node:child_process";
import { createInterface } from "node:readline";

import { WebSocket } from "../../../client-js/src/node-websocket.js";

const [browser, profile, url, ...wanted] = process.argv.slice(2);
const flags = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-port=0"];
const process_ = spawn(browser, [...flags, `--user-data-dir=${profile}`, url], { stdio: ["ignore", "ignore", "pipe"] });
process.on("exit", () => process_.kill("SIGKILL"));
process_.on("exit", () => process.exit(3));

let address = "";
for await (const line of createInterface({ input: process_.stderr })) {
  address = /DevTools listening on (ws:.*)/.exec(line)?.[1] ?? "";
  if (address) break;
}

/** The debugger of the page itself. */
async function target() {
  for (;;) {
    const pages = await (await fetch(`http://${new URL(address).host}/json/list`)).json();
    const page = pages.find((one) => one.type === "page" && one.url === url);
    if (page) return page.webSocketDebuggerUrl;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
}

const socket = new WebSocket(await target());
await new Promise((resolve, reject) => {
  socket.onopen = resolve;
  socket.onerror = ({ error }) => reject(error);
});
for (let id = 1; ; id++) {
  socket.send(JSON.stringify({ id, method: "Runtime.evaluate", params: { expression: "document.body.innerText" } }));
  const text = await new Promise((resolve) => {
    socket.onmessage = ({ data }) => {
      const message = JSON.parse(data);
      if (message.id === id) resolve(message.result.result?.value ?? "");
    };
  });
  if (wanted.every((one) => text.includes(one))) {
    console.log(JSON.stringify(text));
    process.exit(0);
  }
  await new Promise((resolve) => setTimeout(resolve, 50));
}
