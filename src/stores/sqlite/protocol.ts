/** What passes between the store and its two threads. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { AttemptLimit } from "../../domain/ports.ts";
import type { SearchQuery } from "../../ledger/ports/search.ts";
import type { BatchResult, StoredCosignature } from "../../ledger/ports/store.ts";
import type { LogName } from "../../ledger/tlog/log-name.ts";
import type { TileName } from "../../ledger/tlog/tiles.ts";
import type { ProofRow } from "../proof-batches.ts";
import type { StoreFailure } from "./errors.ts";
import type { OpenedFile } from "./file-identity.ts";
import type { SeededBatch } from "./log/log-writer.ts";

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

/** What the call gives will be signed. */
interface SigningRequest {
  /** Public key that would sign; the call fails where it is not the store's newest. */
  readonly signingKey: Uint8Array;
}

/** A call on a thread. Time and randomness come with it: threads have none of their own. */
export type WorkerRequest =
  | (SigningRequest & { readonly call: "append"; readonly batches: readonly SeededBatch[]; readonly nowMs: number })
  | { readonly call: "keepPolicyRevision"; readonly revision: string; readonly content: string | Uint8Array }
  /** Makes sure that the thread can do its work now: the writer writes, the reader reads. */
  | (SigningRequest & { readonly call: "probe"; readonly nowMs: number })
  | (SigningRequest & { readonly call: "head"; readonly name: LogName })
  | { readonly call: "cosignatures" }
  | { readonly call: "storeCosignatures"; readonly cosignatures: readonly StoredCosignature[] }
  | { readonly call: "search"; readonly query: SearchQuery }
  | { readonly call: "logs" }
  | { readonly call: "log"; readonly name: LogName }
  | { readonly call: "tile"; readonly name: LogName; readonly tile: TileName }
  | { readonly call: "consistencyProof"; readonly name: LogName; readonly first: number; readonly second: number }
  | {
      readonly call: "multiProof";
      readonly name: LogName;
      readonly size: number;
      readonly leafIndices: readonly number[];
    }
  | { readonly call: "find"; readonly tenantId: TenantId; readonly recordId: RecordId }
  | { readonly call: "registrations"; readonly tenantId: TenantId; readonly names: readonly string[] }
  /** Looks at some of the leaves that the index of registrations has not got yet. The key is a fresh one, 32 bytes. */
  | { readonly call: "indexRegistrations"; readonly tenantId: TenantId; readonly key: Uint8Array }
  | { readonly call: "noteProofs"; readonly rows: readonly ProofRow[]; readonly nowMs: number }
  | {
      readonly call: "takeAttempt" | "giveBackAttempt";
      readonly limits: readonly AttemptLimit[];
      readonly nowMs: number;
    }
  | {
      readonly call: "takePortion" | "giveBackPortion";
      readonly limit: AttemptLimit;
      readonly amount: number;
      readonly nowMs: number;
    }
  | { readonly call: "close" };

export interface NumberedRequest {
  readonly id: number;
  readonly request: WorkerRequest;
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
