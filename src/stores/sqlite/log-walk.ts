/** Whole logs, row by row, for commands that look at a store beside a running service. Cannot write. */
import type { AuditedLog, StoredEntry } from "../../ledger/audit.ts";
import { logNameOf } from "../../ledger/log-name.ts";
import type { LogState } from "../../ledger/store.ts";
import type { TileName } from "../../ledger/tiles.ts";
import { openConnection, type SqliteConnection, type SqliteStatement } from "./connection.ts";
import { LogReader } from "./log-reader.ts";
import { LogRows } from "./log-rows.ts";
import { readStoreId } from "./store-identity.ts";

const busyTimeoutMs = 10_000;

export class LogWalk {
  readonly #path: string;
  readonly #connection: SqliteConnection;
  readonly #rows: LogRows;
  readonly #reader: LogReader;
  readonly #entries: SqliteStatement;

  /**
   * Opens the file and holds on to what it has now: what is appended meanwhile is not seen. Throws an SQLite error
   * where it cannot be read.
   */
  constructor(path: string) {
    this.#path = path;
    this.#connection = openConnection({ path, readOnly: true, busyTimeoutMs });
    this.#connection.exec("BEGIN");
    this.#rows = new LogRows(this.#connection);
    this.#reader = new LogReader(this.#connection);
    this.#entries = this.#connection.prepare(
      `SELECT leaf_index, record_id, leaf, sealed, opening
         FROM entries LEFT JOIN openings USING (tenant_id, record_id)
        WHERE tenant_id = ? ORDER BY leaf_index`,
    );
  }

  logs(): readonly LogState[] {
    return this.#reader.logs();
  }

  /** A log of `logs`, to be audited. */
  log(head: LogState): AuditedLog {
    return {
      head,
      entries: () => this.#entriesOf(head),
      tile: (level, index) => this.#rows.tile(head.tenantId, level, index),
    };
  }

  /** A tile or bundle of a log; undefined where it has not come so far. */
  tile(head: LogState, tile: TileName): Uint8Array | undefined {
    return this.#reader.tile(logNameOf(head.origin), tile);
  }

  storeId(): string {
    return readStoreId(this.#connection);
  }

  /** Whether the store had an anchor. */
  isAnchored(): boolean {
    return this.#connection.prepare("SELECT anchored FROM store").get()?.anchored === 1;
  }

  /** Public keys that have signed checkpoints, the current one last. */
  signingKeys(): readonly Buffer[] {
    const rows = this.#connection.prepare("SELECT public_key FROM signing_keys ORDER BY position").iterate();
    return [...rows].map(({ public_key }) => Buffer.from(public_key as Uint8Array));
  }

  /** Looks at the store as it is now, rather than as it was when it was opened. */
  withNewest<Result>(look: (rows: LogRows) => Result): Result {
    const connection = openConnection({ path: this.#path, readOnly: true, busyTimeoutMs });
    try {
      return look(new LogRows(connection));
    } finally {
      connection.close();
    }
  }

  close(): void {
    this.#connection.close();
  }

  *#entriesOf({ tenantId }: LogState): Generator<StoredEntry> {
    for (const row of this.#entries.iterate(tenantId)) {
      yield {
        leafIndex: row.leaf_index as number,
        recordId: row.record_id as string,
        leaf: row.leaf as Uint8Array,
        sealed: row.sealed as Uint8Array,
        opening: (row.opening as Uint8Array | null) ?? undefined,
      };
    }
  }
}
