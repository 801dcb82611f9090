/** Reads records and the public part of logs: heads, tiles, entries, proofs. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { StoredRecord } from "../../ledger/ports/record.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import type { LogName } from "../../ledger/tlog/log-name.ts";
import { encodeEntries, hashesOnLevel, type TileName, tileWidth } from "../../ledger/tlog/tiles.ts";
import { type Hash, hashBytes } from "../../ledger/tlog/tree.ts";
import { DamagedError } from "../errors.ts";
import { openStoredRecord } from "../stored-record.ts";
import { headByName, heads, readTiles, readTree, visibleOpening } from "./log-rows.ts";
import type { Queries, Statement } from "./queries.ts";

const leavesOf: Statement = {
  name: "leaves",
  text: "SELECT leaf FROM entries WHERE tenant_id = $1 AND leaf_index >= $2 AND leaf_index < $3 ORDER BY leaf_index",
};
/** One statement is one snapshot: an erasure in between cannot show half of itself. */
const findRecord: Statement = {
  name: "find_record",
  text: `SELECT leaf, sealed, ${visibleOpening}
          WHERE tenant_id = $1 AND record_id = $2`,
};
const findRevision: Statement = {
  name: "find_revision",
  text: "SELECT content FROM policy_revisions WHERE revision = $1",
};

/** Rejects with `DamagedError` where what is stored does not verify, with an error of the driver otherwise. */
export class LogReader {
  readonly #queries: Queries;

  constructor(queries: Queries) {
    this.#queries = queries;
  }

  /** Finds, opens and verifies a record. */
  async find(tenantId: TenantId, recordId: RecordId): Promise<StoredRecord | "unknown" | "erased"> {
    const [row] = (await this.#queries.query(findRecord, [tenantId, recordId])).rows;
    if (row === undefined) return "unknown";
    if (row.opening === null) return "erased";
    const { leaf, sealed, opening } = row as Record<string, Uint8Array>;
    return openStoredRecord(`record ${recordId}`, leaf as Uint8Array, sealed as Uint8Array, opening as Uint8Array);
  }

  /** Text that was kept of a policy revision. */
  async policyRevision(revision: string): Promise<string | undefined> {
    return (await this.#queries.query(findRevision, [revision])).rows[0]?.content as string | undefined;
  }

  async logs(): Promise<readonly LogState[]> {
    return (await heads(this.#queries)).map(stateOf);
  }

  async log(name: LogName): Promise<LogState | undefined> {
    const head = await headByName(this.#queries, name);
    return head && stateOf(head);
  }

  /** Undefined for a tile that the log has not reached. */
  async tile(head: LogState, tile: TileName): Promise<Uint8Array | undefined> {
    const { level, index, width } = tile;
    const first = index * tileWidth;
    const reached = level === "entries" ? head.size : hashesOnLevel(level, head.size);
    if (first + width > reached) return undefined;
    const bytes =
      level === "entries"
        ? await this.#bundle(head.tenantId, first, width)
        : (await readTiles(this.#queries, head.tenantId, [{ level, index }]))(level, index);
    if (level === "entries" && bytes !== undefined) return bytes;
    if (bytes === undefined || bytes.length < width * hashBytes)
      throw new DamagedError(`log ${head.origin}: tile ${index} of level ${level} is missing or short`);
    return bytes.subarray(0, width * hashBytes);
  }

  /** Undefined for sizes that the log has not reached, or that stand in the wrong order. */
  async consistencyProof(head: LogState, first: number, second: number): Promise<readonly Hash[] | undefined> {
    if (first > second || second > head.size) return undefined;
    const tree = await readTree(this.#queries, head.tenantId, second, [Math.max(0, first - 1)]);
    return tree.consistencyProof(first);
  }

  /** Undefined for a size that the log has not reached. */
  async multiProof(head: LogState, size: number, leafIndices: readonly number[]): Promise<readonly Hash[] | undefined> {
    if (size > head.size) return undefined;
    return (await readTree(this.#queries, head.tenantId, size, leafIndices)).multiProof(leafIndices);
  }

  async #bundle(tenantId: TenantId, first: number, width: number): Promise<Uint8Array | undefined> {
    const { rows } = await this.#queries.query(leavesOf, [tenantId, first, first + width]);
    return rows.length === width ? encodeEntries(rows.map(({ leaf }) => leaf as Uint8Array)) : undefined;
  }
}

function stateOf({ tenantId, origin, size, root }: LogState): LogState {
  return { tenantId, origin, size, root };
}
