// A feed: a live list for words and a place, and the posts of the window on a canvas.

import { announce } from "./announce.js";
import { Refusal, get, pages, path, request } from "./api.js";
import { Plot, dot, labels } from "./canvas.js";
import { brief, count, el, facts, section, setRows, shown, table, unique } from "./dom.js";
import { Outcome, button, field, form, jsonIn, numberField, numberIn } from "./form.js";
import { live } from "./live.js";
import { Place } from "./place.js";
import { RankedTable } from "./ranked.js";
import { FollowedList } from "./ranking.js";
import { OwnSubscription } from "./standing.js";

const READ = 3000;

const words = (keywords) =>
  Array.isArray(keywords)
    ? keywords.join(", ")
    : Object.entries(keywords)
        .map(([word, weight]) => `${word} ${shown(weight)}`)
        .join(", ");

export async function show(main, scope, name) {
  const feed = await get(path("feeds", name), {}, scope.signal);
  const [x0, y0, x1, y1] = feed.bounds;
  let posts = [];
  const followed = new FollowedList();
  let own = null;

  const described = unique("feed");
  const plot = new Plot(scope, (context) => draw(context), {
    label: `Posts of ${name}, and a place that arrow keys move`,
    describedBy: described,
    same: true,
  });
  const about = el("p", { id: described, class: "soft" }, "");
  const place = new Place(scope, plot, feed.bounds, [(x0 + x1) / 2, (y0 + y1) / 2], () => plot.ask());
  const keywords = field("Words", "text", {
    className: "wide",
    autocomplete: "off",
    placeholder: "ramen coupon",
    size: 18,
  });
  const k = numberField("k", "10", { size: 4 });
  const alpha = numberField("Alpha: share of nearness", "0.5", { size: 5 });
  const outcome = new Outcome();
  const note = el("p", { class: "soft" }, "");
  const view = new RankedTable(
    "The live list",
    (list) => [
      { title: "Score", class: "number", of: (one) => shown(Number(one.score.toPrecision(4))) },
      { title: "Words", of: (one) => words(one.keywords) },
      ...(list.some((one) => one.payload !== undefined && one.payload !== null)
        ? [{ title: "Payload", of: (one) => brief(one.payload) }]
        : []),
    ],
    "No post has one of the words.",
  );
  view.caption = "Give a word, and the list is shown here";
  const columns = ["Id", "Words", { title: "x", class: "number" }, { title: "y", class: "number" }];
  const postTable = table("Posts", columns, []);

  const paint = () => {
    view.list = followed.list;
    note.textContent = `At seq ${shown(followed.seq)}. ${count(followed.changes, "change")} since you asked.`;
    announce(
      followed.list[0]
        ? `Rank 1 is ${followed.list[0].id}. ${count(followed.changes, "change")} so far.`
        : "The list is empty.",
    );
    plot.ask();
  };
  const ask = () =>
    outcome.of(async () => {
      outcome.clear();
      const wanted = keywords.node.value
        .trim()
        .split(/[\s,]+/)
        .filter(Boolean);
      if (!wanted.length) {
        keywords.node.focus();
        throw new Error("Words: give one at least.");
      }
      const body = { keywords: wanted, location: place.at, k: numberIn(k) ?? 10, alpha: numberIn(alpha) ?? 0.5 };
      view.restart();
      view.caption = `The ${body.k} best posts for ${wanted.join(", ")} near ${body.location.map(shown).join(", ")}`;
      own ??= new OwnSubscription(live, "feeds", name, "subscriptions", (message) => {
        if (message.event === "error") outcome.refuse(new Refusal(message.problem.status, message.problem));
        else if (followed.take(message)) paint();
      });
      // The list comes on the stream: as a snapshot, then as the change from one question to the other.
      await own.set(body);
      followed.changes = 0;
      view.restart();
    });
  scope.onLeave(() => own?.end());

  function draw(context) {
    const c = plot.colours;
    const members = new Set(followed.list.map((one) => one.id));
    context.globalAlpha = 0.6;
    for (const one of posts)
      if (!members.has(one.id)) dot(context, plot.x(one.location[0]), plot.y(one.location[1]), 2.4, c.soft);
    context.globalAlpha = 1;
    const places = followed.list.map((one) => ({
      x: plot.x(one.location[0]),
      y: plot.y(one.location[1]),
      text: String(one.rank),
    }));
    for (const { x, y } of places) dot(context, x, y, 5, c.accent, c.panel);
    labels(context, places, c.ink);
    dot(context, plot.x(place.at[0]), plot.y(place.at[1]), 6, c.mark, c.panel);
  }

  const window_ =
    typeof feed.window === "number"
      ? `the newest ${shown(feed.window)} posts`
      : `the last ${shown(feed.window.seconds)} s`;
  const top = facts([
    ["Posts in the window", feed.posts],
    ["Subscriptions", feed.subscriptions],
    ["Window", window_],
    ["Weighting", feed.weighting],
    ["Seq", feed.seq],
  ]);
  main.append(
    el(
      "header",
      {},
      el("h1", { "data-title": name }, el("span", { class: "type" }, "Feed"), name),
      el(
        "p",
        { class: "lead" },
        "A window of posts. Each subscription has words and a place, and its list the best posts by both.",
      ),
      top,
    ),
    el(
      "div",
      { class: "columns" },
      section(
        "The list of words and a place",
        "The service keeps it up to date while posts come and expire.",
        form(
          "Subscription",
          [keywords.box, ...place.fields, k.box, alpha.box, button("Show", null, { type: "submit", kind: "primary" })],
          ask,
        ),
        outcome.node,
        view.node,
        note,
      ),
      section(
        "Posts",
        "Each dot is a post of the window; those in the list have their ranks. Drag the place, or move it by arrow keys.",
        plot.node,
        el(
          "ul",
          { class: "legend", "aria-label": "Legend" },
          el("li", {}, el("span", { class: "swatch place", "aria-hidden": "true" }), "your place"),
          el("li", {}, el("span", { class: "swatch answer", "aria-hidden": "true" }), "post in the list"),
          el("li", {}, el("span", { class: "swatch density round", "aria-hidden": "true" }), "other post"),
        ),
        about,
        el("details", {}, el("summary", {}, "The posts as a table"), postTable),
      ),
    ),
    publishing(name, place),
  );

  plot.show([x0, x1], [y0, y1]);
  let seen = null;
  await scope.every(2, async () => {
    const now = await get(path("feeds", name), {}, scope.signal);
    const cells = top.querySelectorAll("dd");
    cells[0].textContent = shown(now.posts);
    cells[1].textContent = shown(now.subscriptions);
    cells[4].textContent = shown(now.seq);
    if (now.seq === seen) return;
    seen = now.seq;
    const { items, more } = await pages(path("feeds", name, "posts"), READ, scope.signal);
    posts = items;
    about.textContent = `${count(items.length, "post")}${more ? ` of ${shown(now.posts)}, the first by id` : ""} on the canvas.`;
    setRows(
      postTable.querySelector("tbody"),
      columns,
      items.slice(0, 500).map((one) => [one.id, words(one.keywords), shown(one.location[0]), shown(one.location[1])]),
    );
    postTable.querySelector("caption").textContent = `${count(Math.min(500, items.length), "post")} by id`;
    plot.ask();
  });
}

function publishing(name, place) {
  const text = field("Text", "text", {
    className: "wide",
    autocomplete: "off",
    placeholder: "Fresh ramen, coupon inside",
  });
  const payload = field("Payload, as JSON", "text", { className: "wide", autocomplete: "off", placeholder: "{}" });
  const outcome = new Outcome();
  return section(
    "Publish a post",
    "At your place on the canvas. The answer says how many lists it is in right after it came.",
    form("Post", [text.box, payload.box, button("Publish", null, { type: "submit", kind: "primary" })], () =>
      outcome.of(async () => {
        const about = jsonIn(payload);
        const answer = await request("POST", path("feeds", name, "posts"), {
          body: {
            posts: [{ text: text.node.value, location: place.at, ...(about === undefined ? {} : { payload: about }) }],
          },
        });
        outcome.say(
          el(
            "p",
            {},
            `Post ${answer.results[0].id} came at seq ${shown(answer.seq)}, and is in ${count(answer.results[0].reached, "list")}.`,
          ),
        );
      }),
    ),
    outcome.node,
  );
}
