/** Every store that a deployment may have, for tests that must hold on each of them. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { migratePostgres } from "../../src/stores/postgres/schema.ts";
import { targetOf } from "../contract/ledger-postgres-fixture.ts";
import { seededRandom } from "../contract/ledger-records.ts";
import { sharedPostgres } from "./shared-postgres.ts";

/** An empty store that gateways of one deployment share. */
export interface TestStore {
  /** Settings that name the store, its anchor and its key. */
  readonly settings: Readonly<Record<"SVC_STORE" | "SVC_LEDGER_KEY" | "SVC_ANCHOR", string>>;
  /** Folder of whatever else belongs to the deployment; it goes with the store. */
  readonly folder: string;
  /** Names of its tables. */
  tables(): Promise<readonly string[]>;
  /** Runs a statement that every kind of store understands, on a connection of its own. */
  execute(sql: string): Promise<void>;
  stop(): Promise<void>;
}

type StoreOfTests = readonly [name: string, start: () => Promise<TestStore>];

export const testStores: readonly [StoreOfTests, StoreOfTests] = [
  ["SQLite", startSqliteStore],
  ["PostgreSQL", startPostgresStore],
];

async function startSqliteStore(): Promise<TestStore> {
  const folder = newFolder();
  const path = join(folder, "platform.db");
  return {
    folder,
    settings: { ...filesIn(folder), SVC_STORE: `sqlite:${path}` },
    async tables() {
      const database = new DatabaseSync(path, { readOnly: true });
      const rows = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all();
      database.close();
      return rows.map(({ name }) => name as string).filter((name) => !name.startsWith("sqlite_"));
    },
    async execute(sql) {
      const database = new DatabaseSync(path, { timeout: 5_000 });
      database.exec(sql);
      database.close();
    },
    stop: async () => rmSync(folder, { recursive: true, force: true }),
  };
}

async function startPostgresStore(): Promise<TestStore> {
  const server = await sharedPostgres();
  const folder = newFolder();
  const url = await server.createDatabase();
  await migratePostgres({ target: targetOf(url), random: seededRandom(url) });
  return {
    folder,
    settings: { ...filesIn(folder), SVC_STORE: url },
    async tables() {
      const system = "'pg_catalog', 'information_schema'";
      const rows = await server.query(`SELECT tablename FROM pg_tables WHERE schemaname NOT IN (${system})`, url);
      return rows.map(({ tablename }) => tablename as string);
    },
    async execute(sql) {
      await server.query(sql, url);
    },
    async stop() {
      await server.stop();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

const newFolder = () => mkdtempSync(join(tmpdir(), "svc-store-"));

const filesIn = (folder: string) => ({
  SVC_LEDGER_KEY: join(folder, "ledger.key"),
  SVC_ANCHOR: join(folder, "anchor"),
});
