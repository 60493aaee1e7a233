/** Snapshots, rebuilds and verifications of a service. They need a key with `admin`. */

import { segment } from "./http.js";
import { sending } from "./resource.js";
import { sleep } from "./retry.js";

const ROOT = "/v1/admin/jobs";
const OVER = new Set(["succeeded", "failed", "cancelled"]);

/** Seconds between two looks at a job. */
const LOOK = 0.5;

export class Jobs {
  constructor(connection) {
    this.#connection = connection;
  }

  #connection;

  /** Start a snapshot. Resolves to `{job}`. */
  snapshot(options) {
    return this.#start("snapshots", {}, options);
  }

  /** Start a rebuild: `{resources, engine}`, of all resources unless they are named. Resolves to `{job}`. */
  rebuild(what = {}, options = undefined) {
    return this.#start("rebuilds", what, options);
  }

  /** Start a comparison of every list and index with a scan: `{resources, engine}`. Resolves to `{job}`. */
  verify(what = {}, options = undefined) {
    return this.#start("verify", what, options);
  }

  /** The job as it is now. */
  get(id, options) {
    return this.#connection.send("GET", `${ROOT}/${segment(id)}`, sending(options));
  }

  /** Cancel a job: one that waits ends now, one that runs at its next step. */
  cancel(id, options) {
    return this.#connection.send("DELETE", `${ROOT}/${segment(id)}`, sending(options));
  }

  /** All jobs that the service knows, in order. */
  list(options) {
    return this.#connection.listing(ROOT, sending(options));
  }

  /** The job as it is, then whenever it has changed, up to its end. */
  async *follow(id, options = {}) {
    let before = "";
    for (;;) {
      const job = await this.get(id, options);
      const text = JSON.stringify(job);
      if (text !== before) yield job;
      if (OVER.has(job.state)) return;
      before = text;
      await sleep(LOOK, options.signal);
    }
  }

  #start(path, body, options) {
    return this.#connection.send("POST", `/v1/admin/${path}`, { ...sending(options), body });
  }
}
