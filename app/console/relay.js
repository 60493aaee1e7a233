// A relay: which subscription covers which, as a tree, and its links with their state.

import { get, pages, path, request } from "./api.js";
import { count, el, facts, section, setRows, shown, table } from "./dom.js";
import { Outcome, button, field, form, jsonIn, numberField, numberIn } from "./form.js";

const READ = 1000;
const OPEN = 60; // nodes up to which the whole tree is open

export async function show(main, scope, name) {
  const relay = await get(path("relays", name), {}, scope.signal);
  const about = el("dl", { class: "facts" });
  const tree = el("div", {});
  const columns = [
    "Link",
    "State",
    "Leads to",
    { title: "Waiting", class: "number" },
    { title: "Next message", class: "number" },
    "Reason",
  ];
  const links = table("Links", columns, [], {
    empty: "This relay has no links: what it has to forward is in the answers to its subscriptions.",
  });
  main.append(
    el(
      "header",
      {},
      el("h1", { "data-title": name }, el("span", { class: "type" }, "Relay"), name),
      el(
        "p",
        { class: "lead" },
        "Subscriptions are boxes. One that another covers need not be forwarded to a neighbour.",
      ),
      about,
    ),
    section(
      "Covering",
      "Under each subscription are those that it covers: their boxes lie in its box. Those at the top nothing covers.",
      tree,
    ),
    section(
      "Links",
      "Connections to the neighbours of this relay. Up: all messages have arrived; syncing: messages are being sent; down: the neighbour does not answer, or refuses.",
      links,
    ),
    publishing(relay),
  );
  let seen = null;
  await scope.every(2, async () => {
    const now = await get(path("relays", name), {}, scope.signal);
    about.replaceChildren(
      ...facts([
        ["Subscriptions", now.subscriptions],
        ["Forwarded", byLink(now.forwarded)],
        ["Covering ratio", byLink(now.covering_ratio, (value) => `${Math.round(value * 1000) / 10}%`)],
        ["Attributes", now.attributes.join(", ")],
        ["Seq", now.seq],
      ]).children,
    );
    setRows(
      links.querySelector("tbody"),
      columns,
      Object.entries(now.links).map(([link, one]) => [
        link,
        el("span", { class: `tag ${{ up: "good", down: "bad" }[one.state] ?? "warn"}` }, one.state),
        one.peer ?? `${one.url}, ${one.relay}`,
        shown(one.queue),
        shown(one.next),
        one.reason ?? "",
      ]),
      "This relay has no links: what it has to forward is in the answers to its subscriptions.",
    );
    if (now.seq === seen) return;
    seen = now.seq;
    const { items } = await pages(path("relays", name, "subscriptions"), READ, scope.signal);
    showTree(tree, now, items);
  });
}

function byLink(value, write = shown) {
  if (typeof value !== "object") return write(value);
  return (
    Object.entries(value)
      .map(([link, one]) => `${link}: ${write(one)}`)
      .join(", ") || "–"
  );
}

const ends = (box, attribute) => [box[attribute]?.[0] ?? -Infinity, box[attribute]?.[1] ?? Infinity];

/** Whether a box holds another one. */
export function covers(outer, inner, attributes) {
  return attributes.every((attribute) => {
    const [a, b] = ends(outer, attribute);
    const [c, d] = ends(inner, attribute);
    return a <= c && d <= b;
  });
}

/**
 * The covering as a forest: each subscription under one that covers it and is itself covered most often, so that the
 * tree is deep. Of equal boxes the first one covers the others. `[{item, children}]`, in the order of `items`.
 */
export function forest(items, attributes) {
  const coverers = items.map((inner, i) =>
    items.reduce((found, outer, j) => {
      if (i !== j && covers(outer.box, inner.box, attributes) && (j < i || !covers(inner.box, outer.box, attributes)))
        found.push(j);
      return found;
    }, []),
  );
  const nodes = items.map((item) => ({ item, children: [] }));
  const roots = [];
  nodes.forEach((node, i) => {
    if (!coverers[i].length) {
      roots.push(node);
      return;
    }
    const parent = coverers[i].reduce((best, j) => (coverers[j].length > coverers[best].length ? j : best));
    nodes[parent].children.push(node);
  });
  return roots;
}

function showTree(place, relay, items) {
  const opened = new Set(
    [...place.querySelectorAll("details[data-id]")].filter((one) => one.open).map((one) => one.dataset.id),
  );
  const fresh = !place.firstChild;
  const roots = forest(items, relay.attributes);
  const words = (box) =>
    relay.attributes
      .map((attribute) => {
        const [low, high] = ends(box, attribute);
        return low === -Infinity && high === Infinity
          ? null
          : `${attribute} ${low === -Infinity ? "≤" : high === Infinity ? "≥" : ""} ${low === -Infinity ? shown(high) : high === Infinity ? shown(low) : `${shown(low)} to ${shown(high)}`}`;
      })
      .filter(Boolean)
      .join(", ") || "everything";
  const size = (node) => node.children.reduce((total, child) => total + 1 + size(child), 0);
  const line = ({ item, children }) => [
    el("span", { class: "id" }, item.id),
    el("span", { class: "soft" }, words(item.box)),
    item.link ? el("span", { class: "tag" }, `from ${item.link}`) : null,
    children.length ? el("span", { class: "soft" }, `covers ${shown(size({ children }))}`) : null,
  ];
  const list = (nodes, label) =>
    el(
      "ul",
      { "aria-label": label },
      ...nodes.map((node) => {
        if (!node.children.length) return el("li", {}, el("div", { class: "node" }, ...line(node)));
        const open = fresh ? items.length <= OPEN : opened.has(node.item.id);
        return el(
          "li",
          {},
          el(
            "details",
            { "data-id": node.item.id, open },
            el("summary", {}, el("span", { class: "node" }, ...line(node))),
            list(node.children, `Covered by ${node.item.id}`),
          ),
        );
      }),
    );
  const whole = list(roots, "Subscriptions that nothing covers");
  whole.classList.add("tree");
  place.replaceChildren(
    el(
      "p",
      { class: "soft" },
      `${count(items.length, "subscription")}${items.length < relay.subscriptions ? ` of ${shown(relay.subscriptions)}, the first by id` : ""}, ` +
        `of which nothing here covers ${shown(roots.length)}.`,
    ),
    whole,
  );
}

function publishing(relay) {
  const values = relay.attributes.map((attribute) => [attribute, numberField(attribute)]);
  const payload = field("Payload, as JSON", "text", { className: "wide", autocomplete: "off", placeholder: "{}" });
  const outcome = new Outcome();
  return section(
    "Publish a notification",
    "A point, which is delivered to the subscriptions whose boxes hold it.",
    form(
      "Notification",
      [...values.map(([, one]) => one.box), payload.box, button("Publish", null, { type: "submit", kind: "primary" })],
      () =>
        outcome.of(async () => {
          const about = jsonIn(payload);
          const point = Object.fromEntries(
            values.map(([attribute, input]) => [attribute, numberIn(input)]).filter(([, value]) => value !== null),
          );
          const answer = await request("POST", path("relays", relay.name, "notifications"), {
            body: { notifications: [{ values: point, ...(about === undefined ? {} : { payload: about }) }] },
          });
          const [{ subscriptions, links }] = answer.results;
          outcome.say(
            el(
              "p",
              {},
              `Delivered at seq ${shown(answer.seq)} to ${count(subscriptions.length, "subscription")}` +
                `${subscriptions.length ? `: ${subscriptions.slice(0, 20).join(", ")}` : ""}${links.length ? `; over ${links.join(", ")}` : ""}.`,
            ),
          );
        }),
    ),
    outcome.node,
  );
}
