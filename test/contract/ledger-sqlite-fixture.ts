/** SQLite files in a directory of their own, for the ledger's contract. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { auditLog } from "../../src/ledger/audit/audit.ts";
import { formatVerifierKey, parseVerifierKey } from "../../src/ledger/tlog/note-keys.ts";
import { readKeyFile } from "../../src/stores/files/key-file.ts";
import { openSqliteLedger, type SqliteLedgerOptions } from "../../src/stores/sqlite/open-ledger.ts";
import { openSqliteArchive } from "../../src/stores/sqlite/operators.ts";
import type { StorePaths } from "../../src/stores/sqlite/paths.ts";
import { storeIn } from "./ledger-records.ts";
import type { LedgerFixture } from "./ledger-suite.ts";

export interface SqliteFixture extends LedgerFixture {
  readonly path: string;
  readonly store: StorePaths;
  open(
    options: Pick<SqliteLedgerOptions, "clock" | "random"> & Partial<SqliteLedgerOptions>,
  ): ReturnType<typeof openSqliteLedger>;
  /** Audits every log, and throws where anything is wrong. */
  verify(): Promise<void>;
  /** Runs a query on a connection of its own. */
  query(sql: string, ...parameters: string[]): Record<string, unknown>[];
}

export function sqliteFixture(): SqliteFixture {
  const directory = mkdtempSync(join(tmpdir(), "ledger-"));
  const store = storeIn(join(directory, "data"));
  const { path } = store;
  const query: SqliteFixture["query"] = (sql, ...parameters) => {
    const database = new DatabaseSync(path, { timeout: 5_000 });
    try {
      return database.prepare(sql).all(...parameters);
    } finally {
      database.close();
    }
  };
  return {
    path,
    store,
    query,
    open: (options) => openSqliteLedger({ ...store, originPrefix: "ledger.example/logs", ...options }),
    async verify() {
      const archive = openSqliteArchive(store);
      try {
        for (const head of await archive.logs()) {
          const { problem } = await auditLog(archive, head);
          if (problem !== undefined) throw new Error(`${head.tenantId}: ${problem.message}`);
        }
      } finally {
        await archive.close();
      }
    },
    async rows(tenantId) {
      const rows = query(
        "SELECT leaf_index, record_id, leaf FROM entries WHERE tenant_id = ? ORDER BY leaf_index",
        tenantId,
      );
      return rows.map((row) => ({
        leafIndex: row.leaf_index as number,
        recordId: row.record_id as string,
        leaf: Buffer.from(row.leaf as Uint8Array).toString("utf8"),
      }));
    },
    async verifier(origin) {
      const [key] = readKeyFile(store.keyPath) ?? [];
      const verifier = key && parseVerifierKey(formatVerifierKey(origin, key.publicKey));
      if (verifier === undefined) throw new Error("There is no key.");
      return verifier;
    },
    async deleteOpening(tenantId, recordId) {
      query("DELETE FROM openings WHERE tenant_id = ? AND record_id = ?", tenantId, recordId);
    },
    async damage(tenantId, recordId) {
      const row = "WHERE tenant_id = ? AND record_id = ?";
      const [stored] = query(`SELECT sealed FROM entries ${row}`, tenantId, recordId);
      const sealed = Buffer.from(stored?.sealed as Uint8Array);
      sealed[sealed.length - 1] = (sealed.at(-1) ?? 0) ^ 1;
      query(`UPDATE entries SET sealed = unhex('${sealed.toString("hex")}') ${row}`, tenantId, recordId);
    },
    async damageTile(tenantId) {
      const hashes = "CAST(zeroblob(32) || substr(hashes, 33) AS BLOB)";
      query(`UPDATE tiles SET hashes = ${hashes} WHERE tenant_id = ? AND level = 0 AND tile_index = 0`, tenantId);
    },
    async remove() {
      rmSync(directory, { recursive: true, force: true });
    },
  };
}
