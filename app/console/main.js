// The frame: which page is shown, the menu, the state of the connection, and the form for the key.

import * as admin from "./admin.js";
import { Refusal, Unreachable, askWith, currentKey, events, get, setKey } from "./api.js";
import * as board from "./board.js";
import { el } from "./dom.js";
import * as feed from "./feed.js";
import { live } from "./live.js";
import * as map from "./map.js";
import * as matcher from "./matcher.js";
import * as overview from "./overview.js";
import * as relay from "./relay.js";
import { Scope } from "./scope.js";
import * as subscriptions from "./subscriptions.js";
import { TYPES } from "./types.js";
import * as webhooks from "./webhooks.js";

const PAGES = { boards: board, matchers: matcher, relays: relay, maps: map, feeds: feed };
const LISTED = 200;

const content = document.getElementById("content");
const menu = document.getElementById("menu");
const menuButton = document.getElementById("menu-button");
let scope = new Scope();
let reachable = null;
let hooks = false;

// --- the key ---------------------------------------------------------------------------------------------------------

const dialog = document.getElementById("key-dialog");
const keyInput = document.getElementById("key-input");

/** Ask for a key in a dialog. Gives null where it is closed without one. */
function askForKey(message) {
  document.getElementById("key-message").textContent = message;
  keyInput.value = "";
  if (!dialog.open) dialog.showModal();
  keyInput.focus();
  return new Promise((resolve) => {
    document.getElementById("key-form").onsubmit = () => resolve(keyInput.value.trim() || null);
    document.getElementById("key-cancel").onclick = () => dialog.close();
    dialog.onclose = () => {
      resolve(null);
      keyInput.value = "";
    };
  });
}

askWith(askForKey);

document.getElementById("key-button").addEventListener("click", async () => {
  if (currentKey()) {
    setKey("");
    return;
  }
  const given = await askForKey("A key lets this page ask for what the key may do.");
  if (given) setKey(given);
});

events.addEventListener("key", () => {
  document.getElementById("key-button").textContent = currentKey() ? "Forget key" : "Key";
  show();
});

// --- the state of the connection -------------------------------------------------------------------------------------

function showState() {
  const node = document.getElementById("state");
  const lost = reachable === false || live.state === "waiting";
  node.className = reachable === null ? "" : lost ? "lost" : "live";
  const text = reachable === null ? "Connecting" : lost ? "Reconnecting" : live.state === "open" ? "Live" : "Connected";
  const place = document.getElementById("state-text");
  if (place.textContent !== text) place.textContent = text;
}

events.addEventListener("reachable", ({ detail }) => {
  reachable = detail;
  showState();
});
live.signals.addEventListener("state", showState);

// --- the menu --------------------------------------------------------------------------------------------------------

menuButton.addEventListener("click", () => {
  menuButton.setAttribute("aria-expanded", String(menu.classList.toggle("open")));
});

/** The names of all resources, by type; a type that the key may not list has none. */
async function resources() {
  const found = await Promise.all(
    TYPES.map(async (type) => {
      try {
        return [type, (await get(`/v1/${type}`, { limit: LISTED })).items.map((item) => item.name)];
      } catch (error) {
        if (error instanceof Refusal) return [type, []];
        throw error;
      }
    }),
  );
  return new Map(found);
}

function link(href, text) {
  const current = location.hash === href || location.hash.startsWith(`${href}/`);
  return el("li", {}, el("a", { href, "aria-current": current ? "page" : null }, text));
}

function showMenu(named) {
  const group = (title, items) => [el("h2", {}, title), el("ul", {}, ...items)];
  const parts = [el("ul", {}, link("#/overview", "Overview"))];
  for (const [type, names] of named) {
    if (names.length)
      parts.push(
        ...group(
          title(type),
          names.map((name) => link(`#/${type}/${name}`, name)),
        ),
      );
  }
  parts.push(
    ...group("Work", [
      link("#/subscriptions", "Subscriptions"),
      link("#/admin", "Administration"),
      ...(hooks ? [link("#/webhooks", "Webhooks")] : []),
    ]),
  );
  menu.replaceChildren(...parts);
}

const title = (type) => type[0].toUpperCase() + type.slice(1);

/** Read the resources for the menu, again and again, so that it has what others make. */
let named = new Map();
async function keepMenu() {
  setTimeout(keepMenu, document.hidden ? 30000 : 5000);
  try {
    named = await resources();
    hooks = await webhooks.offered();
    showMenu(named);
  } catch (error) {
    if (!(error instanceof Unreachable || error instanceof Refusal)) throw error;
  }
}

// --- pages -----------------------------------------------------------------------------------------------------------

/** Where the console opens: on the one resource of a service that has one, else on the overview. */
async function home() {
  const found = [...(await resources())].flatMap(([type, names]) => names.map((name) => `#/${type}/${name}`));
  return found.length === 1 ? found[0] : "#/overview";
}

function pageOf(parts) {
  const [first, ...rest] = parts;
  if (first === "overview") return (main, at) => overview.show(main, at);
  if (first === "admin") return (main, at) => admin.show(main, at);
  if (first === "webhooks") return (main, at) => webhooks.show(main, at);
  if (first === "subscriptions") return (main, at) => subscriptions.show(main, at, rest.slice(0, 2).join("/"), rest[2]);
  if (PAGES[first] && rest.length === 1) return (main, at) => PAGES[first].show(main, at, rest[0]);
  return null;
}

let begun = false;

async function show() {
  scope.leave();
  const mine = (scope = new Scope());
  mine.onLost = show;
  menu.classList.remove("open");
  menuButton.setAttribute("aria-expanded", "false");
  try {
    if (!location.hash.startsWith("#/")) {
      const hash = await home();
      if (mine.left) return;
      history.replaceState(null, "", hash);
    }
    const page = pageOf(location.hash.slice(2).split("/").map(decodeURIComponent));
    const body = el("div", { class: "page" });
    if (page) await page(body, mine);
    else
      body.append(
        el("h1", {}, "There is no such page"),
        el("p", {}, el("a", { href: "#/overview" }, "To the overview")),
      );
    if (mine.left) return;
    content.replaceChildren(body);
  } catch (error) {
    if (mine.left) return;
    mine.leave();
    if (error instanceof Unreachable || (error instanceof Refusal && error.status === 503)) {
      content.replaceChildren(
        el(
          "div",
          { class: "page" },
          el("h1", {}, "Waiting for the service"),
          el("p", {}, "It does not answer. The page goes on as soon as it does."),
        ),
      );
      setTimeout(() => {
        if (scope === mine) show();
      }, 1000);
    } else {
      content.replaceChildren(
        el("div", { class: "page" }, el("h1", {}, "This cannot be shown"), el("p", {}, error.message)),
      );
      if (!(error instanceof Refusal)) console.error(error);
    }
    return;
  }
  showMenu(named);
  const heading = content.querySelector("h1");
  document.title = `${heading.dataset.title ?? heading.textContent} – Rankcast console`;
  heading.tabIndex = -1;
  if (begun) heading.focus({ preventScroll: true });
  scrollTo(0, 0);
  begun = true;
}

document.getElementById("skip").addEventListener("click", (event) => {
  event.preventDefault();
  content.focus();
});
addEventListener("hashchange", show);
keepMenu();
show();
