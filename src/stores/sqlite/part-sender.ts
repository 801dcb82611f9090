/** Sends the results of an append before it is committed, so that the caller can work beside the commit. */
import type { MessagePort } from "node:worker_threads";
import type { BatchResult } from "../../ledger/ports/store.ts";
import type { AppendedParts, WorkerPart } from "./protocol.ts";

/** Records per message: fewer cost a message each, more leave the other thread idle. */
const recordsPerPart = 16;

/** So few remaining records go with the answer: a second wake-up costs both threads more than it gains. */
const recordsOfAnswer = 1;

/** Parts of one attempt of one append. */
export class PartSender {
  readonly #to: MessagePort;
  readonly #id: number;
  readonly #attempt: number;
  #results: BatchResult[] = [];
  #records = 0;
  #hasSent = false;

  /**
   * @param id of the call
   * @param attempt number of this attempt of the call
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

  /** Sends the remaining results, or keeps them for the answer. */
  end(): void {
    if (this.#hasSent ? this.#results.length > 0 : this.#records > recordsOfAnswer) this.#send();
  }

  /** The answer of the call after its commit: the results that were not sent as parts. */
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
