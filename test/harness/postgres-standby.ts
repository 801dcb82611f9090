/** A standby of a real PostgreSQL, which follows its primary by streaming replication. */
import {
  chownSync,
  copyFileSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client } from "pg";
import { type PostgresServer, startPostgres } from "./postgres.ts";

/**
 * Starts a standby from a base backup of a running primary, whose `wal_keep_size` covers what is written meanwhile.
 *
 * @param name what it is called in the primary's `synchronous_standby_names`
 * @param primaryPort port of loopback that it reaches the primary at
 */
export async function startStandby(
  primary: PostgresServer,
  { name, primaryPort }: { readonly name: string; readonly primaryPort: number },
): Promise<PostgresServer> {
  const dataDirectory = await baseBackup(primary, "standby.signal");
  return startPostgres({
    dataDirectory,
    settings: {
      primary_conninfo: `host=127.0.0.1 port=${primaryPort} user=postgres application_name=${name}`,
      wal_retrieve_retry_interval: "100ms",
    },
  });
}

/**
 * Copies a data directory as PostgreSQL's documentation says under "Making a Base Backup Using the Low Level API": the
 * package of the binaries has no `pg_basebackup`. Resolves with the path of the copy, which starts as a standby,
 * or recovers from an archive (`restore_command`) and goes on by itself.
 */
export async function baseBackup(
  primary: PostgresServer,
  signal: "standby.signal" | "recovery.signal",
): Promise<string> {
  const copy = mkdtempSync(join(tmpdir(), "postgres-standby-"));
  const client = new Client({ connectionString: primary.url });
  try {
    await client.connect();
    await client.query("SELECT pg_backup_start('standby', fast => true)");
    const { uid, gid } = lstatSync(primary.dataDirectory);
    const written = copyFolder(primary.dataDirectory, copy);
    const { labelfile } = (await client.query("SELECT labelfile FROM pg_backup_stop()")).rows[0];
    writeFileSync(join(copy, "backup_label"), labelfile);
    writeFileSync(join(copy, signal), "");
    for (const path of [copy, ...written, join(copy, "backup_label"), join(copy, signal)]) chownSync(path, uid, gid);
    return copy;
  } catch (error) {
    rmSync(copy, { recursive: true, force: true });
    throw error;
  } finally {
    await client.end();
  }
}

/** What belongs to the running server, or is streamed from it. */
const notCopied = new Set(["postmaster.pid", "postmaster.opts"]);
const emptied = new Set("pg_wal pg_replslot pg_dynshmem pg_notify pg_serial pg_snapshots pg_subtrans".split(" "));

/** Copies files and folders; returns the paths of the copies. Files may go while they are copied: nothing needs those. */
function copyFolder(from: string, to: string): string[] {
  return readdirSync(from, { withFileTypes: true }).flatMap((entry) => {
    if (notCopied.has(entry.name)) return [];
    const [source, path] = [join(from, entry.name), join(to, entry.name)];
    if (entry.isDirectory()) {
      mkdirSync(path, { mode: 0o700 });
      return [path, ...(emptied.has(entry.name) ? [] : copyFolder(source, path))];
    }
    return copyIfThere(source, path) ? [path] : [];
  });
}

function copyIfThere(source: string, path: string): boolean {
  try {
    copyFileSync(source, path);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === "ENOENT") return false;
    throw error;
  }
}
