/** How often and how patiently to ask again, and waits that a signal ends. */

/** Statuses that say "not now": the service's own 503, and those of proxies. */
export const BUSY = new Set([502, 503, 504]);

/** Attempts in all, and pauses that double from `first` to `most` seconds. */
export const REQUESTS = { attempts: 6, first: 0.1, most: 5 };

/** The pauses between attempts to restore a lost connection, however many. */
export const RECONNECT = { attempts: Infinity, first: 0.1, most: 10 };

const LONGEST = 30;

/**
 * Seconds to wait after so many failures in a row.
 *
 * Drawn between half and the whole of the pause, so that many clients do not come back at once; what the service asks for
 * by `Retry-After` is kept at the least, but never more than 30 s.
 */
export function pause({ first, most }, failures, retryAfter = null) {
  const whole = Math.min(most, first * 2 ** Math.min(failures - 1, 30));
  return Math.max(whole * (0.5 + Math.random() / 2), Math.min(retryAfter ?? 0, LONGEST));
}

/** Wait; rejects with the signal's reason when it is aborted. */
export function sleep(seconds, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) {
      reject(signal.reason);
      return;
    }
    const abort = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", abort);
      resolve();
    }, seconds * 1000);
    signal?.addEventListener("abort", abort, { once: true });
  });
}

/** A signal that follows another and can be aborted itself. `release` lets go of the other. */
export class Deadline {
  constructor(signal, seconds = Infinity, why = "it took too long") {
    this.#outer = signal;
    this.#why = why;
    this.#follow = () => this.#controller.abort(signal.reason);
    if (signal?.aborted) this.#follow();
    else signal?.addEventListener("abort", this.#follow, { once: true });
    this.within(seconds);
  }

  #controller = new AbortController();
  #outer;
  #why;
  #follow;
  #timer;

  get signal() {
    return this.#controller.signal;
  }

  /** Abort in so many seconds, unless it is called again before. */
  within(seconds) {
    clearTimeout(this.#timer);
    if (seconds === Infinity) return;
    this.#timer = setTimeout(() => this.#controller.abort(new Error(this.#why)), seconds * 1000);
  }

  abort(reason = new Error("not needed any more")) {
    this.#controller.abort(reason);
  }

  release() {
    clearTimeout(this.#timer);
    this.#outer?.removeEventListener("abort", this.#follow);
  }
}
