/** Read-only access to a store for operators' commands, whether or not a service is running on it. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { IdempotencyRow } from "../record/idempotency-record.ts";
import type { TileName } from "../tlog/tiles.ts";
import type { SignableState } from "./anchor.ts";
import type { RecordArchive } from "./ledger.ts";
import type { ErasurePreview, LegalHold, UndoneErasure } from "./records-administration.ts";
import type { SearchPage, SearchQuery } from "./search.ts";
import type { LogState, StoredCosignature } from "./store.ts";

/** One leaf as it is stored, with its sealed record. */
export interface StoredEntry {
  readonly leafIndex: number;
  readonly recordId: string;
  readonly leaf: Uint8Array;
  readonly sealed: Uint8Array;
  /** Undefined where the record was erased. */
  readonly opening: Uint8Array | undefined;
}

/** A log as it is stored. */
export interface AuditedLog {
  readonly head: LogState;
  /** In the order of their indices. */
  entries(): AsyncIterable<StoredEntry>;
  /** Hashes of a tile, as many as are stored; undefined where there is none. */
  tile(level: number, index: number): Promise<Uint8Array | undefined>;
}

/** Rows of one log, as they are stored. All reject as a `StoreArchive` does. */
export interface Companions {
  /** Of the head, which no record is made earlier than. Milliseconds since the Unix epoch. */
  readonly lastRecordedAtMs: number;
  /** Whether an operator accepted that time, as one of the last leaves says. */
  readonly isTimeAccepted: boolean;
  /** The search index that serves; undefined if there is none. */
  readonly searchIndex: SearchRows | undefined;
  readonly registrations: RegistrationRows;
  idempotencyRows(): AsyncIterable<IdempotencyRow>;
}

export interface SearchRows {
  readonly key: Uint8Array;
  /** Leaves that need not be in it yet, from the first up to and without the end. */
  readonly waiting: readonly { readonly first: number; readonly end: number }[];
  /** Terms of the leaves of a block. */
  terms(block: number): Promise<readonly { readonly leafIndex: number; readonly term: Uint8Array }[]>;
}

/** The index of registrations, as it is stored. */
export interface RegistrationRows {
  /** Undefined where nothing was ever registered. */
  readonly key: Uint8Array | undefined;
  /** It has the leaves before this one. */
  readonly indexedTo: number;
  /** Rows of leaves from `first` up to and without `end`. */
  within(first: number, end: number): Promise<readonly RegistrationRowOfLeaf[]>;
  /** The last leaf of an artifact's rows; undefined where there are none. */
  lastOf(artifact: Uint8Array): Promise<number | undefined>;
  /** Rows of an artifact with their leaves, in the order of the log. */
  of(artifact: Uint8Array): Promise<readonly (StoredEntry & Pick<RegistrationRowOfLeaf, "isReliedOn">)[]>;
}

export interface RegistrationRowOfLeaf {
  readonly leafIndex: number;
  readonly artifact: Uint8Array;
  readonly isReliedOn: boolean;
}

/** One thing that does not hold; of one tenant's log, or of all where the tenant is undefined. */
export interface AnchorFinding {
  readonly tenantId: TenantId | undefined;
  readonly message: string;
}

/** A row of a table that belongs to no leaf below the head of its tenant's log: it is behind the head, or of none. */
export interface OrphanRow {
  readonly tenantId: TenantId;
  readonly table: string;
  /** What the row is of, in words: `leaf 7`, or the record that has no leaf. */
  readonly name: string;
}

/**
 * Holds on to the store as it was when it was opened: what is appended meanwhile is not seen. Reads, and changes
 * nothing. Records that were erased are so for whoever reads, also where their openings are there again, and where only
 * the anchor of this very store knows of it. All reject with
 * `store_unavailable` where the store cannot be read, with `internal` where what it holds is damaged.
 */
export interface StoreArchive extends RecordArchive {
  /** Every log, by tenant. */
  logs(): Promise<readonly LogState[]>;
  /** Finds records of a tenant; an empty page where it has no log. */
  search(query: SearchQuery): Promise<SearchPage>;
  /** A log of `logs`, to be walked. */
  log(head: LogState): AuditedLog;
  /** Leaves from `first` up to and without `end`, in order; as many as there are. Memory does not grow with them. */
  entries(head: LogState, first: number, end: number): AsyncIterable<StoredEntry>;
  /** A tile or bundle of a log; undefined where it has not come so far. */
  tile(head: LogState, tile: TileName): Promise<Uint8Array | undefined>;
  /** What stands beside a log of `logs`. */
  companions(head: LogState): Promise<Companions>;
  /** Every policy revision of which a text is kept. */
  policyRevisions(): Promise<readonly string[]>;
  /** Cosignatures that are kept, of every log. */
  cosignatures(): Promise<readonly StoredCosignature[]>;
  /**
   * Public keys that have signed checkpoints, the current one last. 32 bytes each. Of one log those up to the one that
   * it was handed over to: while a rotation is under way, logs may still have an older one.
   */
  signingKeys(head?: LogState): Promise<readonly Uint8Array[]>;
  /** Rows that no log has. Many of one table are not all named. */
  orphanRows(): Promise<readonly OrphanRow[]>;
  /** Everything in which the store, as it is now, is not what its anchor says. */
  anchorProblems(): Promise<readonly AnchorFinding[]>;
  /**
   * The newest state, up to this one, that may be signed: a service that has committed more than its anchor knows has
   * not answered it yet.
   */
  signable(head: LogState): Promise<SignableState>;
  /** Erasures that have to be carried out again, as the store is now. */
  undoneErasures(): Promise<readonly UndoneErasure[]>;
  /** Holds by tenant and record, those on whole tenants first; of one tenant, or of all. */
  holds(tenantId: TenantId | undefined): Promise<readonly LegalHold[]>;
  /** The store's own clock, in milliseconds since the Unix epoch; undefined where it has none but the machine's. */
  clockMs(): Promise<number | undefined>;
  /** What `RecordsAdministration.erase` would do. */
  previewErasure(tenantId: TenantId, recordIds: readonly RecordId[]): Promise<ErasurePreview>;
}
