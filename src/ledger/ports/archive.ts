/** A whole store, for audits, packs and reports, with or without a running service. Read-only. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { LogState, StoreReads } from "./store.ts";

/** A stored leaf with its sealed record. */
export interface StoredEntry {
  readonly leafIndex: number;
  readonly recordId: string;
  readonly leaf: Uint8Array;
  readonly sealed: Uint8Array;
  /** Undefined if the record was erased. */
  readonly opening: Uint8Array | undefined;
}

/** A stored idempotency record, joined with its ledger record. */
export interface IdempotencyRow {
  readonly leafIndex: number;
  /** Size of the tree in the first answer's receipt. */
  readonly treeSize: number;
  /** Sealed; null if it was erased, like the opening. */
  readonly answer: Uint8Array | null;
  readonly opening: Uint8Array | null;
  readonly recordId: RecordId;
  readonly leaf: Uint8Array;
  /** Sealed. */
  readonly record: Uint8Array;
}

/** Rows that belong to one log. All methods reject as a `StoreArchive` does. */
export interface Companions {
  /** Time of the head, before which no record is made. Milliseconds since the Unix epoch. */
  readonly lastRecordedAtMs: number;
  /** The search index in use; undefined if there is none. */
  readonly searchIndex: SearchRows | undefined;
  readonly registrations: RegistrationRows;
  idempotencyRows(): AsyncIterable<IdempotencyRow>;
}

export interface SearchRows {
  readonly key: Uint8Array;
  /** It has the leaves before this one. */
  readonly filledTo: number;
  /** Terms of the leaves of a block. */
  terms(block: number): Promise<readonly { readonly leafIndex: number; readonly term: Uint8Array }[]>;
}

/** The index of registrations. */
export interface RegistrationRows {
  /** Undefined before the first registration. */
  readonly key: Uint8Array | undefined;
  /** Rows of leaves from `first` to before `end`. */
  within(first: number, end: number): Promise<readonly RegistrationRowOfLeaf[]>;
  /** Rows of an artifact with their leaves, in the order of the log. */
  of(artifact: Uint8Array): Promise<readonly (StoredEntry & Pick<RegistrationRowOfLeaf, "isReliedOn">)[]>;
}

export interface RegistrationRowOfLeaf {
  readonly leafIndex: number;
  readonly artifact: Uint8Array;
  readonly isReliedOn: boolean;
  /** Whether the artifact has no row of a later leaf. */
  readonly isLast: boolean;
}

/** A row without a leaf below the head of its tenant's log: its leaf is beyond the head, or there is no log. */
export interface OrphanRow {
  readonly tenantId: TenantId;
  readonly table: string;
  /** Description of the row: `leaf 7`, or the record without a leaf. */
  readonly name: string;
}

/**
 * A snapshot of the store: later appends are not visible. Changes nothing. Erased records stay erased for readers, even
 * if their openings have come back, and even if only this store's anchor knows of the erasure. All methods reject with
 * `store_unavailable` if the store cannot be read, with `internal` if its content is damaged.
 */
export interface StoreArchive extends StoreReads {
  /**
   * Existing leaves from `first` to before `end`, in order, in constant memory.
   * @param openings `stored`: also those of records whose erasure only the anchor knows, for an audit of the log
   */
  entries(head: LogState, first: number, end: number, openings?: "stored"): AsyncIterable<StoredEntry>;
  /** Stored hashes of a tile; undefined if there is none. */
  storedTile(head: LogState, level: number, index: number): Promise<Uint8Array | undefined>;
  /** Rows that belong to a log of `logs`. */
  companions(head: LogState): Promise<Companions>;
}
