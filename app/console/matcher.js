// A matcher: a form for an event, and its winners with what each dimension adds.

import { get, path, request } from "./api.js";
import { announce } from "./announce.js";
import { count, el, facts, section, shown, table } from "./dom.js";
import { Outcome, button, checkbox, field, form, numberField, numberIn } from "./form.js";

export async function show(main, scope, name) {
  const matcher = await get(path("matchers", name), {}, scope.signal);
  const relaxed = matcher.mode === "relaxed";
  const about = facts([
    ["Subscriptions", matcher.subscriptions],
    ["Dimensions", matcher.dimensions.join(", ")],
    ["Match mode", matcher.mode],
    ...(relaxed ? [["Scores", `${matcher.combine} of weights`]] : []),
    ["Seq", matcher.seq],
  ]);
  const values = matcher.dimensions.map((dimension) => [
    dimension,
    field(dimension, "text", { autocomplete: "off", size: 9, placeholder: "none" }),
  ]);
  const k = numberField("Winners, at most", "20", { size: 5 });
  const notify = checkbox("Notify: log it, and send it to the winners’ streams");
  const outcome = new Outcome();
  const result = el("div", {});

  const match = () =>
    outcome.of(async () => {
      outcome.clear();
      const event = {};
      for (const [dimension, input] of values) {
        const value = valueIn(dimension, input);
        if (value !== null) event[dimension] = value;
      }
      const most = numberIn(k);
      const body = {
        events: [{ values: event }],
        explain: true,
        notify: notify.node.checked,
        ...(most === null ? {} : { k: most }),
      };
      const answer = await request("POST", path("matchers", name, "match"), { body });
      const [found] = answer.results;
      result.replaceChildren(...winners(matcher, found, answer.seq));
      announce(
        found.winners.length
          ? `${count(found.winners.length, "winner")}, the first is ${found.winners[0].id}.`
          : "No winner.",
      );
    });

  main.append(
    el(
      "header",
      {},
      el("h1", { "data-title": name }, el("span", { class: "type" }, "Matcher"), name),
      el(
        "p",
        { class: "lead" },
        "Subscriptions are boxes with scores. Of an event, the k best-scored that it matches win.",
      ),
      about,
    ),
    section(
      "Match an event",
      relaxed
        ? "A subscription matches if the event lies in one of its intervals; those that match add their weights. A value is a number, or a range low:high."
        : "A subscription matches if the event lies in all its intervals, and has one score. A value is a number, or a range low:high.",
      form(
        "Event",
        [
          ...values.map(([, one]) => one.box),
          k.box,
          notify.box,
          button("Match", null, { type: "submit", kind: "primary" }),
        ],
        match,
      ),
      outcome.node,
      result,
    ),
  );
  await scope.every(3, async () => {
    const now = await get(path("matchers", name), {}, scope.signal);
    about.children[0].querySelector("dd").textContent = shown(now.subscriptions);
    about.lastElementChild.querySelector("dd").textContent = shown(now.seq);
  });
}

/** A number, a range, or nothing. Raises an `Error`. */
function valueIn(dimension, { node }) {
  const text = node.value.trim();
  if (text === "") return null;
  const parts = text.split(":").map(Number);
  if (parts.length > 2 || text.split(":").some((part) => part.trim() === "") || !parts.every(Number.isFinite)) {
    node.focus();
    throw new Error(`${dimension}: “${text}” is neither a number nor a range low:high.`);
  }
  return parts.length === 2 ? parts : parts[0];
}

function winners(matcher, found, seq) {
  const relaxed = matcher.mode === "relaxed";
  const most = Math.max(0, ...found.winners.map((winner) => winner.score));
  const cell = (matched, dimension) => {
    if (!(dimension in matched)) return "";
    return matched[dimension] === null ? "matches" : `+${shown(matched[dimension])}`;
  };
  const bar = (winner) =>
    el(
      "div",
      { class: "parts", "aria-hidden": "true" },
      ...matcher.dimensions.map((dimension) => {
        const part = el("span", { title: dimension });
        part.style.width = `${most > 0 ? (100 * (winner.matched[dimension] ?? 0)) / most : 0}%`;
        return part;
      }),
    );
  const bars = relaxed && matcher.combine === "sum";
  return [
    table(
      `${count(found.winners.length, "winner")} at seq ${shown(seq)}; ${count(found.looked_at, "index entry").replace("entrys", "entries")} looked at`,
      [
        "Rank",
        "Subscription",
        { title: "Score", class: "number" },
        ...matcher.dimensions.map((dimension) => ({ title: dimension, class: "number" })),
        ...(bars ? ["Parts"] : []),
      ],
      found.winners.map((winner, i) => [
        String(i + 1),
        winner.id,
        shown(winner.score),
        ...matcher.dimensions.map((dimension) => cell(winner.matched, dimension)),
        ...(bars ? [bar(winner)] : []),
      ]),
      { empty: "Nothing matches." },
    ),
  ];
}
