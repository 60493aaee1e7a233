// What belongs to a page, and ends when it is left: requests, timers, streams.

import { Refusal, Unreachable } from "./api.js";

export class Scope {
  #aborter = new AbortController();

  /** Called when what the page shows is there no more. */
  onLost = () => {};

  get signal() {
    return this.#aborter.signal;
  }

  get left() {
    return this.signal.aborted;
  }

  leave() {
    this.#aborter.abort();
  }

  onLeave(fn) {
    this.signal.addEventListener("abort", fn, { once: true });
  }

  listen(target, event, fn, options = {}) {
    target.addEventListener(event, fn, { ...options, signal: this.signal });
  }

  /**
   * Call it now and then, one call at a time, and not while the page is hidden. Its first error is raised; of
   * later refusals that of what is gone ends the page, and others, such as while the service starts, wait for the next call.
   */
  async every(seconds, fn) {
    await fn();
    const again = async () => {
      if (this.left) return;
      if (!document.hidden) {
        try {
          await fn();
        } catch (error) {
          if (this.left) return;
          if (error instanceof Refusal && error.status === 404) this.onLost();
          else if (!(error instanceof Unreachable || error instanceof Refusal)) throw error;
        }
      }
      if (!this.left) timer = setTimeout(again, seconds * 1000);
    };
    let timer = setTimeout(again, seconds * 1000);
    this.onLeave(() => clearTimeout(timer));
  }
}

/** Call `fn` soon, at most once in so many milliseconds, however often it is asked for. */
export function throttled(milliseconds, fn) {
  let timer = null;
  let last = -Infinity;
  return () => {
    if (timer !== null) return;
    const wait = Math.max(0, last + milliseconds - performance.now());
    timer = setTimeout(() => {
      timer = null;
      last = performance.now();
      fn();
    }, wait);
  };
}
