/** Administration of records: erasure and legal holds. The comments are the contract. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { ErasureStatement, RecordKind } from "./record.ts";

/** A hold: what it covers is not erased while it lasts. */
export interface LegalHold {
  readonly tenantId: TenantId;
  /** Undefined: the hold covers every record of the tenant, those to come too. */
  readonly recordId: RecordId | undefined;
  readonly reason: string;
  /** Milliseconds since the Unix epoch. */
  readonly placedAtMs: number;
}

/** An erasure as the log has it. */
export interface ErasedRecord {
  readonly recordId: RecordId;
  /** Leaf of the record; it stays. */
  readonly leafIndex: number;
  /** Leaf that says so. */
  readonly erasureLeafIndex: number;
  /** RFC 3339 with milliseconds, UTC: time of that leaf. */
  readonly erasedAt: string;
  /** Whether it had been erased before this call, which then changed nothing. */
  readonly wasErased: boolean;
}

/** Why a record is not erased. */
export type ErasureRefusal =
  /** The tenant has no such record. */
  | { readonly recordId: RecordId; readonly why: "unknown" }
  /** Others rest on records of this kind: see `unerasable`. */
  | { readonly recordId: RecordId; readonly why: "kind"; readonly kind: RecordKind }
  | { readonly recordId: RecordId; readonly why: "held"; readonly hold: LegalHold };

export type ErasureResult =
  /** All of them are erased, in the order asked for. */
  | {
      readonly erased: readonly ErasedRecord[];
      /**
       * Whether the store's files hold the bytes of their openings no more. False where a reader kept older pages
       * alive; the same call again tries again. Undefined where the database overwrites them in its own time.
       */
      readonly overwritten: boolean | undefined;
    }
  /** None of them was: these must not be. */
  | { readonly refused: readonly ErasureRefusal[] };

/** What an erasure would do now. */
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
 * An erasure that has to be carried out once more: the opening of the record, or an answer that was kept with it, is in
 * the store again, as a backup brings it back; or the anchor notes the erasure, and the log has no leaf for it.
 */
export interface UndoneErasure {
  readonly tenantId: TenantId;
  readonly recordId: RecordId;
  /** Leaf of the record. */
  readonly leafIndex: number;
  /** Leaf that says that it was erased; undefined where only the anchor notes it. */
  readonly erasureLeafIndex: number | undefined;
  /** Why it is not carried out again; undefined where it may be. */
  readonly refusal: ReapplyRefusal | undefined;
}

export type ReapplyRefusal =
  /** Others rest on records of this kind: see `unerasable`. */
  | { readonly why: "kind"; readonly kind: RecordKind }
  | { readonly why: "held"; readonly hold: LegalHold }
  /** The store has the record among the erased ones, and the log has no leaf that erased it. */
  | { readonly why: "unproven" };

/** What became of the erasures that were to be carried out again. */
export interface ReapplyResult {
  /** Each with its leaf: the one that it had, or a new one. */
  readonly reapplied: readonly (UndoneErasure & { readonly erasureLeafIndex: number })[];
  /** Each with its refusal. */
  readonly left: readonly UndoneErasure[];
  /** As in `ErasureResult`. */
  readonly overwritten: boolean | undefined;
}

/** Records of one call, at most: they are erased in one transaction, for which everybody else waits. */
export const maxErasedAtOnce = 256;

/**
 * Works beside whoever serves the store. All reject with `store_unavailable` where the store cannot be used, in which
 * case it may or may not have happened, and with `UnsoundLogError` where the tenant's log is not what its anchor says.
 */
export interface RecordsAdministration {
  /**
   * Erases records for good, all or none, in one transaction under the lock of the log's head: a leaf of kind `erasure`
   * for each is appended; its opening, what it is found by and the answers kept with it are gone; its leaf and sealed
   * bytes stay. Durable and anchored when it resolves; nothing is signed. A record that is erased already stays so, and
   * is no obstacle. Holds are looked at within the transaction.
   *
   * @param recordIds 1 to `maxErasedAtOnce`, each once
   * @param statement is recorded, and can never be erased
   */
  erase(tenantId: TenantId, recordIds: readonly RecordId[], statement: ErasureStatement): Promise<ErasureResult>;

  /**
   * Carries out again what has to be, of one tenant or of all, in one or more transactions for each tenant; where some
   * fail, the next call goes on. An erasure that only the anchor notes gets a leaf with the statement; the others have
   * theirs. What is held, of a kind that is never erased, or was erased by no leaf is left, and reported.
   */
  reapplyErasures(tenantId: TenantId | undefined, statement: ErasureStatement): Promise<ReapplyResult>;

  /**
   * Places a hold; durable when it resolves, and seen by every erasure that has not committed by then. Where there is
   * one on the same, that one stays and is given. `unknown` where the tenant has no log or no such record, `erased`
   * where there is nothing left to hold.
   */
  placeHold(hold: Pick<LegalHold, "tenantId" | "recordId" | "reason">): Promise<LegalHold | "unknown" | "erased">;

  /**
   * Ends the hold on exactly this, and appends a leaf of kind `hold_release` in the same transaction: one on the whole
   * tenant goes on. Durable and anchored when it resolves. Resolves with what ended; undefined: there was none, and
   * nothing was appended.
   *
   * @param statement is recorded, and can never be erased
   */
  releaseHold(
    tenantId: TenantId,
    recordId: RecordId | undefined,
    statement: ErasureStatement,
  ): Promise<LegalHold | undefined>;

  /**
   * Appends a leaf of kind `clock_acceptance`, so that a service may start although the log's newest time is ahead of the
   * clock. Durable and anchored when it resolves; false: it is not ahead, or was accepted, and nothing was appended.
   */
  acceptTime(tenantId: TenantId, statement: ErasureStatement): Promise<boolean>;

  /** Holds by tenant and record, those on whole tenants first; of one tenant, or of all. */
  holds(tenantId: TenantId | undefined): Promise<readonly LegalHold[]>;

  close(): Promise<void>;
}
