/** What can go wrong: the service refused (`ProblemError`), or could not be reached (`Unreachable`). */

const SHOWN = 5;
const LONGEST = 200;

/** The base of every error that this package throws on purpose. */
export class RankcastError extends Error {
  get name() {
    return this.constructor.name;
  }
}

/**
 * The service refused a request, and nothing was changed by it (RFC 9457).
 *
 * `status` is that of HTTP, `problem` the document: its `type` is stable and looks like `/problems/<slug>`, its `errors`
 * name each field and the reason. `retryAfter` is in seconds, null where nothing was said.
 */
export class ProblemError extends RankcastError {
  constructor(status, problem, retryAfter = null) {
    super(describe(status, problem));
    this.status = status;
    this.problem = problem;
    this.retryAfter = retryAfter;
  }

  get type() {
    return this.problem.type ?? "about:blank";
  }

  /** The last part of `type`. */
  get slug() {
    return this.type.slice(this.type.lastIndexOf("/") + 1);
  }

  get errors() {
    return this.problem.errors ?? [];
  }

  /** Read any refusal, also one by something between us and the service that speaks no JSON. */
  static of(status, text, retryAfter = null) {
    let problem = null;
    try {
      problem = JSON.parse(text);
    } catch {
      // A proxy's page.
    }
    if (problem === null || typeof problem !== "object" || Array.isArray(problem)) {
      problem = { type: "about:blank", title: `HTTP ${status}`, status, detail: text.slice(0, LONGEST).trim() };
    }
    return new ProblemError(problem.status ?? status, problem, seconds(retryAfter));
  }
}

/**
 * The service did not respond, to none of the attempts.
 *
 * Whether a write was applied is then not known. Sending it once more with the same `idempotencyKey` is safe: it is applied
 * at most once.
 */
export class Unreachable extends RankcastError {
  constructor(message, idempotencyKey = null, cause = undefined) {
    super(message, cause === undefined ? undefined : { cause });
    this.idempotencyKey = idempotencyKey;
  }
}

/** An error in words, with what caused it: `fetch failed` alone says nothing. */
export function reason(error) {
  const text = error?.message || String(error);
  const cause = error?.cause?.message || error?.cause?.code;
  return cause ? `${text}: ${cause}` : text;
}

function describe(status, problem) {
  let text = `${status} ${problem.title ?? "Refused"}`;
  const detail = problem.detail ?? "";
  if (detail && detail !== problem.title) text += `: ${detail}`;
  const missing = (problem.errors ?? []).filter((error) => !detail.includes(error.reason));
  const shown = missing.slice(0, SHOWN).map(({ field, reason }) => (field ? `${field}: ${reason}` : reason));
  if (missing.length > SHOWN) shown.push(`and ${missing.length - SHOWN} more`);
  return shown.length ? `${text} (${shown.join("; ")})` : text;
}

/** `Retry-After` in seconds; its date form is not used by the service and counts as not there. */
function seconds(retryAfter) {
  const value = retryAfter === null || retryAfter === "" ? Number.NaN : Number(retryAfter);
  return Number.isFinite(value) ? Math.max(0, value) : null;
}
