/** Results of erasure and of legal holds. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { RecordKind } from "./record.ts";

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
  /** Whether the record had been erased before this call, and no backup had brought it back: nothing was changed. */
  readonly wasErased: boolean;
}

/** A record that the anchor notes as erased. */
export interface NotedErasure {
  readonly tenantId: TenantId;
  readonly recordId: RecordId;
}

/** Why a record is not erased; `unknown` if the tenant has none with this id. */
export type ErasureRefusal = { readonly recordId: RecordId } & (ReapplyRefusal | { readonly why: "unknown" });

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
export interface UndoneErasure extends NotedErasure {
  /** Leaf of the record. */
  readonly leafIndex: number;
  /** Leaf of the erasure; undefined if only the anchor has it. */
  readonly erasureLeafIndex: number | undefined;
  /** Why it is not repeated; undefined if it may be. */
  readonly refusal: ReapplyRefusal | undefined;
}

/**
 * Why a record of the tenant must not be erased. `kind`: other records depend on it (see `unerasable`); `unproven`: the
 * store lists the record as erased, and the log has no leaf for the erasure.
 */
export type ReapplyRefusal =
  | { readonly why: "kind"; readonly kind: RecordKind }
  | { readonly why: "held"; readonly hold: LegalHold }
  | { readonly why: "unproven" };

/** Result of repeating erasures. */
export interface ReapplyResult {
  /** Each with the leaf of its erasure, old or new. */
  readonly reapplied: readonly (UndoneErasure & { readonly erasureLeafIndex: number })[];
  /** Each with its refusal. */
  readonly left: readonly UndoneErasure[];
  /** See `ErasureResult`. */
  readonly overwritten: boolean | undefined;
  /** Why the store could not be used for the rest, which is not among those left. */
  readonly failure?: string;
}

/** Most records of one call: they are erased in one transaction, which blocks all other writes. */
export const maxErasedAtOnce = 256;
