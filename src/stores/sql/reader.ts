/** Reads records and the public part of logs: heads, tiles, entries, proofs. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { StoredRecord } from "../../ledger/ports/record.ts";
import type { ArtifactRegistrations } from "../../ledger/ports/registrations.ts";
import type { SearchPage, SearchQuery } from "../../ledger/ports/search.ts";
import type { CommittedRecord, LogState, StoredCosignature } from "../../ledger/ports/store.ts";
import { committedRecord } from "../../ledger/record/committed-record.ts";
import type { LogName } from "../../ledger/tlog/log-name.ts";
import { encodeEntries, hashesOnLevel, type TileName, tileWidth } from "../../ledger/tlog/tiles.ts";
import { type Hash, hashBytes } from "../../ledger/tlog/tree.ts";
import type { TreeHead } from "../../ledger/tlog/tree-verify.ts";
import { DamagedError } from "../files/errors.ts";
import { headByName, heads, readCosignatures, readTiles, readTree, visibleOpening } from "./log-rows.ts";
import type { Queries } from "./queries.ts";
import { findRegistrations } from "./registrations.ts";
import { searchRecords } from "./search.ts";
import { openStoredBytes, openStoredRecord, orDamaged, readLeaf } from "./stored-record.ts";

const leavesOf = `SELECT leaf FROM entries
   WHERE tenant_id = $1 AND leaf_index >= $2 AND leaf_index < $3 ORDER BY leaf_index`;
/** One statement is one snapshot: an erasure in between cannot show half of itself. */
const findRecord = `SELECT entries.leaf_index, leaf, sealed, ${visibleOpening}
   WHERE tenant_id = $1 AND record_id = $2`;
const findRevision = "SELECT content FROM policy_revisions WHERE revision = $1";

type EntryRow = Readonly<Record<"leaf" | "sealed" | "opening", Uint8Array>> & { readonly leaf_index: number };

export interface ReadDatabase extends Queries {
  /** Reads a tenant's rows in one snapshot. */
  snapshot<Result>(work: (queries: Queries) => Promise<Result>, tenantId: string): Promise<Result>;
}

/**
 * Reads of a store. All reject with `DamagedError` if stored data does not verify, with an error of the driver otherwise.
 * @param noted see `findRegistrations`
 */
export function storeReader(database: ReadDatabase, noted?: string) {
  return {
    /** Finds, opens and verifies a record. */
    async find(tenantId: TenantId, recordId: RecordId): Promise<StoredRecord | "unknown" | "erased"> {
      const [row] = (await database.query(findRecord, [tenantId, recordId])).rows;
      if (row === undefined) return "unknown";
      if (row.opening === null) return "erased";
      const { leaf, sealed, opening } = row as unknown as EntryRow;
      return openStoredRecord(`record ${recordId}`, leaf, sealed, opening);
    },

    async proven(name: LogName, tree: TreeHead, recordId: RecordId): Promise<CommittedRecord | "unknown" | "erased"> {
      const head = await headByName(database, name);
      const [row] = head === undefined ? [] : (await database.query(findRecord, [head.tenantId, recordId])).rows;
      if (head === undefined || row === undefined || (row.leaf_index as number) >= tree.size) return "unknown";
      if (row.opening === null) return "erased";
      const what = `record ${recordId}`;
      const { leaf_index: leafIndex, leaf, sealed, opening } = row as unknown as EntryRow;
      const record = openStoredBytes(what, leaf, sealed, opening);
      const recordedAt = readLeaf(what, leaf).recorded_at;
      const logged = { recordId, leafIndex, recordedAt, leaf, opening, record };
      const own = await readTree(database, head.tenantId, tree.size, [leafIndex]);
      return orDamaged(`the audit path of ${what}`, () => committedRecord(logged, own, tree));
    },

    /** In one snapshot: between two reads, a leaf could enter the index unseen by both. */
    search(query: SearchQuery): Promise<SearchPage> {
      return database.snapshot((queries) => searchRecords(queries, query), query.tenantId);
    },

    async policyRevision(revision: string): Promise<string | undefined> {
      return (await database.query(findRevision, [revision])).rows[0]?.content as string | undefined;
    },

    registrations(tenantId: TenantId, names: readonly string[]): Promise<readonly ArtifactRegistrations[]> {
      return database.snapshot((queries) => findRegistrations(queries, tenantId, names, noted), tenantId);
    },

    cosignatures(): Promise<readonly StoredCosignature[]> {
      return readCosignatures(database);
    },

    async logs(name?: LogName): Promise<readonly LogState[]> {
      if (name === undefined) return (await heads(database)).map(stateOf);
      const head = await headByName(database, name);
      return head === undefined ? [] : [stateOf(head)];
    },

    async tile(name: LogName, { level, index, width }: TileName): Promise<Uint8Array | undefined> {
      const head = await headByName(database, name);
      if (head === undefined) return undefined;
      const { tenantId, origin, size } = head;
      const first = index * tileWidth;
      if (first + width > (level === "entries" ? size : hashesOnLevel(level, size))) return undefined;
      if (level === "entries") {
        const { rows } = await database.query(leavesOf, [tenantId, first, first + width]);
        if (rows.length === width) return encodeEntries(rows.map(({ leaf }) => leaf as Uint8Array));
      } else {
        const bytes = (await readTiles(database, tenantId, [{ level, index }]))(level, index);
        if (bytes !== undefined && bytes.length >= width * hashBytes) return bytes.subarray(0, width * hashBytes);
      }
      throw new DamagedError(`log ${origin}: tile ${index} of level ${level} is missing or short`);
    },

    async consistencyProof(name: LogName, first: number, second: number): Promise<readonly Hash[] | undefined> {
      const head = await headByName(database, name);
      if (head === undefined || first > second || second > head.size) return undefined;
      const tree = await readTree(database, head.tenantId, second, [Math.max(0, first - 1)]);
      return tree.consistencyProof(first);
    },

    async multiProof(
      name: LogName,
      size: number,
      leafIndices: readonly number[],
    ): Promise<readonly Hash[] | undefined> {
      const head = await headByName(database, name);
      if (head === undefined || size > head.size) return undefined;
      return (await readTree(database, head.tenantId, size, leafIndices)).multiProof(leafIndices);
    },
  };
}

function stateOf({ tenantId, origin, size, root }: LogState): LogState {
  return { tenantId, origin, size, root };
}
