/** A watcher's own connection: server-sent events by `fetch`, so that keys go in a header. */

import { ProblemError, RankcastError, Unreachable, reason } from "./errors.js";
import { BUSY, Deadline, RECONNECT, pause, sleep } from "./retry.js";
import { Parser } from "./sse.js";

/** Silent heartbeats after which a connection counts as lost. */
const SILENT = 3;

/** One connection after the other, until the watcher ends. */
export class EventStream {
  constructor(watcher, connection) {
    this.#watcher = watcher;
    this.#connection = connection;
    watcher.attach(this);
    if (!watcher.closed) this.#run();
  }

  #watcher;
  #connection;
  #closing = new AbortController();
  #attempt = null;
  #ever = false;
  #delivered = false;
  #restarting = false;

  close() {
    this.#closing.abort(new Error("closed"));
  }

  /** Leave the connection and make another one. */
  restart() {
    this.#restarting = this.#attempt !== null;
    this.#attempt?.abort();
  }

  async #run() {
    const watcher = this.#watcher;
    const connection = this.#connection;
    const tried = new Set();
    let failures = 0;
    while (!watcher.closed) {
      let problem = null;
      let why = "the stream ended";
      this.#delivered = false;
      const node = await connection.choose(tried);
      try {
        await this.#follow(node);
      } catch (error) {
        if (watcher.closed) return;
        if (error instanceof ProblemError) problem = error;
        else if (error instanceof RankcastError) return watcher.fail(error);
        else if (!this.#restarting) connection.nodes.failed(node);
        why = reason(error);
      }
      watcher.setConnected(false);
      if (watcher.closed) return;
      if (this.#delivered) {
        failures = 0;
        tried.clear();
      }
      if (!this.#restarting) tried.add(node);
      this.#restarting = false;
      const passes = problem === null || BUSY.has(problem.status) || (problem.status === 429 && this.#ever);
      if (!passes && !(await this.#isFor(node, problem, tried))) return watcher.fail(problem);
      if (watcher.closed) return;
      if (this.#ever) watcher.reconnects += 1;
      // A node that gave something and broke is not left in a hurry: the next one may do the same.
      if (connection.nodes.left(tried) && !this.#delivered) continue;
      failures += 1;
      if (!this.#ever && failures >= connection.retry.attempts) {
        return watcher.fail(problem ?? new Unreachable(`${connection.nodes} does not answer: ${why}`));
      }
      try {
        const patience = this.#ever ? RECONNECT : connection.retry;
        await sleep(pause(patience, failures, problem?.retryAfter), this.#closing.signal);
      } catch {
        return;
      }
    }
  }

  /** Whether a refusal is a node's own: a replica may not have yet what others have, and tickets are good at one. */
  async #isFor(node, problem, tried) {
    if (problem.status === 404) return await this.#connection.follows(node);
    return problem.status === 401 && this.#connection.hasTickets && this.#connection.nodes.left(tried);
  }

  /** One connection to a node, until it ends or breaks. */
  async #follow(node) {
    const watcher = this.#watcher;
    const connection = this.#connection;
    const silence = SILENT * watcher.heartbeat;
    const deadline = new Deadline(this.#closing.signal, connection.timeout, "no response in time");
    this.#attempt = deadline;
    try {
      const ticket = await connection.ticket({ resource: watcher.resource, ids: [watcher.id], ...connection.nodes.named(node) });
      const query = Object.fromEntries(Object.entries(watcher.options).map(([name, value]) => [name, String(value)]));
      if (watcher.cursor !== null) query.after = watcher.cursor;
      const headers = { Accept: "text/event-stream" };
      const asked = { query, headers, ticket, node, signal: deadline.signal };
      const response = await connection.once("GET", watcher.path, asked);
      if (!response.ok) {
        throw ProblemError.of(response.status, await response.text(), response.headers.get("retry-after"));
      }
      this.#ever = true;
      connection.nodes.worked(node);
      watcher.setConnected(true, node);
      await this.#read(response.body.getReader(), deadline, silence);
    } finally {
      deadline.release();
      deadline.abort();
      this.#attempt = null;
    }
  }

  async #read(reader, deadline, silence) {
    const watcher = this.#watcher;
    const parser = new Parser(this.#connection.maxMessage);
    for (;;) {
      deadline.within(silence);
      const { value, done } = await reader.read();
      if (done || watcher.closed) return;
      this.#delivered = true;
      for (const { event, data, id } of parser.feed(value)) {
        if (data === null) {
          if (id !== null) watcher.beat(id);
          continue;
        }
        const said = JSON.parse(data);
        // A stream ends with its credentials; those that can be renewed are.
        if (event === "gone" && said.reason === "expired" && this.#connection.renews) return;
        watcher.deliver(event, said, id);
        if (watcher.closed || deadline.signal.aborted) return;
      }
    }
  }
}
