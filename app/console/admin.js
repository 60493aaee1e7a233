// Administration: keys, snapshots, rebuilds, verification, and the jobs that do it.

import { Refusal, get, pages, path, request } from "./api.js";
import { brief, count, el, section, setRows, shown, table } from "./dom.js";
import { Outcome, button, choice, field, form, numberField, numberIn } from "./form.js";
import { TYPES } from "./types.js";

const RUNNING = new Set(["queued", "running"]);

export async function show(main, scope) {
  main.append(
    el(
      "header",
      {},
      el("h1", {}, "Administration"),
      el(
        "p",
        { class: "lead" },
        "What keeps the service in order. All of it needs a key with the scope admin, where the service has keys.",
      ),
    ),
  );
  const jobs = maintenance(scope);
  const keys = keyring(scope);
  main.append(jobs.node, keys.node);
  await keys.read();
  await scope.every(1, jobs.read);
}

function maintenance(scope) {
  const outcome = new Outcome();
  const resource = choice("Resource", [["", "all resources"]]);
  const engine = choice("Where", [
    ["local", "in the service"],
    ["spark", "on Spark"],
  ]);
  const columns = ["Job", "Kind", "State", "Progress", "Detail", "Started", "Actions"];
  const list = table("Jobs that have not ended, and the last that have, the newest first", columns, [], {
    empty: "There were no jobs since the service started.",
  });
  const start = (what, body) =>
    outcome.of(async () => {
      const { job } = await request("POST", `/v1/admin/${what}`, { body });
      outcome.say(el("p", {}, `Job ${job} was started.`));
      await read();
    });
  const about = () => ({
    ...(resource.node.value ? { resources: [resource.node.value] } : {}),
    engine: engine.node.value,
  });
  const cancel = (job) =>
    outcome.of(async () => {
      await request("DELETE", path("admin", "jobs", job));
      await read();
    });

  const rows = new Map();
  async function read() {
    const { items } = await pages("/v1/admin/jobs", 200, scope.signal);
    items.reverse();
    const open = new Map(items.map((job) => [job.job, JSON.stringify(job)]));
    if (open.size === rows.size && [...open].every(([job, text]) => rows.get(job) === text)) return;
    rows.clear();
    for (const [job, text] of open) rows.set(job, text);
    const focused = document.activeElement?.dataset?.job;
    setRows(
      list.querySelector("tbody"),
      columns,
      items.map((job) => [
        job.job,
        job.kind,
        el("span", { class: `tag ${{ succeeded: "good", failed: "bad" }[job.state] ?? ""}` }, job.state),
        el(
          "span",
          {},
          el("progress", { max: "1", value: job.progress, "aria-label": `Progress of ${job.job}` }),
          ` ${Math.round(job.progress * 100)}%`,
        ),
        detail(job.detail),
        job.started ? new Date(job.started).toLocaleTimeString("en-GB") : "",
        RUNNING.has(job.state)
          ? button("Cancel", () => cancel(job.job), {
              kind: "small",
              "data-job": job.job,
              "aria-label": `Cancel ${job.job}`,
            })
          : "",
      ]),
      "There were no jobs since the service started.",
    );
    if (focused) list.querySelector(`[data-job="${focused}"]`)?.focus();
  }

  (async () => {
    for (const type of TYPES) {
      try {
        for (const one of (await pages(`/v1/${type}`, 500, scope.signal)).items) {
          resource.node.append(el("option", { value: `${type}/${one.name}` }, `${type}/${one.name}`));
        }
      } catch {
        // The choice is of what may be listed.
      }
    }
  })();

  return {
    read,
    node: section(
      "Maintenance",
      "A snapshot is the state of all resources after one row of the log. A rebuild packs indexes again. Verification compares every list and index with a scan.",
      form(
        "Maintenance",
        [
          resource.box,
          engine.box,
          el(
            "div",
            { class: "buttons" },
            button("Verify", null, { type: "submit", name: "verify" }),
            button("Rebuild", null, { type: "submit", name: "rebuilds" }),
            button("Take a snapshot of all", null, { type: "submit", name: "snapshots" }),
          ),
        ],
        (submitter) => start(submitter.name, submitter.name === "snapshots" ? {} : about()),
      ),
      outcome.node,
      list,
    ),
  };
}

/** What a job says of itself, shortly. */
function detail(about) {
  const parts = Object.entries(about ?? {}).filter(([, value]) => value !== null && value !== undefined);
  if (!parts.length) return "";
  const line = parts
    .filter(([, value]) => typeof value !== "object")
    .map(([name, value]) => `${name.replaceAll("_", " ")} ${typeof value === "number" ? shown(value) : value}`)
    .join(", ");
  const rest = parts.filter(([, value]) => typeof value === "object" && JSON.stringify(value).length > 2);
  if (!rest.length) return line.slice(0, 300);
  return el(
    "details",
    {},
    el("summary", {}, line.slice(0, 200) || "Detail"),
    el("pre", { tabindex: "0" }, JSON.stringify(about, null, 2).slice(0, 10000)),
  );
}

function keyring(scope) {
  const outcome = new Outcome();
  const columns = ["Name", "Id", "Scopes", "Created", "Expires", "Actions"];
  const list = table("Keys", columns, [], {
    empty:
      "There are no keys: the service answers on its own machine alone, and asks for none. The first key closes it, and must have admin.",
  });
  const name = field("Name", "text", { autocomplete: "off", size: 14, required: true });
  const scopes = field("Scopes, apart by spaces", "text", {
    autocomplete: "off",
    spellcheck: "false",
    className: "wide",
    value: "boards:read",
  });
  const days = numberField("Expires in days", null, { size: 6, placeholder: "never" });

  async function read() {
    try {
      const { items } = await pages("/v1/admin/keys", 1000, scope.signal);
      setRows(
        list.querySelector("tbody"),
        columns,
        items.map((key) => [
          key.name,
          el("span", { class: "id" }, key.id),
          key.scopes.join(" "),
          date(key.created),
          key.expires ? date(key.expires) : "never",
          remover(key),
        ]),
        "There are no keys: the service answers on its own machine alone, and asks for none. The first key closes it, and must have admin.",
      );
      list.querySelector("caption").textContent = count(items.length, "key");
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      outcome.refuse(error);
    }
  }

  /** A button that asks once more before it deletes. */
  function remover(key) {
    const node = button(
      "Delete",
      () => {
        if (node.dataset.sure) {
          outcome.of(async () => {
            await request("DELETE", path("admin", "keys", key.id));
            outcome.say(el("p", {}, `The key ${key.name} is deleted, and its streams have ended.`));
            await read();
          });
          return;
        }
        node.dataset.sure = "1";
        node.textContent = "Delete for ever";
      },
      { kind: "small", "aria-label": `Delete the key ${brief(key.name)}` },
    );
    node.addEventListener("blur", () => {
      delete node.dataset.sure;
      node.textContent = "Delete";
    });
    return node;
  }

  const make = () =>
    outcome.of(async () => {
      const far = numberIn(days);
      const body = {
        name: name.node.value.trim(),
        scopes: scopes.node.value.split(/[\s,]+/).filter(Boolean),
        ...(far === null ? {} : { expires: far * 86400 }),
      };
      const made = await request("POST", "/v1/admin/keys", { body });
      outcome.say(
        el("p", {}, "This is shown this once. Keep it where secrets are kept."),
        el("code", { class: "secret" }, made.key),
      );
      name.node.value = "";
      await read();
    });
  return {
    read,
    node: section(
      "Keys",
      "Each lets its holder do what its scopes say: admin, or the right to read, subscribe, publish or write, as boards:read, or boards/delays:publish on one resource.",
      form(
        "New key",
        [name.box, scopes.box, days.box, button("Create", null, { type: "submit", kind: "primary" })],
        make,
      ),
      outcome.node,
      list,
    ),
  };
}

const date = (text) => new Date(text).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });
