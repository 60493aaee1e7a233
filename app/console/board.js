// A board: the top of any range as a live table, subscription space, and a form that posts events.

import { announce } from "./announce.js";
import { Refusal, get, path, request } from "./api.js";
import { brief, count, el, facts, rangeWords, section, shown, table } from "./dom.js";
import { Outcome, button, choice, field, form, jsonIn, numberField, numberIn } from "./form.js";
import { live } from "./live.js";
import { RankedTable } from "./ranked.js";
import { FollowedList } from "./ranking.js";
import { Space } from "./space.js";
import { OwnSubscription } from "./standing.js";

const MEMBERS = 4; // members of payloads that have a column
const FEW = 1000; // subscriptions that may be read every two seconds
const EXPLAINED = 200; // tiles that are listed

export async function show(main, scope, name) {
  const board = await get(path("boards", name), {}, scope.signal);
  const [order, best] = board.rank.order === "desc" ? ["largest", "largest"] : ["smallest", "smallest"];
  const about = facts([]);
  const tell = (now) =>
    about.replaceChildren(
      ...facts([
        ["Objects", now.objects],
        ["Subscriptions", now.subscriptions],
        ["Lengths of lists", now.ks.join(", ")],
        ["Painting", now.algorithm],
        ["Seq", now.seq],
      ]).children,
    );
  tell(board);
  main.append(
    el(
      "header",
      {},
      el("h1", { "data-title": name }, el("span", { class: "type" }, "Board"), name),
      el(
        "p",
        { class: "lead" },
        `Objects by ${board.range_attributes.join(" and ")}, ranked by ${board.rank.attribute}, the ${order} first. ` +
          "Each subscription is a range, and its list the best objects in it.",
      ),
      about,
    ),
  );

  const plain = board.range_attributes.length === 1 && !board.indexed.length;
  const space = plain ? new Space(scope, board) : null;
  main.append(
    el(
      "div",
      { class: "columns" },
      top(scope, board, space, best),
      space
        ? section(
            "Subscription space",
            "Each point (l, r) is a range. A tile is a rectangle of ranges, with the object that " +
              "their subscribers need: the message of an event. Tiles fade.",
            space.node,
          )
        : null,
    ),
    posting(scope, board, space),
  );

  await space?.read();
  let known = board.subscriptions;
  let read = performance.now();
  await scope.every(2, async () => {
    const now = await get(path("boards", name), {}, scope.signal);
    tell(now);
    // Where subscriptions come and go all the time, they are read now and then.
    const seldom = performance.now() - read > (now.subscriptions > FEW ? 20000 : 2000);
    if (space && now.subscriptions !== known && seldom) {
      known = now.subscriptions;
      read = performance.now();
      space.board = now;
      await space.read();
    }
  });
}

/** The columns of lists of this board. */
function columnsOf(board) {
  return (list) => {
    const members = [];
    for (const { payload } of list) {
      if (payload === null || typeof payload !== "object" || Array.isArray(payload)) continue;
      for (const [member, value] of Object.entries(payload)) {
        if (members.length < MEMBERS && !members.includes(member) && (value === null || typeof value !== "object"))
          members.push(member);
      }
    }
    return [board.rank.attribute, ...board.range_attributes]
      .map((attribute) => ({ title: attribute, class: "number", of: (entry) => shown(entry.values[attribute]) }))
      .concat(members.map((member) => ({ title: member, of: (entry) => brief(entry.payload?.[member]) })));
  };
}

function top(scope, board, space, best) {
  const ends = board.range_attributes.map((attribute) => [
    numberField(`${attribute} from`, null, { placeholder: "any" }),
    numberField("to", null, { placeholder: "any" }),
  ]);
  const filters = board.indexed.map((indexed) => [
    indexed,
    field(`${indexed} is`, "text", { placeholder: "any", size: 8 }),
  ]);
  const k = choice("Ranks", board.ks, Math.max(...board.ks));
  const outcome = new Outcome();
  const view = new RankedTable("The live list", columnsOf(board), "No object lies in this range.");
  const note = el("p", { class: "soft" }, "");
  const followed = new FollowedList();
  let own = null;
  let watching = null; // what reads the list of those who may not subscribe

  const paint = () => {
    view.list = followed.list;
    note.textContent = `At seq ${shown(followed.seq)}. ${
      watching
        ? "The key may not subscribe, so this list is read every two seconds."
        : `${count(followed.changes, "change")} since you asked.`
    }`;
    const first = followed.list[0];
    announce(
      first
        ? `Rank 1 is ${first.id}, ${board.rank.attribute} ${shown(first.values[board.rank.attribute])}. ` +
            `${count(followed.changes, "change")} so far.`
        : "The list is empty.",
    );
  };

  const ask = () =>
    outcome.of(async () => {
      const range = Object.fromEntries(
        board.range_attributes.map((attribute, i) => [attribute, ends[i].map(numberIn)]),
      );
      const where = Object.fromEntries(
        filters
          .filter(([, one]) => one.node.value.trim() !== "")
          .map(([indexed, one]) => [indexed, wanted(one.node.value.trim())]),
      );
      outcome.clear();
      const words = board.range_attributes
        .map((attribute) => `${attribute} ${rangeWords(range[attribute])}`)
        .join(", ");
      const body = { range, k: Number(k.node.value), ...(Object.keys(where).length ? { where } : {}) };
      view.caption = `The ${body.k} ${best} by ${board.rank.attribute}, ${words}`;
      view.restart();
      if (space) space.point = range[space.attribute];
      try {
        own ??= new OwnSubscription(live, "boards", board.name, "subscriptions", (message) => {
          if (message.event === "error") outcome.refuse(new Refusal(message.problem.status, message.problem));
          else if (followed.take(message)) paint();
        });
        // The list comes on the stream: as a snapshot, then as the change from one range to the other.
        await own.set(body);
        followed.changes = 0;
        view.restart();
      } catch (error) {
        if (!(error instanceof Refusal) || error.status !== 403) throw error;
        own?.end();
        own = null;
        await look(range, where, body.k);
      }
    });

  // Without the right to subscribe.
  const look = async (range, where, most) => {
    const one = board.range_attributes.length === 1;
    const query = { k: most };
    for (const attribute of board.range_attributes) {
      [query[one ? "l" : `l.${attribute}`], query[one ? "r" : `r.${attribute}`]] = range[attribute];
    }
    for (const [indexed, value] of Object.entries(where)) query[`where.${indexed}`] = JSON.stringify(value);
    const read = async () => {
      const answer = await get(path("boards", board.name, "top"), query, scope.signal);
      followed.list = answer.list;
      followed.seq = answer.seq;
      paint();
    };
    watching = read;
    await read();
  };
  scope.every(2, async () => {
    if (watching && !own) await watching();
  });

  scope.onLeave(() => own?.end());
  const node = section(
    "The top of a range",
    "A list that the service keeps up to date. What enters, leaves or moves is marked.",
    form(
      "Range",
      [
        ...ends.flat().map((one) => one.box),
        ...filters.map(([, one]) => one.box),
        k.box,
        button("Show", null, { type: "submit", kind: "primary" }),
      ],
      ask,
    ),
    outcome.node,
    view.node,
    note,
  );
  ask();
  return node;
}

/** A filter's value: JSON, or a string without quotes. */
function wanted(text) {
  try {
    return JSON.parse(text);
  } catch {
    return text;
  }
}

function posting(scope, board, space) {
  const attributes = [board.rank.attribute, ...board.range_attributes];
  const op = choice("Event", [
    ["upsert", "insert or update"],
    ["update", "update"],
    ["delete", "delete"],
  ]);
  const id = field("Object", "text", { autocomplete: "off", spellcheck: "false", size: 12, required: true });
  const values = attributes.map((attribute) => [attribute, numberField(attribute)]);
  const payload = field("Payload, as JSON", "text", {
    className: "wide",
    autocomplete: "off",
    spellcheck: "false",
    placeholder: "{}",
  });
  const outcome = new Outcome();
  op.node.addEventListener("change", () => {
    for (const one of [...values.map(([, input]) => input), payload]) one.box.hidden = op.node.value === "delete";
  });

  const event = () => {
    const read = { op: op.node.value, id: id.node.value.trim() };
    if (read.op !== "delete") {
      const given = values
        .map(([attribute, input]) => [attribute, numberIn(input)])
        .filter(([, value]) => value !== null);
      if (given.length) read.values = Object.fromEntries(given);
      const about = jsonIn(payload);
      if (about !== undefined) read.payload = about;
    }
    return read;
  };
  const explain = () =>
    outcome.of(async () => {
      const said = await request("POST", path("boards", board.name, "explain"), { body: { event: event() } });
      outcome.say(...explained(said));
      if (space) space.fix(tilesOf(said));
    });
  const post = () =>
    outcome.of(async () => {
      const answer = await request("POST", path("boards", board.name, "events"), {
        body: { events: [event()], messages: "full" },
      });
      outcome.say(el("p", {}, `Applied at seq ${shown(answer.seq)}, with ${count(answer.tile_count, "tile")}.`));
      if (!space) return;
      space.fix([]);
      for (const tile of answer.tiles) space.add(tile, answer.seq);
    });
  return section(
    "Post an event",
    "Explain says what the event would change, without applying it: whom it affects, and by which tiles.",
    form(
      "Event",
      [
        op.box,
        id.box,
        ...values.map(([, one]) => one.box),
        payload.box,
        el(
          "div",
          { class: "buttons" },
          button("Explain", null, { type: "submit", name: "explain" }),
          button("Post", null, { type: "submit", kind: "primary", name: "post" }),
        ),
      ],
      (submitter) => (submitter?.name === "post" ? post() : explain()),
    ),
    outcome.node,
  );
}

const KINDS = {
  better: "The object is promoted: it ranks better.",
  worse: "The object is demoted: it ranks worse.",
  insertion: "The object is inserted.",
  deletion: "The object is deleted.",
  move: "The object moves: it leaves where it was, and enters where it comes to.",
  payload: "Only the payload of the object changes.",
  nothing: "Nothing changes.",
};

function tilesOf(said) {
  return said.classes.flatMap((one) => [
    ...one.tiles.map((tile) => ({ tile: { k: one.k, ...tile }, exposed: false })),
    ...one.exposed.flatMap((other) =>
      other.tiles.map((tile) => ({ tile: { k: one.k, object: other.object, ...tile }, exposed: true })),
    ),
  ]);
}

/** What `explain` says, as text and tables. */
function explained(said) {
  const classes = table(
    "By k, the length of lists",
    [
      { title: "k" },
      { title: "Subscriptions reached", class: "number" },
      { title: "Tiles", class: "number" },
      { title: "Exposed objects" },
    ],
    said.classes.map((one) => [
      shown(one.k) + (one.shape && one.shape !== "box" ? ` (${one.shape})` : ""),
      shown(one.reached),
      shown(one.tile_count),
      one.exposed.map((other) => other.object.id).join(", ") || "none",
    ]),
  );
  const tiles = tilesOf(said);
  const box = (tile) =>
    tile.l_outer === undefined
      ? brief(tile.box ?? tile.disc ?? tile.half_plane ?? tile.simplex)
      : `l in (${tile.l_outer === null ? "−∞" : shown(tile.l_outer)}, ${tile.l_inner === null ? "−∞" : shown(tile.l_inner)}], ` +
        `r in [${tile.r_inner === null ? "∞" : shown(tile.r_inner)}, ${tile.r_outer === null ? "∞" : shown(tile.r_outer)})`;
  return [
    el(
      "p",
      {},
      el("strong", {}, `${KINDS[said.kind]} `),
      `${count(said.affected, "subscription")} would be affected, by ${count(said.tile_count, "tile")}.`,
    ),
    classes,
    tiles.length
      ? el(
          "details",
          {},
          el("summary", {}, `The ${tiles.length > EXPLAINED ? `first ${EXPLAINED} ` : ""}tiles`),
          table(
            "Tiles",
            [{ title: "k" }, "Object", "Ranges"],
            tiles
              .slice(0, EXPLAINED)
              .map(({ tile, exposed }) => [shown(tile.k), `${tile.object.id}${exposed ? ", exposed" : ""}`, box(tile)]),
          ),
        )
      : null,
  ].filter(Boolean);
}
