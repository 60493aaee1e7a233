// Subscriptions of any resource: made, changed, deleted, explained, and their streams as they come over the wire.

import { Refusal, get, pages, path, request, send } from "./api.js";
import { brief, count, el, facts, section, setRows, shown, table } from "./dom.js";
import { Outcome, button, choice, field, form } from "./form.js";
import { TYPES } from "./types.js";

const PAGE = 25;
const KEPT = 40000; // characters of a stream that are shown

const under = (type) => (type === "maps" ? "queries" : "subscriptions");
const noun = (type) => (type === "maps" ? "standing query" : "subscription");

/** A subscription to begin with, as JSON, for a resource. */
function example(type, resource) {
  if (type === "boards")
    return {
      range: Object.fromEntries(resource.range_attributes.map((name) => [name, [null, null]])),
      k: resource.ks[0],
    };
  if (type === "matchers") {
    const intervals = Object.fromEntries(resource.dimensions.map((name) => [name, [0, 1]]));
    return resource.mode === "exact"
      ? { intervals, score: 1 }
      : { intervals, weights: Object.fromEntries(resource.dimensions.map((name) => [name, 1])) };
  }
  if (type === "relays") return { box: Object.fromEntries(resource.attributes.map((name) => [name, [0, null]])) };
  const middle = [(resource.bounds[0] + resource.bounds[2]) / 2, (resource.bounds[1] + resource.bounds[3]) / 2];
  if (type === "maps")
    return { kind: "top", location: middle, k: 5, m: 5, score: { kind: "weighted_sum", weights: { distance: 1 } } };
  return { keywords: ["ramen"], location: middle, k: 10 };
}

/** JSON over lines, but for lists of plain values. */
const written = (body) =>
  JSON.stringify(body, null, 2).replace(/\[\s+([^[\]{}]*?)\s+\]/g, (_, inner) => `[${inner.replace(/\s+/g, " ")}]`);

export async function show(main, scope, full, chosen) {
  const named = [];
  for (const type of TYPES) {
    try {
      for (const one of (await pages(`/v1/${type}`, 500, scope.signal)).items) named.push(`${type}/${one.name}`);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
    }
  }
  const current = full || named[0];
  const pick = choice("Resource", named, current);
  pick.node.addEventListener("change", () => {
    location.hash = `#/subscriptions/${pick.node.value}`;
  });
  main.append(
    el(
      "header",
      {},
      el("h1", {}, "Subscriptions"),
      el(
        "p",
        { class: "lead" },
        "Standing queries, by the resource that they are made on. A stream carries the changes of one to whoever follows it.",
      ),
      el("div", { class: "controls" }, pick.box),
    ),
  );
  if (!current) {
    main.append(el("p", {}, "There are no resources yet."));
    return;
  }
  const [type, name] = current.split("/");
  const resource = await get(path(type, name), {}, scope.signal);
  const base = (id) => path(type, name, under(type), id);

  const id = field("Id", "text", {
    autocomplete: "off",
    spellcheck: "false",
    size: 24,
    className: "wide",
    hint: "Empty: the service makes one up.",
  });
  const text = field(`The ${noun(type)}, as JSON`, el("textarea", { rows: 7, spellcheck: "false" }), {
    className: "whole",
  });
  text.node.value = written(example(type, resource));
  const outcome = new Outcome();

  const read = () => {
    try {
      return JSON.parse(text.node.value);
    } catch {
      text.node.focus();
      throw new Error(`The ${noun(type)}: this is not JSON.`);
    }
  };
  const save = () =>
    outcome.of(async () => {
      const body = read();
      const given = id.node.value.trim();
      if (given) {
        const response = await send("PUT", base(given), { body });
        const answer = await response.json();
        if (!response.ok) throw new Refusal(response.status, answer);
        outcome.say(
          el("p", {}, `${response.status === 201 ? "Made" : "Changed"} at seq ${shown(answer.seq)}.`),
          result(answer),
        );
      } else {
        const answer = await request("POST", path(type, name, under(type)), { body: { [under(type)]: [body] } });
        const [made] = answer.subscriptions ?? answer.queries ?? answer.results;
        id.node.value = made.id;
        outcome.say(el("p", {}, `Made as ${made.id} at seq ${shown(answer.seq)}.`), result(made));
      }
      await list();
    });
  const remove = () =>
    outcome.of(async () => {
      const answer = await request("DELETE", base(needed()));
      outcome.say(el("p", {}, `Deleted at seq ${shown(answer.seq)}.`));
      await list();
    });
  const explain = () =>
    outcome.of(async () => {
      const said = await get(`${base(needed())}/explain`);
      const { id: of, ...rest } = said;
      outcome.say(
        el("p", {}, `What ${of} costs:`),
        facts(Object.entries(rest).map(([field_, value]) => [field_.replaceAll("_", " "), value ?? "none"])),
      );
    });
  const needed = () => {
    const given = id.node.value.trim();
    if (given) return given;
    id.node.focus();
    throw new Error("Id: give one, or choose one in the list.");
  };
  const open = (given) =>
    outcome.of(async () => {
      const { seq, list: _list, id: of, created: _created, ...rest } = await get(base(given), {}, scope.signal);
      id.node.value = of;
      const body = Object.fromEntries(Object.entries(rest).filter(([, value]) => value !== null));
      for (const shownOnly of [
        "zone",
        "candidates",
        "skyline",
        "forward",
        "covered_by",
        "forward_unsubscribe",
        "forward_subscribe",
      ])
        delete body[shownOnly];
      text.node.value = written(body);
      outcome.say(el("p", {}, `${of} as it is at seq ${shown(seq)}.`));
    });

  // The list.
  const columns = ["Id", "What it asks for", "Actions"];
  const listed = table(`The first by id`, columns, []);
  const more = button("More", () => list(true), { kind: "small" });
  let cursor = null;
  let items = [];
  async function list(further = false) {
    const page = await get(
      path(type, name, under(type)),
      { limit: PAGE, cursor: further ? cursor : null },
      scope.signal,
    );
    items = further ? [...items, ...page.items] : page.items;
    cursor = page.next;
    more.hidden = !cursor;
    listed.querySelector("caption").textContent =
      `${count(items.length, noun(type)).replace("querys", "queries")}${cursor ? ", the first by id" : ""}`;
    setRows(
      listed.querySelector("tbody"),
      columns,
      items.map((one) => {
        const { id: of, created: _, ...rest } = one;
        return [
          el("span", { class: "id" }, of),
          el("code", {}, brief(rest).slice(0, 160)),
          el(
            "div",
            { class: "buttons" },
            button("Open", () => open(of), { kind: "small", "aria-label": `Open ${of}` }),
            button(
              "Follow",
              () => {
                id.node.value = of;
                stream.follow(of);
              },
              { kind: "small", "aria-label": `Follow ${of}` },
            ),
          ),
        ];
      }),
    );
  }

  const stream = raw(scope, (of) => `${base(of)}/stream`, outcome);
  main.append(
    section(
      `Make or change a ${noun(type)}`,
      "Sent again under the same id, it is changed to this.",
      form(
        noun(type),
        [
          id.box,
          text.box,
          el(
            "div",
            { class: "buttons" },
            button("Make or change", null, { type: "submit", kind: "primary" }),
            button("Follow", () => outcome.of(async () => stream.follow(needed()))),
            type === "boards" ? button("Explain", explain) : null,
            button("Delete", remove),
          ),
        ].filter(Boolean),
        save,
      ),
      outcome.node,
    ),
    stream.node,
    section(`On ${current}`, null, listed, more),
  );
  await list();
  if (chosen) await open(chosen);
}

function result(answer) {
  return el(
    "details",
    {},
    el("summary", {}, "The answer"),
    el("pre", { tabindex: "0" }, JSON.stringify(answer, null, 2).slice(0, 20000)),
  );
}

/** A stream as server-sent events, byte for byte, which goes on where it was when the connection ends. */
function raw(scope, url, outcome) {
  const log = el("pre", { tabindex: "0", role: "log", "aria-label": "The stream as it comes", "aria-live": "off" }, "");
  const state = el("p", { class: "soft", role: "status" }, "Nothing is followed.");
  let aborter = null;
  const stop = button("Stop", () => end("Stopped."), { kind: "small", hidden: true });
  const end = (why) => {
    aborter?.abort();
    aborter = null;
    stop.hidden = true;
    state.textContent = why;
  };
  const write = (text) => {
    log.textContent = (log.textContent + text).slice(-KEPT);
    log.scrollTop = log.scrollHeight;
  };
  scope.onLeave(() => aborter?.abort());

  async function follow(id) {
    end("");
    const mine = (aborter = new AbortController());
    log.textContent = "";
    stop.hidden = false;
    let last = null;
    let tries = 0;
    while (!mine.signal.aborted) {
      state.textContent = tries ? `Reconnecting to ${id}.` : `Following ${id}.`;
      try {
        const response = await send("GET", url(id), {
          signal: mine.signal,
          more: last ? { "Last-Event-ID": last } : {},
        });
        if (!response.ok) {
          if (response.status !== 503) {
            end("Nothing is followed.");
            outcome.refuse(new Refusal(response.status, await response.json()));
            return;
          }
        } else {
          state.textContent = `Following ${id}.`;
          tries = 0;
          const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
          for (;;) {
            const { done, value } = await reader.read();
            if (done) break;
            last = [...value.matchAll(/^id: ?(.*)$/gm)].at(-1)?.[1] ?? last;
            write(value);
            if (/^event: gone$/m.test(value)) {
              end(`${id} was deleted.`);
              return;
            }
          }
        }
      } catch {
        if (mine.signal.aborted) return;
      }
      tries += 1;
      await new Promise((resolve) => {
        setTimeout(resolve, Math.min(5000, 250 * 2 ** tries));
      });
    }
  }
  const node = section(
    "Stream",
    "Server-sent events, as they come over the wire: an id, which is the position to resume from, a type, and data.",
    el("div", { class: "controls" }, state, stop),
    log,
  );
  return { node, follow };
}
