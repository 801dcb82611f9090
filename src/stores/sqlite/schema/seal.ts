/**
 * The seal of a store that is copied to another one. Two stores must not continue the same logs, so the sealed one
 * refuses every write of services and commands, by triggers.
 */
import { IncompatibleStoreError } from "../../errors.ts";
import { inTransaction, type SqliteConnection } from "../connection.ts";

/** The copy that the store was sealed for. */
export interface SealOwner {
  /** Identity of the store that it is copied to. */
  readonly targetStoreId: string;
  /** Identifies this run of the copy: an interrupted run must not finish another's copy. */
  readonly attempt: string;
}

export interface Seal extends Pick<SealOwner, "targetStoreId"> {
  /** Whether that store may be served: the seal is then permanent. */
  readonly isFinal: boolean;
}

const message = "This store is sealed: it was copied to another one by store copy.";

/** Returns the seal; undefined if there is none. */
export function readSeal(connection: SqliteConnection): Seal | undefined {
  const table = connection.prepare("SELECT 1 FROM sqlite_schema WHERE name = 'store_seal'").get();
  if (table === undefined) return undefined;
  const row = connection.prepare("SELECT target_store_id, is_final FROM store_seal").get();
  return row && { targetStoreId: row.target_store_id as string, isFinal: row.is_final === 1 };
}

/** Throws `IncompatibleStoreError` if the store is sealed. */
export function requireUnsealed(connection: SqliteConnection, path: string): void {
  const seal = readSeal(connection);
  if (seal === undefined) return;
  throw new IncompatibleStoreError(
    seal.isFinal
      ? `${path} is sealed: it was copied to the store ${seal.targetStoreId}, which goes on with its logs.`
      : `${path} is sealed: a copy to another store is under way, or was broken off. Run \`store copy\` again, or take ` +
          "the seal off with `store copy --abandon`.",
  );
}

/**
 * Seals the store, or renews the seal of an interrupted copy. Durable when it returns. Throws `IncompatibleStoreError`
 * if it was copied to another store that may be served.
 */
export function sealStore(connection: SqliteConnection, path: string, { targetStoreId, attempt }: SealOwner): void {
  inTransaction(connection, () => {
    const seal = readSeal(connection);
    if (seal?.isFinal === true && seal.targetStoreId !== targetStoreId) requireUnsealed(connection, path);
    connection.exec(
      `CREATE TABLE IF NOT EXISTS store_seal (
         singleton INTEGER PRIMARY KEY CHECK (singleton = 1),
         target_store_id TEXT NOT NULL,
         attempt TEXT NOT NULL,
         is_final INTEGER NOT NULL CHECK (is_final IN (0, 1))
       ) STRICT`,
    );
    connection
      .prepare(
        `INSERT INTO store_seal (singleton, target_store_id, attempt, is_final) VALUES (1, ?, ?, 0)
         ON CONFLICT DO UPDATE SET target_store_id = excluded.target_store_id, attempt = excluded.attempt`,
      )
      .run(targetStoreId, attempt);
    sealTables(connection);
  });
}

/**
 * Makes the seal final. Must be called before the other store may be served: a seal that is not final proves that it
 * never was. Throws `IncompatibleStoreError` if the seal was removed, or is another copy's now.
 */
export function finishSeal(connection: SqliteConnection, { targetStoreId, attempt }: SealOwner): void {
  inTransaction(connection, () => {
    const isThere = readSeal(connection) !== undefined;
    const finish = "UPDATE store_seal SET is_final = 1 WHERE target_store_id = ? AND attempt = ?";
    const changes = isThere ? connection.prepare(finish).run(targetStoreId, attempt).changes : 0;
    if (Number(changes) !== 1)
      throw new IncompatibleStoreError("The seal was taken off the source, or is another copy's now: this one ends.");
  });
}

/** Removes the seal. Throws `IncompatibleStoreError` if it is final. Returns false if there was none. */
export function unsealStore(connection: SqliteConnection, path: string): boolean {
  return inTransaction(connection, () => {
    const seal = readSeal(connection);
    if (seal === undefined) return false;
    if (seal.isFinal) requireUnsealed(connection, path);
    unsealTables(connection);
    connection.exec("DROP TABLE store_seal");
    return true;
  });
}

/** Makes the database refuse every write to its own tables, inside the caller's transaction. */
export function sealTables(connection: SqliteConnection): void {
  for (const table of tablesOf(connection))
    for (const verb of ["INSERT", "UPDATE", "DELETE"])
      connection.exec(
        `CREATE TRIGGER IF NOT EXISTS ${triggerOf(table, verb)} BEFORE ${verb} ON ${table}
           BEGIN SELECT RAISE(ABORT, '${message}'); END`,
      );
}

/** Reverts `sealTables`, inside the caller's transaction. */
export function unsealTables(connection: SqliteConnection): void {
  for (const table of tablesOf(connection))
    for (const verb of ["INSERT", "UPDATE", "DELETE"])
      connection.exec(`DROP TRIGGER IF EXISTS ${triggerOf(table, verb)}`);
}

const triggerOf = (table: string, verb: string) => `sealed_${table}_${verb.toLowerCase()}`;

function tablesOf(connection: SqliteConnection): readonly string[] {
  const rows = connection
    .prepare(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' AND name <> 'store_seal'",
    )
    .iterate();
  return [...rows].map(({ name }) => name as string);
}
