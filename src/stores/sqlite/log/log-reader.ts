/** Reads the public part of logs: heads, tiles, entries, proofs. */

import type { LogState, TimedLog } from "../../../ledger/ports/store.ts";
import type { LogName } from "../../../ledger/tlog/log-name.ts";
import { encodeEntries, hashesOnLevel, type TileName, tileWidth } from "../../../ledger/tlog/tiles.ts";
import { type Hash, hashBytes } from "../../../ledger/tlog/tree.ts";
import { DamagedError } from "../../errors.ts";
import type { SqliteConnection, SqliteStatement } from "../connection.ts";
import { LogRows } from "./log-rows.ts";

export class LogReader {
  readonly #rows: LogRows;
  readonly #leaves: SqliteStatement;

  constructor(connection: SqliteConnection) {
    this.#rows = new LogRows(connection);
    this.#leaves = connection.prepare(
      "SELECT leaf FROM entries WHERE tenant_id = ? AND leaf_index >= ? AND leaf_index < ? ORDER BY leaf_index",
    );
  }

  logs(): readonly LogState[] {
    return [...this.#rows.heads()].map(stateOf);
  }

  /** The newest state of a log by its name. */
  log(name: LogName): LogState | undefined {
    const head = this.#rows.headByName(name);
    return head && stateOf(head);
  }

  /** Undefined for a tile that the log has not reached. Throws `DamagedError` for one that it must have and has not. */
  tile(name: LogName, tile: TileName): Uint8Array | undefined {
    const head = this.#rows.headByName(name);
    if (head === undefined) return undefined;
    const { level, index, width } = tile;
    const first = index * tileWidth;
    const reached = level === "entries" ? head.size : hashesOnLevel(level, head.size);
    if (first + width > reached) return undefined;
    const bytes =
      level === "entries"
        ? this.#bundle(head.tenantId, first, width)
        : this.#rows.tile(head.tenantId, level, index)?.subarray(0, width * hashBytes);
    if (bytes === undefined || (level !== "entries" && bytes.length < width * hashBytes))
      throw new DamagedError(`log ${head.origin}: tile ${index} of level ${level} is missing or short`);
    return bytes;
  }

  /** Undefined for sizes that the log has not reached, or that stand in the wrong order. */
  consistencyProof(name: LogName, first: number, second: number): readonly Hash[] | undefined {
    const head = this.#rows.headByName(name);
    if (head === undefined || first > second || second > head.size) return undefined;
    return this.#rows.tree(head.tenantId, second).consistencyProof(first);
  }

  /** Undefined for a size that the log has not reached. */
  multiProof(name: LogName, size: number, leafIndices: readonly number[]): readonly Hash[] | undefined {
    const head = this.#rows.headByName(name);
    if (head === undefined || size > head.size) return undefined;
    return this.#rows.tree(head.tenantId, size).multiProof(leafIndices);
  }

  #bundle(tenantId: string, first: number, width: number): Uint8Array | undefined {
    const leaves = [...this.#leaves.iterate(tenantId, first, first + width)].map(({ leaf }) => leaf as Uint8Array);
    return leaves.length === width ? encodeEntries(leaves) : undefined;
  }
}

function stateOf({ tenantId, origin, size, root }: TimedLog): LogState {
  return { tenantId, origin, size, root };
}
