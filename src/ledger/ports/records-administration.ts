/** Administration of records: erasure and legal holds. The comments are the contract. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { ErasureStatement, RecordKind } from "./record.ts";

/** A legal hold: prevents erasure while it lasts. */
export interface LegalHold {
  readonly tenantId: TenantId;
  /** Undefined: the hold covers every record of the tenant, future ones included. */
  readonly recordId: RecordId | undefined;
  readonly reason: string;
  /** Milliseconds since the Unix epoch. */
  readonly placedAtMs: number;
}

/** An erasure in the log. */
export interface ErasedRecord {
  readonly recordId: RecordId;
  /** Leaf of the record, which stays. */
  readonly leafIndex: number;
  /** Leaf of the erasure. */
  readonly erasureLeafIndex: number;
  /** Time of the erasure's leaf: RFC 3339 with milliseconds, UTC. */
  readonly erasedAt: string;
  /** Whether the record had been erased before this call, which then changed nothing. */
  readonly wasErased: boolean;
}

/** A record that the anchor notes as erased. */
export interface NotedErasure {
  readonly tenantId: TenantId;
  readonly recordId: RecordId;
}

/** Why a record is not erased. */
export type ErasureRefusal =
  /** The tenant has no such record. */
  | { readonly recordId: RecordId; readonly why: "unknown" }
  /** Other records depend on this kind: see `unerasable`. */
  | { readonly recordId: RecordId; readonly why: "kind"; readonly kind: RecordKind }
  | { readonly recordId: RecordId; readonly why: "held"; readonly hold: LegalHold };

export type ErasureResult =
  /** All are erased, in the order of the request. */
  | {
      readonly erased: readonly ErasedRecord[];
      /**
       * Whether the openings are gone from the store's files. False if a reader kept older pages alive; repeating the
       * call tries again. Undefined if the database overwrites them later.
       */
      readonly overwritten: boolean | undefined;
    }
  /** Nothing was erased, because of these. */
  | { readonly refused: readonly ErasureRefusal[] };

/** Preview of an erasure. */
export type ErasurePreview =
  | { readonly refused: readonly ErasureRefusal[] }
  | {
      readonly erasable: readonly {
        readonly recordId: RecordId;
        readonly leafIndex: number;
        readonly kind: RecordKind;
      }[];
      /** Those that are erased already. */
      readonly erased: readonly ErasedRecord[];
    };

/**
 * An erasure that must be repeated: the record's opening, or an answer stored with it, is in the store again, as after
 * a restore; or the anchor has the erasure, and the log has no leaf for it.
 */
export interface UndoneErasure {
  readonly tenantId: TenantId;
  readonly recordId: RecordId;
  /** Leaf of the record. */
  readonly leafIndex: number;
  /** Leaf of the erasure; undefined if only the anchor has it. */
  readonly erasureLeafIndex: number | undefined;
  /** Why it is not repeated; undefined if it may be. */
  readonly refusal: ReapplyRefusal | undefined;
}

export type ReapplyRefusal =
  /** Other records depend on this kind: see `unerasable`. */
  | { readonly why: "kind"; readonly kind: RecordKind }
  | { readonly why: "held"; readonly hold: LegalHold }
  /** The store lists the record as erased, and the log has no leaf for the erasure. */
  | { readonly why: "unproven" };

/** Result of repeating erasures. */
export interface ReapplyResult {
  /** Each with the leaf of its erasure, old or new. */
  readonly reapplied: readonly (UndoneErasure & { readonly erasureLeafIndex: number })[];
  /** Each with its refusal. */
  readonly left: readonly UndoneErasure[];
  /** See `ErasureResult`. */
  readonly overwritten: boolean | undefined;
}

/** Most records of one call: they are erased in one transaction, which blocks all other writes. */
export const maxErasedAtOnce = 256;

/**
 * Works beside a running service. All methods reject with `store_unavailable` if the store cannot be used, in which
 * case the change may or may not have happened, and with `UnsoundLogError` if the tenant's log contradicts its anchor.
 */
export interface RecordsAdministration {
  /**
   * Erases records permanently, all or none, in one transaction under the lock of the log's head. A leaf of kind
   * `erasure` is appended for each; its opening, search terms and stored answers are deleted; its leaf and sealed bytes
   * stay. Durable and anchored when it resolves; nothing is signed. Records that are erased already stay so and are no
   * error. Holds are checked within the transaction.
   *
   * @param recordIds 1 to `maxErasedAtOnce`, without duplicates
   * @param statement is recorded, and can never be erased
   */
  erase(tenantId: TenantId, recordIds: readonly RecordId[], statement: ErasureStatement): Promise<ErasureResult>;

  /**
   * Repeats the erasures that must be, of one tenant or of all, in one or more transactions for each tenant; if some
   * fail, the next call continues. An erasure that only the anchor has gets a leaf with the statement; the others have
   * theirs. Records that are held, of a kind that is never erased, or without an erasure leaf are left and reported.
   */
  reapplyErasures(tenantId: TenantId | undefined, statement: ErasureStatement): Promise<ReapplyResult>;

  /**
   * Places a hold. Durable when it resolves, and respected by every erasure that has not committed by then. An existing
   * hold on the same stays and is returned. `unknown` if the tenant has no log or no such record, `erased` if there is
   * nothing left to hold.
   */
  placeHold(hold: Pick<LegalHold, "tenantId" | "recordId" | "reason">): Promise<LegalHold | "unknown" | "erased">;

  /**
   * Ends the hold on exactly this, and appends a leaf of kind `hold_release` in the same transaction; a hold on the
   * whole tenant continues. Durable and anchored when it resolves. Resolves with the ended hold; undefined if there was
   * none, and nothing was appended.
   *
   * @param statement is recorded, and can never be erased
   */
  releaseHold(
    tenantId: TenantId,
    recordId: RecordId | undefined,
    statement: ErasureStatement,
  ): Promise<LegalHold | undefined>;

  /**
   * Appends a leaf of kind `clock_acceptance`, so that a service may start although the log's newest time is ahead of
   * the clock. Durable and anchored when it resolves; false if the time is not ahead, or was accepted already, and
   * nothing was appended.
   */
  acceptTime(tenantId: TenantId, statement: ErasureStatement): Promise<boolean>;

  close(): Promise<void>;
}
