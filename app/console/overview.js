// The overview: resources, rates, readers, memory, jobs and health.

import { Refusal, Unreachable, pages, send } from "./api.js";
import { Spark } from "./charts.js";
import { bytes, el, section, setRows, short, shown, table } from "./dom.js";
import { Rates, parsed, sum } from "./metrics.js";
import { TYPES } from "./types.js";

const EVERY = 2;
const NOUNS = { boards: "Board", matchers: "Matcher", relays: "Relay", maps: "Map", feeds: "Feed" };

/** What a resource of each type is filled with. */
const HELD = { boards: "objects", matchers: null, relays: null, maps: "objects", feeds: "posts" };

export async function show(main, scope) {
  const rates = new Rates();
  const perSecond = (value) => short(value);
  const charts = {
    requests: new Spark("Requests", "Answered by the service.", perSecond, "per second"),
    changes: new Spark("Changes", "Objects, events, subscriptions and moves applied.", perSecond, "per second"),
    tiles: new Spark("Tiles", "Painted for changes of boards.", perSecond, "per second"),
    messages: new Spark("Messages", "Put into the queues of readers.", perSecond, "per second"),
    readers: new Spark("Readers", "Connections that carry streams.", shown),
    memory: new Spark("Memory", "Resident, of the process.", bytes),
    processor: new Spark("Processor", "One core is 100%.", (value) => `${Math.round(value * 100)}%`),
    jobs: new Spark("Jobs", "Waiting or running.", shown),
  };
  const columns = [
    "Name",
    "Type",
    { title: "Holds", class: "number" },
    { title: "Subscriptions", class: "number" },
    { title: "Changes per second", class: "number" },
  ];
  const list = table("Resources, by type and name", columns, [], { empty: "There are none yet." });
  const rows = list.querySelector("tbody");
  const health = el("p", {}, "");
  const note = el("p", { class: "soft" }, "");
  main.append(
    el("header", {}, el("h1", {}, "Overview"), health),
    section(
      "Rates and load",
      "The last two minutes. Each chart begins at zero and ends with its greatest value.",
      el("div", { class: "sparks" }, ...Object.values(charts).map((chart) => chart.node)),
      note,
    ),
    section("Resources", "Boards, matchers, relays, maps and feeds: what subscriptions are made on.", list),
  );

  let counters = new Map();
  async function readMetrics() {
    const response = await send("GET", "/metrics", { signal: scope.signal });
    if (!response.ok) {
      note.textContent = "The key may not read the metrics.";
      return;
    }
    const now = parsed(await response.text());
    counters = now;
    const sampled = {
      requests: rates.of("requests", sum(now, "rankcast_requests_total")),
      changes: rates.of("changes", sum(now, "rankcast_changes_total")),
      tiles: rates.of("tiles", sum(now, "rankcast_tiles_total")),
      messages: rates.of("messages", sum(now, "rankcast_stream_messages_total")),
      processor: rates.of("processor", sum(now, "process_cpu_seconds_total")),
      readers: sum(now, "rankcast_streams"),
      memory: sum(now, "process_resident_memory_bytes"),
      jobs: sum(now, "rankcast_jobs_open"),
    };
    for (const [name, value] of Object.entries(sampled)) if (value !== null) charts[name].add(value);
  }

  async function readResources() {
    const found = [];
    for (const type of TYPES) {
      try {
        for (const one of (await pages(`/v1/${type}`, 1000, scope.signal)).items) found.push({ type, ...one });
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
      }
    }
    setRows(
      rows,
      columns,
      found.map((one) => {
        const full = `${one.type}/${one.name}`;
        const rate = rates.of(full, sum(counters, "rankcast_changes_total", { resource: full }));
        const held = HELD[one.type];
        return [
          el("a", { href: `#/${full}` }, one.name),
          NOUNS[one.type],
          held && one[held] !== undefined ? `${shown(one[held])} ${held}` : "",
          shown(one.subscriptions ?? one.queries ?? ""),
          rate === null ? "" : short(rate),
        ];
      }),
      "There are none yet.",
    );
  }

  async function readHealth() {
    let ready;
    try {
      const response = await fetch("/readyz", { cache: "no-store", signal: scope.signal });
      ready = await response.json();
    } catch (error) {
      if (scope.left) throw error;
      throw new Unreachable();
    }
    const warm =
      ready.warm < 1
        ? ` ${Math.floor(ready.warm * 100)}% of the kernels are compiled; the rest follow in the background.`
        : " All kernels are compiled.";
    const failed = ready.failed?.length ? ` Failed: ${ready.failed.join(", ")}.` : "";
    const role = ready.role
      ? ` It is a ${ready.role}${ready.lag ? `, ${shown(ready.lag.seconds ?? 0)} s behind` : ""}.`
      : "";
    health.replaceChildren(
      el("span", { class: `tag ${ready.ready ? "good" : "bad"}` }, ready.ready ? "Ready" : "Not ready"),
      ready.ready ? warm : ` ${ready.detail ?? ""}`,
      role,
      failed,
    );
  }

  await scope.every(EVERY, async () => {
    await readHealth();
    await readMetrics();
    await readResources();
  });
}
