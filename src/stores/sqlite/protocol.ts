/** Messages between the store and its threads. */
import type { StoreFailure } from "./errors.ts";
import type { OpenedFile } from "./file-identity.ts";

export interface WorkerData {
  readonly role: "writer" | "reader" | "searcher" | "checkpointer";
  readonly path: string;
  readonly anchorPath: string;
  readonly originPrefix: string;
  /** Identity of the store. */
  readonly storeId: string;
  /** The database file as it was prepared, and its name in the settings if that is a link. */
  readonly files: readonly [OpenedFile, ...OpenedFile[]];
  /** The anchor's file, as it was prepared. */
  readonly anchorFile: OpenedFile;
  readonly busyTimeoutMs: number;
  readonly setup: ThreadSetup | undefined;
}

/** URL of a module that a thread loads first, and the argument of its `prepare`, for tests. */
export interface ThreadSetup {
  readonly module: string;
  readonly data: unknown;
}

/**
 * A call on a thread: a method of its `SqliteWriter`, `SqliteReader` or `Checkpointer` by its name, or `close`. It carries
 * time and randomness, since threads have no source of either.
 */
export interface WorkerRequest {
  readonly call: string;
  readonly args: readonly unknown[];
}

/** Answers come in the order of the calls. */
export type WorkerAnswer =
  | { readonly type: "result"; readonly result: unknown }
  | { readonly type: "failure"; readonly failure: StoreFailure };

export type WorkerMessage =
  /** The connection is open; calls may come. */
  | { readonly type: "ready" }
  /** The write-ahead log is long: another thread should copy it into the file. These are the files of the writer. */
  | { readonly type: "long_log"; readonly files: readonly OpenedFile[] }
  | WorkerAnswer;
