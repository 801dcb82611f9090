/** Runs one piece of work in a thread that ends with it. */
import { Worker } from "node:worker_threads";
import { threadEnvironment } from "./thread-environment.ts";
import { outsideConnections } from "./timers.ts";

interface ThreadLimits {
  /** Terminates the thread when it is aborted; the call rejects with its reason. */
  readonly signal?: AbortSignal;
  /** Largest heap of the thread, in MiB; it ends if it needs more. Default: as the process. */
  readonly heapMib?: number;
}

/**
 * Starts the module with the data, and resolves with what `onMessage` first returns besides undefined. Rejects if the
 * thread fails, or ends before that.
 */
export async function inThread<Message, Result>(
  module: URL,
  data: unknown,
  onMessage: (message: Message, worker: Worker) => Result | undefined,
  { signal, heapMib }: ThreadLimits = {},
): Promise<Result> {
  signal?.throwIfAborted();
  const worker = outsideConnections(
    () =>
      new Worker(module, {
        workerData: data,
        env: threadEnvironment(),
        ...(heapMib !== undefined && { resourceLimits: { maxOldGenerationSizeMb: heapMib } }),
      }),
  );
  const { promise, resolve, reject } = Promise.withResolvers<Result>();
  worker.on("message", (message: Message) => {
    const result = onMessage(message, worker);
    if (result !== undefined) resolve(result);
  });
  worker.once("error", reject);
  worker.once("exit", (code) => reject(new Error(`the thread ended with ${code}`)));
  const abort = () => reject(signal?.reason);
  signal?.addEventListener("abort", abort, { once: true });
  try {
    return await promise;
  } finally {
    signal?.removeEventListener("abort", abort);
    await worker.terminate();
  }
}
