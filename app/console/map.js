// A map: objects on a canvas, a client that is dragged, its answer and zone, and when the service has to be asked.

import { announce } from "./announce.js";
import { Refusal, get, pages, path, request } from "./api.js";
import { Plot, dot, labels } from "./canvas.js";
import { count, el, facts, section, shown, table, setRows, unique } from "./dom.js";
import { Outcome, button, choice, form, numberField, numberIn } from "./form.js";
import { live } from "./live.js";
import { Place } from "./place.js";
import { RankedTable } from "./ranked.js";
import { OwnSubscription } from "./standing.js";
import { inside, outline, ranked } from "./zones.js";

const READ = 5000;
const ASKED = 12; // requests that are listed

export async function show(main, scope, name) {
  const map = await get(path("maps", name), {}, scope.signal);
  const attributes = Object.keys(map.attributes);
  const [x0, y0, x1, y1] = map.bounds;
  let objects = [];
  let answer = null;
  let question = null;
  let requests = 0;
  let moves = 0;
  let own = null;
  let asking = false;

  // What one sees.
  const described = unique("map");
  const plot = new Plot(scope, (context) => draw(context), {
    label: `Map ${name}: objects, and a client that arrow keys move`,
    describedBy: described,
    same: true,
  });
  const place = new Place(scope, plot, map.bounds, [x0 + (x1 - x0) * 0.5, y0 + (y1 - y0) * 0.5], () => moved());
  const state = el("p", { id: described, role: "status" }, "");
  const saved = facts([
    ["Moves", "0"],
    ["Requests", "0"],
  ]);
  const view = new RankedTable(
    "The answer",
    () => [
      { title: "Distance", class: "number", of: (one) => shown(Number(one.distance.toPrecision(5))) },
      ...(question?.kind === "top"
        ? [
            {
              title: "Score",
              class: "number",
              of: (one) => (one.score === null ? "none" : shown(Number(one.score.toPrecision(5)))),
            },
          ]
        : []),
      ...attributes.map((attribute) => ({
        title: attribute,
        class: "number",
        of: (one) => shown(one.values[attribute]),
      })),
    ],
    "There are no objects.",
  );
  const columns = ["Request", "At", "Why"];
  const log = table("When the service was asked", columns, [], { empty: "Not yet." });
  const asked = [];
  const objectTable = table(
    "Objects",
    [
      "Id",
      { title: "x", class: "number" },
      { title: "y", class: "number" },
      ...attributes.map((attribute) => ({ title: attribute, class: "number" })),
    ],
    [],
  );

  // The question.
  const kind = choice("Question", [
    ["top", "the k best by a score"],
    ["skyline", "the skyline"],
  ]);
  const k = numberField("k", "5", { size: 4 });
  const m = numberField("Candidates beyond k", "10", { size: 4 });
  const weights = [
    ["distance", numberField("Weight of distance", "1", { size: 5 })],
    ...attributes.map((attribute) => [attribute, numberField(`of ${attribute}`, "0.5", { size: 5 })]),
  ];
  const outcome = new Outcome();
  kind.node.addEventListener("change", () => {
    for (const one of [k, m, ...weights.map(([, input]) => input)]) one.box.hidden = kind.node.value === "skyline";
  });

  function read() {
    if (kind.node.value === "skyline") return { kind: "skyline" };
    return {
      kind: "top",
      k: numberIn(k) ?? 5,
      m: Math.max(1, (numberIn(m) ?? 0) + 1),
      score: {
        kind: "weighted_sum",
        weights: Object.fromEntries(weights.map(([of, input]) => [of, numberIn(input) ?? 0])),
      },
    };
  }

  /** Ask the service at the place of the client: by the page's own standing query, else by a plain question. */
  async function ask(why) {
    if (asking) return;
    asking = true;
    const at = place.at;
    requests += 1;
    asked.unshift([shown(requests), `${shown(at[0])}, ${shown(at[1])}`, why]);
    asked.length = Math.min(asked.length, ASKED);
    setRows(log.querySelector("tbody"), columns, asked);
    await outcome.of(async () => {
      try {
        if (own && why === "the zone was left") {
          const moved = await own.patch({ location: at });
          if (!moved.inside) take(moved, at);
        } else {
          own ??= new OwnSubscription(live, "maps", name, "queries", (message) => {
            if (message.event === "error") outcome.refuse(new Refusal(message.problem.status, message.problem));
            else if (message.event !== "ready") take(message, message.location);
          });
          take(await own.set({ ...question, location: at }), at);
        }
      } catch (error) {
        if (!(error instanceof Refusal) || error.status !== 403) throw error;
        own?.end();
        own = null;
        const { kind: of, ...rest } = question;
        take(await request("POST", path("maps", name, of), { body: { ...rest, location: at } }), at);
      }
    });
    asking = false;
    // The client went on meanwhile.
    if (answer && !inside(answer.zone, place.at, map.metric) && String(place.at) !== String(at))
      ask("the zone was left");
  }

  function take(found, at) {
    // What comes late, or answers the question before this one, is passed over.
    if (found.seq < answer?.seq || "skyline" in found !== (question.kind === "skyline")) return;
    answer = { ...found, at };
    update();
  }

  function moved() {
    moves += 1;
    if (answer && !inside(answer.zone, place.at, map.metric)) ask("the zone was left");
    update();
  }

  /** The answer where the client is now: ranked here, from what it holds. */
  function here() {
    if (!answer) return [];
    if (question.kind === "skyline") {
      return ranked(map, answer.skyline, place.at, Infinity, { distance: 1 });
    }
    return ranked(map, answer.candidates ?? answer.list, place.at, question.k, question.score.weights);
  }

  function update() {
    const list = here();
    view.caption =
      question?.kind === "skyline"
        ? "The skyline: objects that no other dominates, the nearest first"
        : `The ${list.length} best, as ranked here`;
    view.list = list;
    const within = answer && inside(answer.zone, place.at, map.metric);
    state.textContent = !answer
      ? "Asking."
      : within
        ? "Inside the zone: the answer holds, and no request is needed."
        : answer.zone
          ? "Outside the zone: the service is asked."
          : "The zone is this place alone.";
    const values = saved.querySelectorAll("dd");
    values[0].textContent = shown(moves);
    values[1].textContent = shown(requests);
    plot.ask();
    if (list[0]) announce(`${state.textContent} First is ${list[0].id}.`);
  }

  function draw(context) {
    const c = plot.colours;
    const rings = answer ? outline(answer.zone, map.metric) : [];
    const everywhere = answer?.zone?.center && answer.zone.radius === null;
    context.beginPath();
    if (everywhere) context.rect(plot.ends.x0, plot.ends.y1, plot.ends.x1 - plot.ends.x0, plot.ends.y0 - plot.ends.y1);
    for (const ring of rings) {
      ring.forEach(([x, y], i) => (i ? context.lineTo(plot.x(x), plot.y(y)) : context.moveTo(plot.x(x), plot.y(y))));
      context.closePath();
    }
    context.fillStyle = c["accent-soft"];
    context.fill("evenodd");
    context.strokeStyle = c.accent;
    context.lineWidth = 1.5;
    context.stroke();
    context.lineWidth = 1;
    const list = here();
    const members = new Set(list.map((one) => one.id));
    const radius = objects.length > 1500 ? 1.6 : 2.6;
    context.globalAlpha = 0.7;
    for (const one of objects)
      if (!members.has(one.id)) dot(context, plot.x(one.location[0]), plot.y(one.location[1]), radius, c.soft);
    context.globalAlpha = 1;
    context.strokeStyle = c.accent;
    for (const one of answer?.candidates ?? []) {
      if (members.has(one.id)) continue;
      context.beginPath();
      context.arc(plot.x(one.location[0]), plot.y(one.location[1]), 5, 0, 2 * Math.PI);
      context.stroke();
    }
    const places = list.map((one) => ({
      x: plot.x(one.location[0]),
      y: plot.y(one.location[1]),
      text: String(one.rank),
    }));
    for (const { x, y } of places) dot(context, x, y, 5, c.accent, c.panel);
    labels(context, places, c.ink);
    dot(context, plot.x(place.at[0]), plot.y(place.at[1]), 6, c.mark, c.panel);
  }

  const submit = () =>
    outcome.of(async () => {
      outcome.clear();
      question = read();
      answer = null;
      view.restart();
      await ask("a new question");
    });

  main.append(
    el(
      "header",
      {},
      el("h1", { "data-title": name }, el("span", { class: "type" }, "Map"), name),
      el(
        "p",
        { class: "lead" },
        "Objects with places, and a client that moves. With each answer comes its safe zone: inside, the answer stays the same.",
      ),
      facts([
        ["Objects", map.objects],
        [
          "Attributes",
          attributes.map((of) => `${of} (${map.attributes[of].order ?? map.attributes[of]})`).join(", ") || "none",
        ],
        ["Metric", map.metric],
        ["Seq", map.seq],
      ]),
    ),
    el(
      "div",
      { class: "columns" },
      section(
        "The client and its zone",
        "Drag the client, or move it by arrow keys. The service is asked when it leaves the zone.",
        plot.node,
        el(
          "ul",
          { class: "legend", "aria-label": "Legend" },
          el("li", {}, el("span", { class: "swatch place", "aria-hidden": "true" }), "client"),
          el("li", {}, el("span", { class: "swatch tile", "aria-hidden": "true" }), "zone"),
          el("li", {}, el("span", { class: "swatch answer", "aria-hidden": "true" }), "answer"),
          el("li", {}, el("span", { class: "swatch round", "aria-hidden": "true" }), "candidate"),
        ),
        state,
        el("div", { class: "controls" }, ...place.fields),
        el("details", {}, el("summary", {}, "The map as a table"), objectTable),
      ),
      el(
        "div",
        { class: "page" },
        section(
          "The answer",
          null,
          form(
            "Question",
            [
              kind.box,
              k.box,
              m.box,
              ...weights.map(([, input]) => input.box),
              button("Ask", null, { type: "submit", kind: "primary" }),
            ],
            submit,
          ),
          outcome.node,
          view.node,
        ),
        section(
          "Requests saved",
          "The client ranks what it holds by itself; it asks only where the answer may change.",
          saved,
          log,
        ),
      ),
    ),
  );
  scope.onLeave(() => own?.end());

  plot.show([x0, x1], [y0, y1]);
  let seen = null;
  await scope.every(3, async () => {
    const now = await get(path("maps", name), {}, scope.signal);
    const cells = main.querySelectorAll("header dd");
    cells[0].textContent = shown(now.objects);
    cells[cells.length - 1].textContent = shown(now.seq);
    if (now.seq === seen) return;
    seen = now.seq;
    const { items, more } = await pages(path("maps", name, "objects"), READ, scope.signal);
    objects = items;
    setRows(
      objectTable.querySelector("tbody"),
      ["", { class: "number" }, { class: "number" }, ...attributes.map(() => ({ class: "number" }))],
      items
        .slice(0, 500)
        .map((one) => [
          one.id,
          shown(one.location[0]),
          shown(one.location[1]),
          ...attributes.map((of) => shown(one.values[of])),
        ]),
    );
    objectTable.querySelector("caption").textContent =
      `${count(Math.min(500, items.length), "object")} of ${shown(now.objects)}, by id` +
      `${more ? `; the canvas has the first ${shown(READ)}` : ""}`;
    plot.ask();
  });
  submit();
}
