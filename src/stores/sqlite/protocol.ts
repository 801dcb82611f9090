/** What passes between the store and its threads. */
import type { BatchResult } from "../../ledger/ports/store.ts";
import type { StoreFailure } from "./errors.ts";
import type { OpenedFile } from "./file-identity.ts";

/** What a thread is started with. */
export interface WorkerData {
  readonly role: "writer" | "reader" | "searcher";
  readonly path: string;
  readonly anchorPath: string;
  readonly originPrefix: string;
  /** What tells the store from every other. */
  readonly storeId: string;
  /** The database file as it was prepared, and what the settings call it where that is a link. */
  readonly files: readonly [OpenedFile, ...OpenedFile[]];
  /** The anchor's file, as it was prepared. */
  readonly anchorFile: OpenedFile;
  readonly busyTimeoutMs: number;
  /** URL of a module whose `openConnection` takes the place of the one in `connection.ts`. */
  readonly connectionModule: string;
  /** Handed to that `openConnection` as its second argument. */
  readonly connectionData: unknown;
}

/**
 * A call on a thread: a method of `SqliteWriter` or `SqliteReader` by its name, or `close`. Time and randomness come with
 * it: threads have none of their own.
 */
export interface WorkerRequest {
  readonly call: string;
  readonly args: readonly unknown[];
}

export interface NumberedRequest {
  readonly id: number;
  readonly request: WorkerRequest;
}

/** The methods of an object in a thread, as they are called from another. */
export type Remote<Target> = {
  readonly [Name in keyof Target]: Target[Name] extends (...args: infer Args) => infer Result
    ? (...args: Args) => Promise<Awaited<Result>>
    : never;
};

/** Calls methods by their names. */
export function remote<Target>(call: (request: WorkerRequest) => Promise<unknown>): Remote<Target> {
  return new Proxy({} as Remote<Target>, {
    get:
      (_, name) =>
      (...args: unknown[]) =>
        call({ call: String(name), args }),
  });
}

/** Results of an append, before it is committed: of the batches that follow those of the parts before. */
export interface AppendPart {
  /** Counts tries of the thread: what an earlier one has told of the same call holds no more. */
  readonly attempt: number;
  readonly results: readonly BatchResult[];
}

/** The answer to an append: all parts of this try are committed, and after them the results that it has itself. */
export type AppendedParts = AppendPart;

/** Goes before the answer of a call. */
export interface WorkerPart {
  readonly type: "part";
  readonly id: number;
  readonly part: AppendPart;
}

export type WorkerAnswer =
  | { readonly type: "result"; readonly id: number; readonly result: unknown }
  | { readonly type: "failure"; readonly id: number; readonly failure: StoreFailure };

export type WorkerMessage =
  /** The connection is open; calls may come. */
  { readonly type: "ready" } | WorkerPart | WorkerAnswer;
