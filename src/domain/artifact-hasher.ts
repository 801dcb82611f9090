/** Hashes artifact objects in a thread of their own, so that no other caller waits for them. */
import { Worker } from "node:worker_threads";
import { invalidRequest, ServiceError } from "../base/errors.ts";
import { createFairSemaphore } from "../base/fair-queue.ts";
import { localSums } from "../base/sums.ts";
import { threadEnvironment } from "../base/thread-environment.ts";
import { outsideConnections } from "../base/timers.ts";
import type { Job, JobResult } from "./artifact-hasher-worker.ts";
import type { ArtifactDigests, ArtifactHasher } from "./ports.ts";

/** Largest object, decoded: 8 MiB. */
export const maxObjectBytes = 8 * 1024 * 1024;

interface HasherOptions {
  /** Characters of base64 that may wait or be at work, over all tenants. Default 64 Mi: 6 objects of full size. */
  readonly maxPendingChars?: number;
  /** The same for one tenant. Default 32 Mi: 3 objects of full size. */
  readonly maxTenantPendingChars?: number;
  /** Called with the milliseconds that an object waited, when the thread takes it. */
  readonly onWaited?: (waitedMs: number) => void;
  /** Starts the thread. */
  readonly startWorker?: () => Worker;
}

/** A hasher with its thread, which starts with the first job. */
export interface ThreadedHasher extends ArtifactHasher {
  /** Objects that wait for the thread. */
  readonly waiting: number;
  /** Rejects what waits and ends the thread. */
  close(): Promise<void>;
}

export function createArtifactHasher({
  maxPendingChars = 64 * 1024 * 1024,
  maxTenantPendingChars = 32 * 1024 * 1024,
  onWaited = () => {},
  startWorker = startThread,
}: HasherOptions = {}): ThreadedHasher {
  /** One job at a time, so that a crash costs no other, and an abort can still remove it. Characters bound the rest. */
  const unbounded = Number.POSITIVE_INFINITY;
  const turns = createFairSemaphore({ maximum: 1, maximumWaitingEach: unbounded, maximumWaiting: unbounded });
  /** Characters that wait or are at work, by tenant and of all. */
  const pendingChars = localSums();
  let waiting = 0;
  let worker: Worker | undefined;
  let job: PromiseWithResolvers<JobResult> | undefined;
  let isClosed = false;

  /** Counts the characters; returns the function that gives them back. */
  function admit(account: string, chars: number): () => void {
    if (isClosed) throw stopping();
    if (!pendingChars.add(account, chars, maxTenantPendingChars)) throw tooMany();
    if (!pendingChars.add(all, chars, maxPendingChars)) {
      pendingChars.subtract(account, chars);
      throw tooMany();
    }
    return () => {
      pendingChars.subtract(account, chars);
      pendingChars.subtract(all, chars);
    };
  }

  async function hash(objectBase64: string, hashes: Job["hashes"]): Promise<JobResult> {
    if (isClosed) throw stopping();
    try {
      worker ??= start();
      // The thread keeps the process alive while it works, and not while it is idle.
      worker.ref();
      const base64 = Buffer.allocUnsafeSlow(objectBase64.length);
      base64.write(objectBase64, "latin1");
      worker.postMessage({ base64, hashes, maxBytes: maxObjectBytes } satisfies Job, [base64.buffer]);
    } catch (cause) {
      lose(worker, cause);
      throw notHashed(cause);
    }
    job = Promise.withResolvers();
    const result = await job.promise;
    worker?.unref();
    return result;
  }

  function start(): Worker {
    const started = outsideConnections(startWorker);
    started.on("message", (result: JobResult) => {
      if (started === worker) job?.resolve(result);
    });
    started.on("error", (cause) => lose(started, notHashed(cause)));
    started.on("exit", (code) => lose(started, notHashed(new Error(`hashing thread ended with code ${code}`))));
    return started;
  }

  /** Gives the thread up with the job that it has; the next job starts another. */
  function lose(lost: Worker | undefined, reason: unknown): void {
    if (lost !== worker) return;
    worker = undefined;
    void lost?.terminate();
    job?.reject(reason);
  }

  return {
    get waiting() {
      return waiting;
    },
    async digest(tenantId, objectBase64, hashes, signal) {
      signal.throwIfAborted();
      // What is certainly too long need not travel: four characters carry three bytes.
      if (objectBase64.length > Math.ceil(maxObjectBytes / 3) * 4) throw tooLarge();
      // Base64 is ASCII: only then is a byte a character.
      if (Buffer.byteLength(objectBase64) !== objectBase64.length) throw malformed();
      const release = admit(`tenant ${tenantId}`, objectBase64.length);
      const sinceMs = performance.now();
      const { promise, resolve, reject } = Promise.withResolvers<ArtifactDigests>();
      let isWaiting = true;
      waiting += 1;
      const leaveQueue = () => {
        isWaiting = false;
        waiting -= 1;
      };
      // A job that waits goes with its caller; one that is at work keeps its place until it is done.
      const onAbort = () => {
        if (isWaiting) {
          leaveQueue();
          release();
        }
        reject(signal.reason);
      };
      const work = async () => {
        if (!isWaiting) return; // aborted between its turn and its start
        leaveQueue();
        onWaited(performance.now() - sinceMs);
        try {
          const result = await hash(objectBase64, hashes);
          if (!("problem" in result)) resolve(result);
          else reject(result.problem === "too_large" ? tooLarge() : malformed());
        } catch (error) {
          reject(error);
        }
        signal.removeEventListener("abort", onAbort);
        release();
      };
      signal.addEventListener("abort", onAbort, { once: true });
      turns.run(tenantId, work, signal).catch(reject);
      return promise;
    },
    async close() {
      isClosed = true;
      const last = worker;
      // The job at work fails with its thread, and then each that waits in its turn.
      lose(last, stopping());
      await last?.terminate();
    },
  };
}

function startThread(): Worker {
  return new Worker(new URL("./artifact-hasher-worker.ts", import.meta.url), { env: threadEnvironment() });
}

/** Account of all objects; each tenant has its own besides. */
const all = "all";

function tooMany(): ServiceError {
  return new ServiceError("overloaded", "too many artifact objects wait to be hashed", { retryAfterSeconds: 1 });
}

function notHashed(cause: unknown): ServiceError {
  return new ServiceError("internal", "the artifact could not be hashed", { cause });
}

function stopping(): ServiceError {
  return new ServiceError("internal", "the service is stopping");
}

function tooLarge(): ServiceError {
  return invalidRequest("artifact_object_b64", "bytes.max_len", "artifact_object_b64 exceeds 8 MiB when decoded");
}

function malformed(): ServiceError {
  return invalidRequest("artifact_object_b64", "string.base64", "artifact_object_b64 is not canonical standard base64");
}
