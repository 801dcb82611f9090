/** The anchor of an embedded store: a small separate file, beside the store or at the operator's path. */
import { existsSync } from "node:fs";
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { NotedErasure } from "../../ledger/ports/records-administration.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import { sameHash } from "../../ledger/tlog/tree.ts";
import {
  type ConnectionOptions,
  createDatabaseFile,
  inTransaction,
  openConnection,
  opened,
  passiveCheckpoint,
  type SqliteConnection,
  type SqliteStatement,
  sealing,
} from "./connection.ts";
import { AnchorFileError, IncompatibleStoreError } from "./errors.ts";

/** Marks the file as an anchor (`PRAGMA application_id`). */
const applicationId = 0x53_50_41_32;

const schema = `
  CREATE TABLE anchored_logs (
    tenant_id TEXT NOT NULL PRIMARY KEY,
    origin TEXT NOT NULL,
    size INTEGER NOT NULL CHECK (size > 0),
    root BLOB NOT NULL CHECK (length(root) = 32)
  ) STRICT, WITHOUT ROWID;
  -- The store that the logs are in; empty until there is one.
  CREATE TABLE anchored_store (
    singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
    store_id TEXT NOT NULL
  ) STRICT;
  CREATE TABLE erased_records (
    tenant_id TEXT NOT NULL,
    record_id TEXT NOT NULL,
    PRIMARY KEY (tenant_id, record_id)
  ) STRICT, WITHOUT ROWID;
  PRAGMA application_id = ${applicationId};
`;

/** Rows are `LogState`s. */
const selectLogs = "SELECT tenant_id AS tenantId, origin, size, root FROM anchored_logs";

/**
 * Several processes may share one anchor. A commit survives a crash of the process, not always of the machine: an
 * anchor that lost its newest advances is behind the store, which is sound, and detects a little less.
 */
export class SqliteAnchor {
  readonly #connection: SqliteConnection;
  readonly path: string;
  readonly #find: SqliteStatement;
  readonly #advance: SqliteStatement;

  private constructor(connection: SqliteConnection, path: string) {
    this.#connection = connection;
    this.path = path;
    this.#find = connection.prepare(`${selectLogs} WHERE tenant_id = ?`);
    // Never back, and never to another log.
    this.#advance = connection.prepare(
      `INSERT INTO anchored_logs (tenant_id, origin, size, root) VALUES (?, ?, ?, ?)
       ON CONFLICT DO UPDATE SET size = excluded.size, root = excluded.root
        WHERE excluded.size > size AND excluded.origin = origin`,
    );
  }

  /** Opens the file, which must exist. Here and later, throws `AnchorFileError` if it cannot be used. */
  static open(options: ConnectionOptions, prepare = (_: SqliteConnection) => {}): SqliteAnchor {
    const { path } = options;
    return naming(path, () =>
      opened(openConnection(options), (connection) => {
        prepare(connection);
        return guarded(path, connection, new SqliteAnchor(connection, path));
      }),
    );
  }

  find(tenantId: TenantId): LogState | undefined {
    return this.#find.get(tenantId) as LogState | undefined;
  }

  /** Every log, by tenant. */
  all(): readonly LogState[] {
    const rows: readonly unknown[] = [...this.#connection.prepare(`${selectLogs} ORDER BY tenant_id`).iterate()];
    return rows as readonly LogState[];
  }

  /**
   * Notes committed states, and skips older ones. Throws `AnchorFileError`, and notes none of them, if one is of
   * another log, or of the same size with another root.
   */
  advance(logs: readonly LogState[]): void {
    const advance = () => {
      for (const log of logs) this.#note(log);
    };
    // A single statement is a transaction, and cheaper than an explicit one.
    if (logs.length > 1) inTransaction(this.#connection, advance);
    else advance();
  }

  #note({ tenantId, origin, size, root }: LogState): void {
    if (Number(this.#advance.run(tenantId, origin, size, root).changes) === 1) return;
    const noted = this.find(tenantId);
    const isSame = noted?.origin === origin && (noted.size !== size || sameHash(noted.root, root));
    if (!isSame)
      throw new AnchorFileError(this.path, new Error(`log ${origin} has another tree of ${size} leaves there`));
  }

  /** Identity of the store that is anchored here; undefined for a new anchor. */
  storeId(): string | undefined {
    return this.#connection.prepare("SELECT store_id FROM anchored_store").get()?.store_id as string | undefined;
  }

  /**
   * Makes a new anchor the store's, with all of its logs, which then survive a crash of the machine. Returns the store
   * that it has, if another process was first.
   */
  adopt(storeId: string, logs: readonly LogState[]): string {
    const adopted = inTransaction(this.#connection, () => {
      const first = this.storeId();
      if (first !== undefined) return first;
      this.#connection.prepare("INSERT INTO anchored_store (singleton, store_id) VALUES (1, ?)").run(storeId);
      for (const log of logs) this.#note(log);
      return storeId;
    });
    // Syncs the file: a store that knows of its anchor is not served without.
    passiveCheckpoint(this.#connection);
    return adopted;
  }

  /** Notes committed erasures, so that an older copy of the store does not restore erased data. */
  noteErasures(erasures: readonly NotedErasure[]): void {
    inTransaction(this.#connection, () => {
      const note = this.#connection.prepare(
        "INSERT INTO erased_records (tenant_id, record_id) VALUES (?, ?) ON CONFLICT DO NOTHING",
      );
      for (const { tenantId, recordId } of erasures) note.run(tenantId, recordId);
    });
  }

  /** Every erasure that was noted, by tenant. */
  erasures(): readonly NotedErasure[] {
    const all = "SELECT tenant_id AS tenantId, record_id AS recordId FROM erased_records ORDER BY tenant_id, record_id";
    const rows: readonly unknown[] = [...this.#connection.prepare(all).iterate()];
    return rows as readonly NotedErasure[];
  }

  notesErasure(tenantId: TenantId, recordId: RecordId): boolean {
    const noted = this.#connection.prepare("SELECT 1 FROM erased_records WHERE tenant_id = ? AND record_id = ?");
    return noted.get(tenantId, recordId) !== undefined;
  }

  /** Makes a small write. */
  probe(nowMs: number): void {
    this.#connection.exec(`PRAGMA user_version = ${Math.floor(nowMs / 1_000) % 2 ** 31}`);
  }

  close(): void {
    this.#connection.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }
}

/** Failures of the work are failures of this anchor, not of its store. */
function naming<Result>(path: string, work: () => Result): Result {
  try {
    return work();
  } catch (error) {
    throw error instanceof AnchorFileError || error instanceof IncompatibleStoreError
      ? error
      : new AnchorFileError(path, error);
  }
}

/**
 * Runs every method of an anchor through `naming`, outside of a transaction: if a rollback fails, its transaction stays
 * open, and what is written in it is never committed.
 */
function guarded(path: string, connection: SqliteConnection, anchor: SqliteAnchor): SqliteAnchor {
  return new Proxy(anchor, {
    get(of, name) {
      const method: unknown = Reflect.get(of, name);
      if (typeof method !== "function") return method;
      return (...args: unknown[]) =>
        naming(path, () => {
          if (connection.isTransaction) connection.exec("ROLLBACK");
          return method.apply(of, args) as unknown;
        });
    },
  });
}

export const anchorConnection = { readOnly: false, durability: "process" } as const;

/** Opens the anchor to read it, for a command or a start. Undefined if there is no file. Throws as `SqliteAnchor.open`. */
export function readAnchor(path: string): SqliteAnchor | undefined {
  return existsSync(path) ? SqliteAnchor.open({ path, readOnly: true }) : undefined;
}

/**
 * Opens the anchor to write to it, and creates its file if it is missing. Throws `IncompatibleStoreError` if the file is
 * another kind, and as `SqliteAnchor.open`.
 */
export function openAnchor(path: string, busyTimeoutMs?: number): SqliteAnchor {
  naming(path, () => createDatabaseFile(path));
  return SqliteAnchor.open({ ...anchorConnection, path, busyTimeoutMs }, (connection) =>
    inTransaction(connection, () => {
      const { application_id: id } = connection.prepare("PRAGMA application_id").get() ?? {};
      if (id === applicationId) return;
      const tables = connection.prepare("SELECT count(*) AS count FROM sqlite_schema").get()?.count;
      if (tables !== 0) throw new IncompatibleStoreError(`${path} is not the anchor of a ledger.`, "SVC_ANCHOR");
      connection.exec(schema);
    }),
  );
}

/**
 * Opens a store's anchor to append beside services. Throws `IncompatibleStoreError` if the file is missing, new or
 * another store's, and as `SqliteAnchor.open`.
 */
export function openAnchorOf(path: string, storeId: string): SqliteAnchor {
  if (!existsSync(path)) throw new IncompatibleStoreError(`${path} is missing: nothing may be appended.`, "SVC_ANCHOR");
  return opened(SqliteAnchor.open({ ...anchorConnection, path }), (anchor) => {
    if (anchor.storeId() === storeId) return anchor;
    throw new IncompatibleStoreError(`${path} is not the anchor of this store: nothing may be appended.`, "SVC_ANCHOR");
  });
}

/** Makes the file refuse every write, or ends this. A store that was never served has none. */
export function sealAnchor(path: string, isOn: boolean): void {
  if (!existsSync(path)) return;
  naming(path, () => {
    using connection = openConnection({ path, readOnly: false });
    inTransaction(connection, () => {
      const found = connection.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").iterate();
      const tables = [...found].map(({ name }) => name as string);
      for (const text of sealing[isOn ? "seal" : "unseal"](tables)) connection.exec(text);
    });
  });
}
