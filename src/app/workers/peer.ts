/** Two threads of the service that call each other by messages. */
import { type Reason, ServiceError } from "../../base/errors.ts";

/** What one side does for the other: arguments and results are what a message can carry. */
export type PeerCalls<Calls> = { readonly [Name in keyof Calls]: (...given: never[]) => unknown };

type Result<Call> = Call extends (...given: never[]) => infer Returned ? Awaited<Returned> : never;
type Given<Call> = Call extends (...given: infer Arguments) => unknown ? Arguments : never;

/** What passes between the two. A call without a number wants no answer. */
export type PeerMessage =
  | { readonly call: string; readonly given: readonly unknown[]; readonly number?: number }
  | { readonly number: number; readonly result: unknown }
  | { readonly number: number; readonly error: PeerError };

interface PeerError {
  readonly message: string;
  /** Of a `ServiceError`; both threads run the same program. */
  readonly reason?: Reason;
  readonly retryAfterSeconds?: number | undefined;
}

export class Peer<Theirs extends PeerCalls<Theirs>, Own extends PeerCalls<Own>> {
  readonly #post: (message: PeerMessage) => void;
  readonly #own: Own;
  readonly #pending = new Map<number, PromiseWithResolvers<unknown>>();
  #number = 0;
  #ended: Error | undefined;

  /** @param post sends a message to the other side; what comes from there goes to `receive` */
  constructor(post: (message: PeerMessage) => void, own: Own) {
    this.#post = post;
    this.#own = own;
  }

  /** Rejects as the other side's function does, and where the other side has ended. */
  ask<Name extends keyof Theirs & string>(name: Name, ...given: Given<Theirs[Name]>): Promise<Result<Theirs[Name]>> {
    if (this.#ended !== undefined) return Promise.reject(this.#ended);
    const number = this.#number++;
    const pending = Promise.withResolvers<unknown>();
    this.#pending.set(number, pending);
    this.#post({ call: name, given, number });
    return pending.promise as Promise<Result<Theirs[Name]>>;
  }

  /** Calls without waiting for an answer. */
  tell<Name extends keyof Theirs & string>(name: Name, ...given: Given<Theirs[Name]>): void {
    if (this.#ended === undefined) this.#post({ call: name, given });
  }

  receive(message: PeerMessage): void {
    if ("call" in message) return void this.#serve(message);
    const pending = this.#pending.get(message.number);
    this.#pending.delete(message.number);
    if ("error" in message) pending?.reject(errorOf(message.error));
    else pending?.resolve(message.result);
  }

  /** The other side is no more. */
  end(cause: Error): void {
    this.#ended = cause;
    for (const { reject } of this.#pending.values()) reject(cause);
    this.#pending.clear();
  }

  async #serve({ call, given, number }: Extract<PeerMessage, { readonly call: string }>): Promise<void> {
    // Both threads run the same program: the arguments are the function's own.
    const serve = this.#own[call as keyof Own];
    if (number === undefined) return void serve(...(given as never[]));
    try {
      const result = await serve(...(given as never[]));
      this.#post({ number, result });
    } catch (error) {
      this.#post({ number, error: messageOf(error) });
    }
  }
}

function messageOf(error: unknown): PeerError {
  if (!(error instanceof Error)) return { message: String(error) };
  if (!(error instanceof ServiceError)) return { message: error.message };
  const { message, reason, details } = error;
  return { message, reason, retryAfterSeconds: details.retryAfterSeconds };
}

function errorOf({ message, reason, retryAfterSeconds }: PeerError): Error {
  if (reason === undefined) return new Error(message);
  return new ServiceError(reason, message, retryAfterSeconds === undefined ? {} : { retryAfterSeconds });
}
