/** How the service connects to PostgreSQL: every setting that durability and safety depend on, in one place. */

import { type ClientBase, type ClientConfig, types } from "pg";
import type { PostgresTarget, PostgresTls } from "../../../base/postgres-url.ts";
import { readRegularFile } from "../../../files/file-system.ts";
import { DamagedError, IncompatibleStoreError } from "../../files/errors.ts";

export interface ConnectionSettings {
  readonly target: PostgresTarget;
  /** File of the password, read at each connect so that it can be changed under a running service. */
  readonly passwordFile?: string | undefined;
}

/**
 * Options of a connection. The client's timeout is a little longer than the server's, so it ends only if the server
 * does not answer.
 *
 * @param timeoutMs bound of a connect, of a statement and of the wait for a lock; 0 for none
 */
export function clientOptions({ target, passwordFile }: ConnectionSettings, timeoutMs: number): ClientConfig {
  const { host, port, database, user, tls } = target;
  return {
    host,
    port,
    database,
    user,
    password: () =>
      passwordFile === undefined ? (target.password ?? "") : readRegularFile(passwordFile).replace(/\r?\n$/, ""),
    ssl: tls === undefined ? false : tlsOptions(tls),
    application_name: "svc-platform-api",
    keepAlive: true,
    connectionTimeoutMillis: timeoutMs === 0 ? 10_000 : timeoutMs,
    types: { getTypeParser: typeParser },
    pipeline: true,
    ...(timeoutMs > 0 && {
      statement_timeout: timeoutMs,
      lock_timeout: timeoutMs,
      idle_in_transaction_session_timeout: timeoutMs,
      query_timeout: timeoutMs + 2_000,
    }),
  };
}

/**
 * Prepares a new connection, and refuses a server that may lose commits. Tables are looked up in the schemas that role
 * or database name, else in `public`, never in a schema named like the role: an attacker who can create that schema
 * could put tables before ours. A commit waits for the disk and for synchronous standbys, whatever role or database
 * say, and longer if they ask for more. Notices must arrive: one of them says that the wait was cancelled.
 */
const prepare = String.raw`
  SELECT set_config('synchronous_commit',
           CASE current_setting('synchronous_commit') WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false),
         set_config('client_min_messages', 'notice', false),
         set_config('bytea_output', 'hex', false),
         set_config('search_path', coalesce(nullif(btrim(regexp_replace(
           current_setting('search_path'), '(^|,)\s*"\$user"\s*(?=,|$)', '', 'g'), ', '), ''), 'public'), false),
         current_setting('fsync') AS fsync,
         current_setting('full_page_writes') AS full_page_writes,
         pg_is_in_recovery() AS is_standby`;

/**
 * Must be called on every new connection. Rejects with `IncompatibleStoreError` for a server whose settings are not
 * durable, with an error for a standby, which is read-only.
 */
export async function prepareConnection(client: ClientBase): Promise<void> {
  const [row] = (await client.query(prepare)).rows;
  for (const name of ["fsync", "full_page_writes"] as const)
    if (row[name] !== "on")
      throw new IncompatibleStoreError(`The database has ${name} off: a crash would lose what it has committed.`);
  if (row.is_standby) throw new Error("The database is a standby.");
}

/**
 * Must be called on a connection that serves calls, whose statements find few rows by their keys. The server's planner
 * may not know that they are few: while a table grows fast, and before its first `ANALYZE`, a join that reads all rows
 * of a tenant looks cheaper to it, and takes as long as the log is.
 */
export async function planByKeys(client: ClientBase): Promise<void> {
  await client.query(`
    SELECT set_config('enable_hashjoin', 'off', false), set_config('enable_mergejoin', 'off', false),
           set_config('enable_material', 'off', false), set_config('max_parallel_workers_per_gather', '0', false),
           set_config('jit', 'off', false)`);
}

function tlsOptions({ rootCertificate, certificate, key }: PostgresTls) {
  return {
    rejectUnauthorized: true,
    minVersion: "TLSv1.2" as const,
    ...(rootCertificate !== undefined && { ca: readRegularFile(rootCertificate) }),
    ...(certificate !== undefined && { cert: readRegularFile(certificate) }),
    ...(key !== undefined && { key: readRegularFile(key) }),
  };
}

const int8 = types.builtins.INT8;

/** The driver returns 64-bit integers as text, since numbers cannot hold them all; ours fit. */
const typeParser: typeof types.getTypeParser = (oid: number, format?: "text" | "binary") =>
  // biome-ignore lint/suspicious/noExplicitAny: the parsers' types differ by format; ours takes text, the default.
  oid === int8 && format !== "binary" ? parseInteger : (types.getTypeParser(oid, format as any) as any);

function parseInteger(text: string): number {
  const value = Number(text);
  if (!/^-?(0|[1-9]\d{0,15})$/.test(text) || !Number.isSafeInteger(value))
    throw new DamagedError("The database holds a number beyond 2^53.");
  return value;
}
