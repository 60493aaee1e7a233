// Renders /openapi.json as a searchable reference with a form to try each operation. No dependencies; text from the
// document is only ever set as text.
"use strict";

const METHODS = ["get", "post", "put", "patch", "delete"];
const LONGEST = 200000; // characters of a response that are shown

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name in node && typeof value !== "string") node[name] = value;
    else node.setAttribute(name, value);
  }
  node.append(...children);
  return node;
}

const pretty = (value) => JSON.stringify(value, null, 2);

/** The type of a schema in a few words; models as links. */
function typeOf(schema) {
  if (!schema || typeof schema !== "object") return ["any"];
  if (schema.$ref) {
    const name = schema.$ref.split("/").pop();
    return [el("a", { href: `#model-${name}` }, name)];
  }
  for (const options of [schema.anyOf, schema.oneOf, schema.allOf]) {
    if (options) return options.flatMap((option, i) => (i ? [" | ", ...typeOf(option)] : typeOf(option)));
  }
  if (schema.enum) return [schema.enum.map((value) => JSON.stringify(value)).join(" | ")];
  if ("const" in schema) return [JSON.stringify(schema.const)];
  if (schema.type === "array") return ["list of ", ...typeOf(schema.items)];
  if (schema.type === "object" && schema.additionalProperties) return ["map to ", ...typeOf(schema.additionalProperties)];
  return [schema.type || "any"];
}

function table(rows) {
  return el("table", {}, ...rows.map((cells) => el("tr", {}, ...cells.map((cell) => el("td", {}, ...[cell].flat())))));
}

function propertiesOf(schema) {
  const required = new Set(schema.required || []);
  return table(
    Object.entries(schema.properties || {}).map(([name, about]) => [
      [el("code", {}, name), required.has(name) ? " *" : ""],
      typeOf(about),
      about.description || "",
    ]),
  );
}

/** The form that sends a request, and what comes back. */
function tryIt(method, path, operation) {
  const fields = (operation.parameters || []).map((parameter) => {
    const input = el("input", { name: parameter.name, placeholder: parameter.required ? "required" : "" });
    return { parameter, input };
  });
  const content = Object.entries(operation.requestBody?.content || {}).filter(([, about]) => "example" in about);
  const kind = el("select", {}, ...content.map(([media]) => el("option", { value: media }, media)));
  const body = el("textarea", { spellcheck: "false" });
  const show = () => {
    const about = operation.requestBody.content[kind.value];
    body.value = typeof about.example === "string" ? about.example : pretty(about.example);
  };
  if (content.length) {
    show();
    kind.addEventListener("change", show);
  }
  const output = el("pre", { hidden: true });
  const stop = el("button", { type: "button", hidden: true }, "Stop");
  const form = el("form", {},
    ...fields.map(({ parameter, input }) => el("label", {}, `${parameter.name} `, input,
      el("span", { class: "note" }, ` ${parameter.in}. ${parameter.description || parameter.schema?.description || ""}`))),
    ...(content.length ? [el("label", {}, "Body ", kind), body] : []),
    el("button", { type: "submit" }, "Send"), " ", stop);

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const query = new URLSearchParams();
    const headers = {};
    let url = path;
    for (const { parameter, input } of fields) {
      if (parameter.in === "path") url = url.replace(`{${parameter.name}}`, encodeURIComponent(input.value));
      else if (input.value !== "" && parameter.in === "query") query.set(parameter.name, input.value);
      else if (input.value !== "") headers[parameter.name] = input.value;
    }
    if (String(query)) url += `?${query}`;
    const key = document.getElementById("key").value;
    if (key) headers.Authorization = `Bearer ${key}`;
    if (content.length) headers["Content-Type"] = kind.value;
    const aborter = new AbortController();
    stop.onclick = () => aborter.abort();
    stop.hidden = false;
    output.hidden = false;
    output.textContent = `${method.toUpperCase()} ${url}\n`;
    try {
      const response = await fetch(url, {
        method: method.toUpperCase(), headers, signal: aborter.signal, body: content.length ? body.value : undefined,
      });
      output.textContent += `${response.status} ${response.statusText}\n\n`;
      await read(response, output);
    } catch (error) {
      output.textContent += `\n${error}`;
    }
    stop.hidden = true;
  });
  return el("div", {}, form, output);
}

/** Shows a response as it comes in, so that streams can be followed. */
async function read(response, output) {
  const json = (response.headers.get("Content-Type") || "").includes("json");
  const decoder = new TextDecoder();
  let text = "";
  const head = output.textContent;
  for (const reader = response.body.getReader(); ;) {
    const { done, value } = await reader.read();
    if (done) break;
    text += decoder.decode(value, { stream: true });
    output.textContent = head + text.slice(-LONGEST);
  }
  try {
    if (json) output.textContent = head + pretty(JSON.parse(text)).slice(0, LONGEST);
  } catch {
    // NDJSON stays as it came.
  }
}

function showOperation(method, path, operation) {
  const scopes = (operation.security || []).flatMap((one) => Object.values(one).flat());
  const box = el("details", { id: operation.operationId },
    el("summary", {}, el("span", { class: "method" }, method.toUpperCase()), el("span", { class: "path" }, path),
      el("span", { class: "note" }, ` ${operation.summary}`)));
  box.dataset.text = [method, path, operation.operationId, operation.summary, operation.description].join(" ").toLowerCase();
  box.addEventListener("toggle", () => {
    if (!box.open || box.children.length > 1) return;
    const models = Object.entries(operation.requestBody?.content || {}).map(([media, about]) => [media, typeOf(about.schema)]);
    const responses = Object.entries(operation.responses).map(([status, about]) => [
      status,
      Object.values(about.content || {}).flatMap((one) => typeOf(one.schema)),
      about.description,
    ]);
    box.append(el("div", {},
      el("p", {}, operation.description),
      el("p", { class: "note" }, `Operation ${operation.operationId}.`, scopes.length ? ` Needs scope ${scopes.join(", ")}.` : ""),
      ...(models.length ? [el("h3", {}, "Body"), table(models)] : []),
      el("h3", {}, "Responses"), table(responses),
      el("h3", {}, "Try it"), tryIt(method, path, operation)));
  });
  return box;
}

function showModel(name, schema) {
  const box = el("details", { id: `model-${name}` }, el("summary", {}, el("code", {}, name)));
  box.dataset.text = `${name} ${schema.description || ""} ${Object.keys(schema.properties || {}).join(" ")}`.toLowerCase();
  box.addEventListener("toggle", () => {
    if (!box.open || box.children.length > 1) return;
    box.append(el("div", {}, el("p", {}, schema.description || ""), propertiesOf(schema),
      ...(schema.examples ? [el("h3", {}, "Example"), el("pre", {}, pretty(schema.examples[0]))] : [])));
  });
  return box;
}

function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (target instanceof HTMLDetailsElement) {
    target.hidden = false;
    target.open = true;
    target.scrollIntoView();
  }
}

async function main() {
  const spec = await (await fetch("/openapi.json")).json();
  document.getElementById("about").textContent = `${spec.info.description} Version ${spec.info.version}.`;
  const operations = document.getElementById("operations");
  for (const tag of spec.tags) {
    const section = el("section", {}, el("h2", {}, tag.name), el("p", {}, tag.description));
    for (const [path, item] of Object.entries(spec.paths)) {
      for (const method of METHODS) {
        if (item[method]?.tags.includes(tag.name)) section.append(showOperation(method, path, item[method]));
      }
    }
    operations.append(section);
  }
  const models = document.getElementById("models");
  models.append(...Object.entries(spec.components.schemas).map(([name, schema]) => showModel(name, schema)));
  document.getElementById("search").addEventListener("input", (event) => {
    const words = event.target.value.toLowerCase().split(/\s+/);
    for (const box of document.querySelectorAll("details")) {
      box.hidden = !words.every((word) => box.dataset.text.includes(word));
    }
    for (const section of operations.children) {
      section.hidden = !section.querySelector("details:not([hidden])");
    }
  });
  addEventListener("hashchange", openTarget);
  openTarget();
}

main().catch((error) => {
  document.getElementById("about").textContent = `The reference cannot be shown: ${error}`;
});
