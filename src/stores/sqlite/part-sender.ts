/** Tells of the results of an append before it is committed: who asked for it has work that goes beside the commit. */
import type { MessagePort } from "node:worker_threads";
import type { BatchResult } from "../../ledger/ports/store.ts";
import type { AppendedParts, WorkerPart } from "./protocol.ts";

/** Records that are told of together: fewer cost a message each, more leave the other thread idle. */
const recordsPerPart = 16;

/**
 * What the end alone would tell of so few records goes with the answer: to wake the other thread twice costs both more
 * than what it could do meanwhile.
 */
const recordsOfAnswer = 1;

/** Of one try of one append. */
export class PartSender {
  readonly #to: MessagePort;
  readonly #id: number;
  readonly #attempt: number;
  #results: BatchResult[] = [];
  #records = 0;
  #hasSent = false;

  /**
   * @param id of the call
   * @param attempt tells this try from every other of the same call
   */
  constructor(to: MessagePort, id: number, attempt: number) {
    this.#to = to;
    this.#id = id;
    this.#attempt = attempt;
  }

  add(result: BatchResult): void {
    this.#results.push(result);
    this.#records += result.results.length;
    if (this.#records >= recordsPerPart) this.#send();
  }

  /** Sends what is left, or keeps it for the answer. */
  end(): void {
    if (this.#hasSent ? this.#results.length > 0 : this.#records > recordsOfAnswer) this.#send();
  }

  /** What the call is answered with once all that was sent, and what it has itself, is committed. */
  get committed(): AppendedParts {
    return { attempt: this.#attempt, results: this.#results };
  }

  #send(): void {
    const part = { attempt: this.#attempt, results: this.#results };
    this.#to.postMessage({ type: "part", id: this.#id, part } satisfies WorkerPart);
    this.#results = [];
    this.#records = 0;
    this.#hasSent = true;
  }
}
