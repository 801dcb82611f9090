/** The exchanges on connections of HTTP/1.1, which a caller may begin before it has read the answers to earlier ones. */
import type { IncomingMessage, ServerResponse } from "node:http";
import type { Duplex } from "node:stream";
import { Connection } from "./connection.ts";
import type { ServiceError } from "./errors.ts";
import type { OpenAnswers } from "./open-answers.ts";
import { type Http1Handler, invalidVersion } from "./raw-answer.ts";
import { canonicalize } from "./request-target.ts";

/**
 * Requests of one connection that may be under way at once. Node stops reading while answers are not taken, but serves
 * all that it has read, thousands in one piece; and hardly any client of today sends one before the last is answered.
 */
const maxPipelined = 256;

/** Answers a request with 400 and this refusal. */
export type RefuseVersion = (refusal: ServiceError, response: ServerResponse) => void;

export class Http1Exchanges {
  readonly #answers: OpenAnswers;
  readonly #refuseVersion: RefuseVersion;
  readonly #addressOf: ((request: IncomingMessage) => string) | undefined;
  /** Answers that are not out yet, by connection, in their order. */
  readonly #open = new Map<Duplex, Set<ServerResponse>>();
  /** Answers that would have left their connection open, had the server not begun to stop. */
  readonly #closing = new WeakSet<ServerResponse>();
  /** Connections that end with the answer that is under way, or with the next one. */
  readonly #leaving = new WeakSet<Duplex>();
  /** For connections that were no connections of HTTP/1.1 yet when the server began to stop. */
  #draining = false;

  /** @param addressOf the caller's address, as `OpenAnswers.add` takes it */
  constructor(answers: OpenAnswers, refuseVersion: RefuseVersion, addressOf?: (request: IncomingMessage) => string) {
    this.#answers = answers;
    this.#refuseVersion = refuseVersion;
    this.#addressOf = addressOf;
  }

  /**
   * The handler, for exchanges that cannot end more than themselves: streams that are cut off say so with an `error`,
   * which needs a listener for as long as they live, and requests of another version than 1.0 and 1.1 never reach what
   * takes them for HTTP/2. Node's parser lets 0.9 and 2.0 through (RFC 9110 §2.5). Their target is the canonical one.
   */
  guard(handler: Http1Handler): Http1Handler {
    return (request, response) => {
      // What it means for the exchange is in its `close`.
      request.on("error", () => {});
      response.on("error", () => {});
      canonicalize(request);
      if (!this.#begin(request, response)) return;
      if (request.httpVersionMajor === 1) handler(request, response);
      else this.#refuseVersion(invalidVersion(), response);
    };
  }

  /**
   * From now on answers say that their connection closes after them, those under way too: a caller sends its next
   * request elsewhere, instead of into a connection that is about to go (RFC 9112 §9.6).
   */
  drain(): void {
    this.#draining = true;
    for (const socket of this.#open.keys()) this.leave(socket);
  }

  /** The same for one connection. */
  leave(socket: Duplex): void {
    this.#leaving.add(socket);
    const last = [...(this.#open.get(socket) ?? [])].at(-1);
    if (last !== undefined) this.#closeAfter(last);
  }

  /** Whether the request is to be served. */
  #begin(request: IncomingMessage, response: ServerResponse): boolean {
    const { socket } = request;
    const addressOf = this.#addressOf;
    const open = this.#openOn(socket);
    if (open.size >= maxPipelined) {
      socket.destroy();
      return false;
    }
    if (this.#draining || this.#leaving.has(socket)) {
      const last = [...open].at(-1);
      if (last !== undefined && this.#closing.has(last)) {
        // After an answer that said so nothing is served.
        if (last.headersSent) return false;
        last.shouldKeepAlive = true;
      }
      this.#closeAfter(response);
    }
    open.add(response);
    response.once("close", () => open.delete(response));
    this.#answers.add(response, () => socket.destroy(), addressOf && (() => addressOf(request)));
    Connection.current()?.begin(response);
    return true;
  }

  #openOn(socket: Duplex): Set<ServerResponse> {
    const known = this.#open.get(socket);
    if (known !== undefined) return known;
    const open = new Set<ServerResponse>();
    this.#open.set(socket, open);
    socket.once("close", () => {
      this.#open.delete(socket);
      // Node says nothing to answers whose turn had not come, and once more to those whose turn it was or becomes.
      for (const response of open) {
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
