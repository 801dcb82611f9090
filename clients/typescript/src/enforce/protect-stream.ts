/** Protection as a stream that an uploader pulls. */
import { PassThrough, type Readable } from "node:stream";
import { EnforcementError } from "./errors.ts";
import type { Outcome, ProtectOptions } from "./protect.ts";

/** What is pulled, and what comes of it. */
export interface ProtectedStream {
  /**
   * The artifact. It ends after artifact and event are recorded, and breaks with the `EnforcementError` of a failure:
   * an upload is complete only if it ended. `Readable.toWeb` makes a web stream of it. Destroying it stops the work,
   * which is recorded as failed.
   */
  readonly readable: Readable;
  /** Rejects as the stream breaks; a caller who reads the stream may ignore it. */
  readonly outcome: Promise<Outcome>;
}

/** Protects as far as the stream is read: memory is that of a few segments. */
export function protectStream(
  protect: (options: ProtectOptions) => Promise<Outcome>,
  { signal, input, ...options }: Omit<ProtectOptions, "output" | "replace">,
): ProtectedStream {
  const readable = new PassThrough();
  const left = new AbortController();
  // A reader that leaves closes the stream before its end.
  readable.once("close", () => left.abort(new EnforcementError("io_failed", "the reader left the stream")));
  const either = signal === undefined ? left.signal : AbortSignal.any([signal, left.signal]);
  const source = typeof input === "string" ? input : interruptible(input, either);
  const outcome = protect({ ...options, input: source, output: readable, signal: either });
  outcome.then(
    () => readable.end(),
    (error: Error) => readable.destroy(error),
  );
  return { readable, outcome };
}

/** The pieces of a stream until the signal, which also ends waiting for one. */
async function* interruptible(
  source: AsyncIterable<Uint8Array>,
  signal: AbortSignal,
): AsyncGenerator<Uint8Array, void, undefined> {
  const pieces = source[Symbol.asyncIterator]();
  let interrupt = () => {};
  const interrupted = new Promise<never>((_, reject) => {
    interrupt = () => reject(signal.reason);
  });
  interrupted.catch(() => {});
  if (signal.aborted) interrupt();
  signal.addEventListener("abort", interrupt, { once: true });
  try {
    for (;;) {
      const next = await Promise.race([pieces.next(), interrupted]);
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    signal.removeEventListener("abort", interrupt);
    if (signal.aborted && "destroy" in source && typeof source.destroy === "function") source.destroy();
    // An iterator that waits answers only then.
    else if (!signal.aborted) await pieces.return?.();
    else pieces.return?.()?.catch(() => {});
  }
}
