/** Erases records, inside a transaction that the caller holds. */
import type { Clock } from "../../base/clock.ts";
import type { RandomFill, RecordId, TenantId } from "../../base/ids.ts";
import { type ErasedPlace, erasureRecord, unerasable } from "../../ledger/erasure.ts";
import type { ErasedRecord, ErasureRefusal } from "../../ledger/keeper.ts";
import type { RecordKind } from "../../ledger/ports.ts";
import { recordText } from "../../ledger/record-text.ts";
import { seedBytes } from "../../ledger/sequence.ts";
import { readLeaf } from "../stored-record.ts";
import type { SqliteConnection, SqliteStatement } from "./connection.ts";
import { LegalHolds } from "./legal-holds.ts";
import type { AppendedBatch, LogWriter } from "./log-writer.ts";
import { RecordRemains } from "./record-remains.ts";

export interface EraserOptions {
  readonly connection: SqliteConnection;
  /** Appends in the same transaction; every log exists, so it opens none. */
  readonly logs: LogWriter;
  readonly clock: Clock;
  readonly random: RandomFill;
}

/** A record that may be erased, or was. */
interface Found {
  readonly recordId: RecordId;
  readonly leafIndex: number;
  readonly kind: RecordKind;
  readonly earlier: ErasedRecord | undefined;
}

/** What was done, true once it is committed. */
export interface ErasedBatch {
  /** In the order asked for. */
  readonly erased: readonly ErasedRecord[];
  /** Undefined where all were erased before. */
  readonly appended: AppendedBatch | undefined;
}

export class Eraser {
  readonly #options: EraserOptions;
  readonly #holds: LegalHolds;
  readonly #remains: RecordRemains;
  readonly #find: SqliteStatement;
  readonly #leaf: SqliteStatement;
  readonly #note: SqliteStatement;

  constructor(options: EraserOptions) {
    this.#options = options;
    const { connection } = options;
    this.#holds = new LegalHolds(connection);
    this.#remains = new RecordRemains(connection);
    this.#find = connection.prepare(
      `SELECT entries.leaf_index, leaf, erasure_leaf_index
         FROM entries LEFT JOIN erasures USING (tenant_id, record_id)
        WHERE tenant_id = ? AND record_id = ?`,
    );
    this.#leaf = connection.prepare("SELECT leaf FROM entries WHERE tenant_id = ? AND leaf_index = ?");
    this.#note = connection.prepare(
      "INSERT INTO erasures (tenant_id, record_id, leaf_index, erasure_leaf_index) VALUES (?, ?, ?, ?)",
    );
  }

  /** Why records must not be erased; empty where all may be, or were. */
  refusals(tenantId: TenantId, recordIds: readonly RecordId[]): readonly ErasureRefusal[] {
    return recordIds.flatMap((recordId): readonly ErasureRefusal[] => {
      const found = this.#found(tenantId, recordId);
      if (found === undefined) return [{ recordId, why: "unknown" }];
      if (found.earlier !== undefined) return [];
      if (unerasable[found.kind] !== undefined) return [{ recordId, why: "kind", kind: found.kind }];
      const hold = this.#holds.covering(tenantId, recordId);
      return hold === undefined ? [] : [{ recordId, why: "held", hold }];
    });
  }

  /** Erases those that were not. All of them must be the tenant's; holds are the caller's to ask for. */
  erase(tenantId: TenantId, recordIds: readonly RecordId[], reason: string | undefined): ErasedBatch {
    const found = recordIds.map((recordId) => this.#found(tenantId, recordId));
    const places = found.flatMap((one) => (one === undefined || one.earlier !== undefined ? [] : [one]));
    const appended = places.length === 0 ? undefined : this.#append(tenantId, places, reason);
    places.forEach(({ recordId, leafIndex }, position) => {
      const erasure = appended?.place.results[position];
      if (typeof erasure !== "object") throw new Error("The erasure has no place in the log.");
      this.#note.run(tenantId, recordId, leafIndex, erasure.leafIndex);
    });
    const fresh = new Set(places.map(({ recordId }) => recordId));
    const erased = recordIds.flatMap((recordId) => {
      const { earlier } = this.#found(tenantId, recordId) ?? {};
      return earlier === undefined ? [] : [{ ...earlier, wasErased: !fresh.has(recordId) }];
    });
    return { erased, appended };
  }

  #append(tenantId: TenantId, places: readonly Found[], reason: string | undefined): AppendedBatch {
    const { logs, clock, random } = this.#options;
    const records = places.map(({ recordId, leafIndex, kind }) => {
      const keptAnswers = this.#remains.remove(tenantId, recordId, leafIndex);
      const place: ErasedPlace = { recordId, leafIndex, kind, keptAnswers };
      return recordText(erasureRecord(tenantId, place, { reason, clock, random }));
    });
    return logs.append({ tenantId, records, seed: random(new Uint8Array(seedBytes(records.length))) }, clock.now());
  }

  #found(tenantId: TenantId, recordId: RecordId): Found | undefined {
    const row = this.#find.get(tenantId, recordId);
    if (row === undefined) return undefined;
    const leafIndex = row.leaf_index as number;
    const { kind } = readLeaf(`The leaf ${leafIndex}`, row.leaf as Uint8Array);
    const erasureLeafIndex = row.erasure_leaf_index as number | null;
    const earlier =
      erasureLeafIndex === null
        ? undefined
        : {
            recordId,
            leafIndex,
            erasureLeafIndex,
            erasedAt: this.#timeOf(tenantId, erasureLeafIndex),
            wasErased: true,
          };
    return { recordId, leafIndex, kind, earlier };
  }

  #timeOf(tenantId: TenantId, leafIndex: number): string {
    return readLeaf(`The leaf ${leafIndex}`, this.#leaf.get(tenantId, leafIndex)?.leaf as Uint8Array).recorded_at;
  }
}
