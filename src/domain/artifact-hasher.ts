/** Hashes artifact objects in a thread of their own, so that no other caller waits for them. */
import { Worker } from "node:worker_threads";
import { invalidRequest, ServiceError } from "../base/errors.ts";
import type { TenantId } from "../base/ids.ts";
import { outsideConnections } from "../base/outside-connections.ts";
import { localSums } from "../base/sums.ts";
import { threadEnvironment } from "../base/thread-environment.ts";
import type { Job, JobResult } from "./artifact-hasher-worker.ts";
import type { ArtifactDigests, ArtifactHasher } from "./ports.ts";

/** Largest object, decoded: 8 MiB. */
export const maxObjectBytes = 8 * 1024 * 1024;

export interface HasherOptions {
  /** Characters of base64 that may wait or be at work, over all tenants. Default 64 Mi: 6 objects of full size. */
  readonly maxPendingChars?: number;
  /** The same for one tenant. Default 32 Mi: 3 objects of full size. */
  readonly maxTenantPendingChars?: number;
  /** Told how long an object waited for the thread, in milliseconds, when that takes it. */
  readonly onWaited?: (waitedMs: number) => void;
  /** Starts the thread. */
  readonly startWorker?: () => Worker;
}

interface Pending {
  readonly tenantId: TenantId;
  readonly objectBase64: string;
  readonly hashes: Job["hashes"];
  readonly signal: AbortSignal;
  readonly resolve: (result: ArtifactDigests) => void;
  readonly reject: (reason: unknown) => void;
  readonly onAbort: () => void;
  readonly sinceMs: number;
}

/** A hasher with its thread, which starts with the first job. */
export interface ThreadedHasher extends ArtifactHasher {
  /** Objects that wait for the thread. */
  readonly waiting: number;
  /** Rejects what waits and ends the thread. */
  close(): Promise<void>;
}

export function createArtifactHasher(options: HasherOptions = {}): ThreadedHasher {
  return new WorkerHasher(options);
}

function startThread(): Worker {
  return new Worker(new URL("./artifact-hasher-worker.ts", import.meta.url), { env: threadEnvironment() });
}

/** Under which all objects count, and those of a tenant. */
const all = "all";
const accountOf = (tenantId: TenantId) => `tenant ${tenantId}`;

class WorkerHasher implements ThreadedHasher {
  readonly #maxPendingChars: number;
  readonly #maxTenantPendingChars: number;
  readonly #startWorker: () => Worker;
  readonly #onWaited: NonNullable<HasherOptions["onWaited"]>;
  readonly #waiting: Pending[] = [];
  /** Characters that wait or are at work, by tenant and of all. */
  readonly #pendingChars = localSums();
  /** The job that the thread has: one at a time, so that a crash costs no other, and an abort can still remove it. */
  #current: Pending | undefined;
  #worker: Worker | undefined;
  #isClosed = false;

  constructor(options: HasherOptions) {
    this.#maxPendingChars = options.maxPendingChars ?? 64 * 1024 * 1024;
    this.#maxTenantPendingChars = options.maxTenantPendingChars ?? 32 * 1024 * 1024;
    this.#onWaited = options.onWaited ?? (() => {});
    this.#startWorker = options.startWorker ?? startThread;
  }

  get waiting(): number {
    return this.#waiting.length;
  }

  digest(
    tenantId: TenantId,
    objectBase64: string,
    hashes: Job["hashes"],
    signal: AbortSignal,
  ): Promise<ArtifactDigests> {
    return new Promise((resolve, reject) => {
      signal.throwIfAborted();
      // What is certainly too long need not travel: four characters carry three bytes.
      if (objectBase64.length > Math.ceil(maxObjectBytes / 3) * 4) throw tooLarge();
      // Base64 is ASCII: only then is a byte a character.
      if (Buffer.byteLength(objectBase64) !== objectBase64.length) throw malformed();
      this.#admit(tenantId, objectBase64.length);
      const onAbort = () => this.#abort(pending);
      const sinceMs = performance.now();
      const pending: Pending = { tenantId, objectBase64, hashes, signal, resolve, reject, onAbort, sinceMs };
      signal.addEventListener("abort", pending.onAbort, { once: true });
      this.#waiting.push(pending);
      this.#next();
    });
  }

  async close(): Promise<void> {
    this.#isClosed = true;
    const worker = this.#worker;
    const closed = new ServiceError("internal", "the service is stopping");
    for (const pending of this.#waiting.splice(0)) this.#settle(pending, () => pending.reject(closed));
    this.#lose(worker, closed);
    await worker?.terminate();
  }

  #admit(tenantId: TenantId, chars: number): void {
    if (this.#isClosed) throw new ServiceError("internal", "the service is stopping");
    if (this.#pendingChars.add(accountOf(tenantId), chars, this.#maxTenantPendingChars)) {
      if (this.#pendingChars.add(all, chars, this.#maxPendingChars)) return;
      this.#pendingChars.subtract(accountOf(tenantId), chars);
    }
    throw new ServiceError("overloaded", "too many artifact objects wait to be hashed", { retryAfterSeconds: 1 });
  }

  #next(): void {
    if (this.#current !== undefined) return;
    const pending = this.#waiting.shift();
    if (pending === undefined) return;
    this.#current = pending;
    this.#onWaited(performance.now() - pending.sinceMs);
    try {
      this.#worker ??= this.#start();
      // The thread keeps the process alive while it works, and not while it is idle.
      this.#worker.ref();
      const base64 = Buffer.allocUnsafeSlow(pending.objectBase64.length);
      base64.write(pending.objectBase64, "latin1");
      const job: Job = { base64, hashes: pending.hashes, maxBytes: maxObjectBytes };
      this.#worker.postMessage(job, [base64.buffer]);
    } catch (cause) {
      this.#lose(this.#worker, new ServiceError("internal", "the artifact could not be hashed", { cause }));
    }
  }

  #start(): Worker {
    const worker = outsideConnections(this.#startWorker);
    const lost = (cause: unknown) =>
      this.#lose(worker, new ServiceError("internal", "the artifact could not be hashed", { cause }));
    worker.on("message", (result: JobResult) => this.#finish(worker, result));
    worker.on("error", lost);
    worker.on("exit", (code) => lost(new Error(`hashing thread ended with code ${code}`)));
    return worker;
  }

  #finish(worker: Worker, result: JobResult): void {
    const pending = this.#current;
    if (worker !== this.#worker || pending === undefined) return;
    this.#current = undefined;
    worker.unref();
    this.#settle(pending, () => {
      if (!("problem" in result)) pending.resolve(result);
      else pending.reject(result.problem === "too_large" ? tooLarge() : malformed());
    });
    this.#next();
  }

  /** Gives the thread up with the job that it has; the next job starts another. */
  #lose(worker: Worker | undefined, reason: ServiceError): void {
    if (worker !== this.#worker) return;
    this.#worker = undefined;
    void worker?.terminate();
    const pending = this.#current;
    this.#current = undefined;
    if (pending !== undefined) this.#settle(pending, () => pending.reject(reason));
    this.#next();
  }

  /** The caller went away. A job that waits goes with it; one that is at work keeps its place until it is done. */
  #abort(pending: Pending): void {
    pending.reject(pending.signal.reason);
    const index = this.#waiting.indexOf(pending);
    if (index === -1) return;
    this.#waiting.splice(index, 1);
    this.#settle(pending, () => {});
  }

  #settle(pending: Pending, answer: () => void): void {
    const chars = pending.objectBase64.length;
    this.#pendingChars.subtract(accountOf(pending.tenantId), chars);
    this.#pendingChars.subtract(all, chars);
    pending.signal.removeEventListener("abort", pending.onAbort);
    answer();
  }
}

function tooLarge(): ServiceError {
  return invalidRequest("artifact_object_b64", "bytes.max_len", "artifact_object_b64 exceeds 8 MiB when decoded");
}

function malformed(): ServiceError {
  return invalidRequest("artifact_object_b64", "string.base64", "artifact_object_b64 is not canonical standard base64");
}
