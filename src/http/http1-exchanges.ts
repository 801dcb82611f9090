/** Tracks exchanges on HTTP/1.1 connections, which callers may pipeline. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import type { OpenAnswers } from "./connection.ts";
import { canonicalize } from "./inbound-request.ts";
import type { Http1Handler, RawRefusals } from "./raw-answer.ts";

/**
 * Most requests in progress on one connection. Node stops reading while answers are not read, but serves all requests
 * that it has read, which may be thousands. Few clients pipeline at all.
 */
const maxPipelined = 256;

export class Http1Exchanges {
  readonly #answers: OpenAnswers;
  readonly #refuseVersion: RawRefusals["onVersion"];
  readonly #addressOf: ((request: IncomingMessage) => string) | undefined;
  /** Unfinished answers by connection, in order. An array holds on to none that is done: see `OpenAnswers`. */
  readonly #open = new Map<Duplex, ServerResponse[]>();
  /** Answers whose connection would have stayed open if the server were not stopping. */
  readonly #closing = new WeakSet<ServerResponse>();
  /** Connections that close after the current answer or the next one. */
  readonly #leaving = new WeakSet<Duplex>();
  /** Connections whose last answer, to bytes that are not a request, waits for the answers before it. */
  readonly #ending = new WeakSet<Duplex>();
  /** For connections that turn out to be HTTP/1.1 after the server began to stop. */
  #draining = false;

  /** @param addressOf the caller's address, for `OpenAnswers.add` */
  constructor(
    answers: OpenAnswers,
    refuseVersion: RawRefusals["onVersion"],
    addressOf?: (request: IncomingMessage) => string,
  ) {
    this.#answers = answers;
    this.#refuseVersion = refuseVersion;
    this.#addressOf = addressOf;
  }

  /**
   * Wraps the handler so that an exchange can fail alone. Streams that are cut off emit an `error`, which needs a
   * listener for their whole life. Requests of other versions than 1.0 and 1.1 must not be taken for HTTP/2; Node's
   * parser accepts 0.9 and 2.0 (RFC 9110 §2.5). The request's target becomes canonical.
   */
  guard(handler: Http1Handler): Http1Handler {
    return (request, response) => {
      // The `close` event handles it.
      request.on("error", () => {});
      response.on("error", () => {});
      canonicalize(request);
      if (!this.#begin(request, response)) return;
      if (request.httpVersionMajor === 1) handler(request, response);
      else this.#refuseVersion(response);
    };
  }

  /** From now on answers, current ones included, announce that their connection closes (RFC 9112 §9.6). */
  drain(): void {
    this.#draining = true;
    for (const socket of this.#open.keys()) this.leave(socket);
  }

  /** The same for one connection. */
  leave(socket: Duplex): void {
    this.#leaving.add(socket);
    const last = this.#open.get(socket)?.at(-1);
    if (last !== undefined) this.#closeAfter(last);
  }

  /**
   * Runs the work, which writes the last answer of a connection, after the answers to its whole requests (RFC 9112
   * §9.3.2). They may be recorded already. Only the first work of a connection counts.
   */
  afterAnswers(socket: Duplex, work: () => void): void {
    const before = this.#open.get(socket)?.findLast(({ req }) => req.complete);
    if (before === undefined) return void work();
    if (this.#ending.has(socket)) return;
    this.#ending.add(socket);
    before.once("close", work);
  }

  #begin(request: IncomingMessage, response: ServerResponse): boolean {
    const { socket } = request;
    const addressOf = this.#addressOf;
    const open = this.#openOn(socket);
    if (open.length >= maxPipelined) {
      socket.destroy();
      return false;
    }
    if (this.#draining || this.#leaving.has(socket)) {
      const last = open.at(-1);
      if (last !== undefined && this.#closing.has(last)) {
        // Nothing is served after an answer that announced the end.
        if (last.headersSent) return false;
        last.shouldKeepAlive = true;
      }
      this.#closeAfter(response);
    }
    open.push(response);
    response.once("close", () => {
      const at = open.indexOf(response);
      if (at >= 0) open.splice(at, 1);
    });
    this.#answers.add(response, () => socket.destroy(), addressOf && (() => addressOf(request)));
    return true;
  }

  #openOn(socket: Duplex): ServerResponse[] {
    const known = this.#open.get(socket);
    if (known !== undefined) return known;
    const open: ServerResponse[] = [];
    this.#open.set(socket, open);
    socket.once("close", () => {
      this.#open.delete(socket);
      // Node emits no event for queued answers, and a second one for current ones.
      for (const response of open.splice(0)) {
        response.destroy();
        response.emit("close");
      }
    });
    return open;
  }

  #closeAfter(response: ServerResponse): void {
    if (response.headersSent || !response.shouldKeepAlive) return;
    response.shouldKeepAlive = false;
    this.#closing.add(response);
  }
}
