/** The source of a copy: sealed, and read row by row in its sealed state. */
import { existsSync } from "node:fs";
import { describeUndone } from "../../../ledger/audit/undone-erasures.ts";
import type { LogState } from "../../../ledger/ports/store.ts";
import { IncompatibleStoreError } from "../../errors.ts";
import type { StoredArchive } from "../../sql/archive.ts";
import { findUndone } from "../../sql/erasure.ts";
import { heads } from "../../sql/log-rows.ts";
import type { Table } from "../../sql/tables.ts";
import { inTransaction, openConnection, type SqliteConnection } from "../connection.ts";
import { readNotedErasures } from "../erasure/noted-erasures.ts";
import { anchorConnection, withAnchorFile } from "../log/anchor.ts";
import { openSqliteArchive } from "../operators.ts";
import type { StorePaths } from "../paths.ts";
import { SqliteQueries } from "../queries.ts";
import { requireSchema } from "./migrate.ts";
import {
  finishSeal,
  readSeal,
  requireUnsealed,
  type SealOwner,
  sealStore,
  sealTables,
  unsealStore,
  unsealTables,
} from "./seal.ts";

/** For other processes on the same files: a service under load releases its lock within a second. */
const busyTimeoutMs = 10_000;

/** One row, its values in the order of the table's columns. */
export type CopiedRow = readonly (null | number | string | Uint8Array)[];

/** Not ordered by tenant. An opening without an entry is skipped here, and stops a copy before it begins. */
const openingsOfTenants = "entries JOIN openings USING (tenant_id, record_id)";

export class SqliteCopySource {
  readonly #paths: Pick<StorePaths, "path" | "anchorPath">;
  readonly #nowMs: number;
  #snapshot: SqliteConnection | undefined;

  private constructor(paths: Pick<StorePaths, "path" | "anchorPath">, nowMs: number) {
    this.#paths = paths;
    this.#nowMs = nowMs;
  }

  /**
   * Opens a store of this program's schema. Throws an error for the operator if it is missing or unsuitable, or if
   * erased data is in it again: the copy would include that.
   *
   * @param nowMs milliseconds since the Unix epoch; rows that expired by then are not copied
   */
  static async open(paths: Pick<StorePaths, "path" | "anchorPath">, nowMs: number): Promise<SqliteCopySource> {
    if (!existsSync(paths.path)) throw new IncompatibleStoreError(`${paths.path} is missing.`);
    const connection = openConnection({ path: paths.path, readOnly: true, busyTimeoutMs });
    try {
      requireSchema(connection, paths.path);
      const undone = await findUndone(new SqliteQueries(connection), readNotedErasures(connection, paths.anchorPath));
      if (undone.length > 0)
        throw new IncompatibleStoreError(
          `${describeUndone(undone).join("\n")}\nNothing is copied: \`ledger reapply-erasures\` comes first.`,
        );
      return new SqliteCopySource(paths, nowMs);
    } finally {
      connection.close();
    }
  }

  archive(): StoredArchive {
    return openSqliteArchive(this.#paths);
  }

  /**
   * Seals store and anchor, so that an older copy of the store beside this anchor is refused too. Reads from here on
   * show the sealed state. Throws like `sealStore`.
   */
  seal(owner: SealOwner): void {
    this.#write((connection) => sealStore(connection, this.#paths.path, owner));
    withAnchor(this.#paths.anchorPath, sealTables);
    this.#snapshot = openConnection({ path: this.#paths.path, readOnly: true, busyTimeoutMs });
    this.#snapshot.exec("BEGIN");
  }

  /** Throws like `finishSeal`. */
  finish(owner: SealOwner): void {
    this.#write((connection) => finishSeal(connection, owner));
  }

  /** Returns the public key that signs, as the store notes it; undefined if nothing was ever signed. */
  newestKey(): Uint8Array | undefined {
    return this.#reading((connection) => {
      const row = connection.prepare("SELECT public_key FROM signing_keys ORDER BY position DESC LIMIT 1").get();
      return row?.public_key as Uint8Array | undefined;
    });
  }

  /** Whether a copy to this store was finished: it may be served. */
  isCopiedTo(targetStoreId: string): boolean {
    const seal = this.#reading(readSeal);
    return seal?.isFinal === true && seal.targetStoreId === targetStoreId;
  }

  /** Every head, by tenant. */
  heads(): Promise<readonly LogState[]> {
    return heads(new SqliteQueries(this.#sealed()));
  }

  /** Every tenant with rows; the empty name stands for addresses. */
  tenants(): readonly string[] {
    const rows = this.#read(
      `SELECT tenant_id FROM log_heads UNION SELECT tenant_id FROM proof_uses UNION SELECT tenant_id FROM attempts
        ORDER BY tenant_id`,
    );
    return [...rows].map(({ tenant_id }) => tenant_id as string);
  }

  /** Rows of one tenant, or of a table without tenants; one in memory at a time. */
  *rows({ name, columns, key, expiry }: Table, tenantId?: string): Generator<CopiedRow> {
    const names = Object.keys(columns);
    const conditions = [
      ...(tenantId === undefined ? [] : ["tenant_id = ?"]),
      ...(expiry === undefined ? [] : [`${expiry} > ${this.#nowMs}`]),
    ];
    const where = conditions.length === 0 ? "" : `WHERE ${conditions.join(" AND ")}`;
    const values = tenantId === undefined ? [] : [tenantId];
    const [from, order] = name === "openings" ? [openingsOfTenants, ["leaf_index"]] : [name, key];
    const sql = `SELECT ${names.join(", ")} FROM ${from} ${where} ORDER BY ${order.join(", ")}`;
    for (const row of this.#read(sql, ...values)) yield names.map((column) => row[column] as CopiedRow[number]);
  }

  /** Returns how many rows of a table are to be copied, of all tenants. */
  count({ name, expiry }: Table): number {
    const where = expiry === undefined ? "" : `WHERE ${expiry} > ${this.#nowMs}`;
    const [row] = [...this.#read(`SELECT count(*) AS count FROM ${name} ${where}`)];
    return row?.count as number;
  }

  close(): void {
    this.#snapshot?.close();
    this.#snapshot = undefined;
  }

  #read(sql: string, ...values: string[]): IterableIterator<Record<string, unknown>> {
    return this.#sealed()
      .prepare(sql)
      .iterate(...values);
  }

  #sealed(): SqliteConnection {
    if (this.#snapshot === undefined) throw new Error("The store is not sealed yet.");
    return this.#snapshot;
  }

  #reading<Result>(work: (connection: SqliteConnection) => Result): Result {
    return withConnection({ path: this.#paths.path, readOnly: true, busyTimeoutMs }, work);
  }

  #write<Result>(work: (connection: SqliteConnection) => Result): Result {
    return withConnection({ path: this.#paths.path, readOnly: false, busyTimeoutMs }, work);
  }
}

/** Whether `abandonCopy` would take a seal off the store. Throws like it. */
export function hasBrokenSeal({ path }: Pick<StorePaths, "path">): boolean {
  if (!existsSync(path)) throw new IncompatibleStoreError(`${path} is missing.`);
  return withConnection({ path, readOnly: true, busyTimeoutMs }, (connection) => {
    const seal = readSeal(connection);
    if (seal?.isFinal === true) requireUnsealed(connection, path);
    return seal !== undefined;
  });
}

/**
 * Removes the seal of an interrupted copy from a store and its anchor. Throws `IncompatibleStoreError` if the copy was
 * finished, or the file is missing. Returns false if there was no seal.
 */
export function abandonCopy({ path, anchorPath }: Pick<StorePaths, "path" | "anchorPath">): boolean {
  if (!existsSync(path)) throw new IncompatibleStoreError(`${path} is missing.`);
  const options = { path, readOnly: false, busyTimeoutMs };
  const wasSealed = withConnection(options, (connection) => unsealStore(connection, path));
  // Even if the store has no seal: the command may have been interrupted between the two.
  withAnchor(anchorPath, unsealTables);
  return wasSealed;
}

function withAnchor(path: string, work: (connection: SqliteConnection) => void): void {
  // A store that was never served has none.
  if (!existsSync(path)) return;
  const options = { ...anchorConnection, path, busyTimeoutMs, durability: "machine" } as const;
  withAnchorFile(options, (connection) => inTransaction(connection, () => work(connection)));
}

function withConnection<Result>(
  options: Parameters<typeof openConnection>[0],
  work: (connection: SqliteConnection) => Result,
): Result {
  const connection = openConnection(options);
  try {
    return work(connection);
  } finally {
    connection.close();
  }
}
