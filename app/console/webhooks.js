// Webhooks: who is sent the events of subscriptions, and whether that succeeds. Hidden where the service has none.

import { Refusal, pages, path, request, send } from "./api.js";
import { count, el, section, setRows, shown, table } from "./dom.js";
import { Outcome, button, field, form, numberField, numberIn } from "./form.js";

let known = null;

/** Whether the service has webhooks, which is asked once. A key that may not see them is a service that has them. */
export async function offered() {
  if (known === null) {
    const response = await send("GET", "/v1/webhooks", { query: { limit: 1 } });
    if (response.status !== 503) known = response.status !== 404;
  }
  return known === true;
}

export async function show(main, scope) {
  const outcome = new Outcome();
  const columns = [
    "Name",
    "State",
    "Resource",
    "Address",
    { title: "Delivered", class: "number" },
    { title: "Waiting", class: "number" },
    { title: "Failures", class: "number" },
    "Last answer",
    "Actions",
  ];
  const list = table("Webhooks", columns, [], { empty: "There are none yet." });
  const name = field("Name", "text", { autocomplete: "off", size: 12, required: true });
  const url = field("Address", "text", {
    autocomplete: "off",
    spellcheck: "false",
    className: "wide",
    placeholder: "https://example.org/in",
  });
  const resource = field("Resource", "text", {
    autocomplete: "off",
    spellcheck: "false",
    size: 16,
    placeholder: "boards/delays",
  });
  const ids = field("Ids of subscriptions, apart by spaces", "text", {
    autocomplete: "off",
    spellcheck: "false",
    className: "wide",
  });
  const batch = numberField("Events in one request, at most", "1", { size: 5 });

  const act = (done, work) =>
    outcome.of(async () => {
      await work();
      outcome.say(el("p", {}, done));
      await read();
    });
  async function read() {
    const { items } = await pages("/v1/webhooks", 1000, scope.signal);
    list.querySelector("caption").textContent = count(items.length, "webhook");
    const focused = document.activeElement?.dataset?.action;
    setRows(
      list.querySelector("tbody"),
      columns,
      items.map((hook) => [
        hook.name,
        el(
          "span",
          { class: `tag ${{ active: "good", failing: "warn", disabled: "bad" }[hook.state] ?? ""}` },
          hook.state,
        ),
        `${hook.resource}: ${count(hook.ids.length, "subscription")}`,
        hook.url,
        shown(hook.delivered),
        shown(hook.waiting),
        shown(hook.failures),
        [hook.last_status, hook.last_error].filter(Boolean).join(", "),
        el(
          "div",
          { class: "buttons" },
          ...[
            [
              "Test",
              () => act(`A test was sent to ${hook.name}.`, () => request("POST", path("webhooks", hook.name, "test"))),
            ],
            ...(hook.state === "disabled"
              ? [
                  [
                    "Enable",
                    () => act(`${hook.name} is enabled.`, () => request("POST", path("webhooks", hook.name, "enable"))),
                  ],
                ]
              : []),
            ["Delete", () => act(`${hook.name} is deleted.`, () => request("DELETE", path("webhooks", hook.name)))],
          ].map(([text, work]) =>
            button(text, work, {
              kind: "small",
              "aria-label": `${text} ${hook.name}`,
              "data-action": `${text} ${hook.name}`,
            }),
          ),
        ),
      ]),
      "There are none yet.",
    );
    if (focused) [...list.querySelectorAll("[data-action]")].find((one) => one.dataset.action === focused)?.focus();
  }
  const put = () =>
    outcome.of(async () => {
      const body = {
        url: url.node.value.trim(),
        resource: resource.node.value.trim(),
        ids: ids.node.value.split(/[\s,]+/).filter(Boolean),
        batch: numberIn(batch) ?? 1,
      };
      const given = name.node.value.trim();
      if (!given) {
        name.node.focus();
        throw new Error("Name: give one.");
      }
      const made = await request("PUT", path("webhooks", given), { body });
      outcome.say(
        el("p", {}, `${given} is ${made.secret ? "made. Its secret is shown this once:" : "changed."}`),
        made.secret ? el("code", { class: "secret" }, made.secret) : "",
      );
      await read();
    });
  main.append(
    el(
      "header",
      {},
      el("h1", {}, "Webhooks"),
      el(
        "p",
        { class: "lead" },
        "Each event of the subscriptions of a webhook is sent to its address, signed, in order, and again until it is taken.",
      ),
    ),
    section(
      "Make or change a webhook",
      null,
      form(
        "Webhook",
        [
          name.box,
          url.box,
          resource.box,
          ids.box,
          batch.box,
          button("Make or change", null, { type: "submit", kind: "primary" }),
        ],
        put,
      ),
      outcome.node,
    ),
    section("Webhooks", "Failing ones are tried again with growing pauses; disabled ones are not.", list),
  );
  try {
    await scope.every(3, read);
  } catch (error) {
    if (!(error instanceof Refusal)) throw error;
    outcome.refuse(error);
  }
}
