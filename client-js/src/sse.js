/**
 * Server-sent events, read incrementally from bytes (the event stream format of the HTML standard).
 *
 * Lines end in LF, CR or CRLF and nothing else: text that holds other line separators, which JSON may, is left alone.
 */

import { RankcastError } from "./errors.js";

/**
 * Turns chunks, cut anywhere, into blocks `{event, data, id}`. O(bytes) in all.
 *
 * `data` is null in a block without data, as a heartbeat is, and `id` where none was said. Throws RankcastError where a
 * block has more than `most` characters.
 */
export class Parser {
  constructor(most = 1 << 26) {
    this.#most = most;
    this.#begin();
  }

  #most;
  #decoder = new TextDecoder();
  #parts = [];
  #size = 0;
  #afterCr = false;
  #event;
  #data;
  #id;

  /** The blocks that this chunk, bytes, completes. */
  feed(chunk) {
    const text = this.#decoder.decode(chunk, { stream: true });
    const blocks = [];
    let at = 0;
    if (this.#afterCr && text) {
      this.#afterCr = false;
      if (text[0] === "\n") at = 1;
    }
    let lf = text.indexOf("\n", at);
    let cr = text.indexOf("\r", at);
    while (lf >= 0 || cr >= 0) {
      const isCr = cr >= 0 && (lf < 0 || cr < lf);
      const stop = isCr ? cr : lf;
      this.#line(text.slice(at, stop), blocks);
      at = stop + 1;
      if (isCr) {
        if (at === text.length) this.#afterCr = true;
        else if (text[at] === "\n") at += 1;
        cr = text.indexOf("\r", at);
      }
      if (lf >= 0 && lf < at) lf = text.indexOf("\n", at);
    }
    if (at < text.length) this.#keep(text.slice(at));
    return blocks;
  }

  #begin() {
    this.#event = "";
    this.#data = null;
    this.#id = null;
    this.#size = 0;
  }

  #keep(part) {
    this.#size += part.length;
    if (this.#size > this.#most) throw new RankcastError(`a message has more than ${this.#most} characters`);
    this.#parts.push(part);
  }

  #line(rest, blocks) {
    this.#keep(rest);
    const line = this.#parts.length === 1 ? rest : this.#parts.join("");
    this.#parts = [];
    if (line) {
      this.#field(line);
      return;
    }
    if (this.#data !== null || this.#id !== null || this.#event) {
      const data = this.#data === null ? null : this.#data.join("\n");
      blocks.push({ event: this.#event || "message", data, id: this.#id });
    }
    this.#begin();
  }

  #field(line) {
    const colon = line.indexOf(":");
    const name = colon < 0 ? line : line.slice(0, colon);
    let value = colon < 0 ? "" : line.slice(colon + 1);
    if (value[0] === " ") value = value.slice(1);
    if (name === "data") (this.#data ??= []).push(value);
    else if (name === "event") this.#event = value;
    else if (name === "id" && !value.includes("\0")) this.#id = value;
  }
}
