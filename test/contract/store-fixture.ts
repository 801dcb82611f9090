/** A store in a place of its own, for every suite: its ports as each kind opens them, and looks behind them. */
import { setImmediate } from "node:timers/promises";
import { onTestFinished } from "vitest";
import type { RandomFill, TenantId } from "../../src/base/ids.ts";
import type { AppendEvents } from "../../src/ledger/append/appender.ts";
import type { ServiceLedger } from "../../src/ledger/append/ledger.ts";
import type { AppenderLimits } from "../../src/ledger/append/limits.ts";
import { auditLog } from "../../src/ledger/audit/audit.ts";
import { companionChecks } from "../../src/ledger/audit/companions.ts";
import {
  formatVerifierKey,
  type NoteVerifier,
  parseVerifierKey,
  signingKeyOf,
} from "../../src/ledger/tlog/note-keys.ts";
import { type FileKey, readKeyFile, replaceKeyFile } from "../../src/stores/files/key-file.ts";
import type { OperatorArchive } from "../../src/stores/sql/archive.ts";
import type { Purpose, ServiceMachine, ServiceStores, StoreDatabase } from "../../src/stores/sql/backend.ts";
import type { Database, Transaction } from "../../src/stores/sql/queries.ts";
import {
  type AdministrationMachine,
  administer,
  type RecordsAdministration,
} from "../../src/stores/sql/records-administration.ts";
import { rebuildIndexes } from "../../src/stores/sql/search-indexer.ts";
import { settleOn } from "./settled-search.ts";

type Row = Record<string, unknown>;

export interface OpenOptions extends Pick<ServiceMachine, "clock" | "random" | "logger"> {
  readonly keyPath?: string;
  readonly originPrefix?: string;
  readonly limits?: Partial<AppenderLimits>;
  readonly events?: AppendEvents;
}

/** What differs from one kind of store to the other. */
export interface StoreDriver {
  readonly kind: "SQLite" | "PostgreSQL";
  readonly keyPath: string;
  /** Runs a statement on a connection of its own. */
  query(sql: string): Row[] | Promise<Row[]>;
  /** Bytes as a statement says them. */
  blob(hex: string): string;
  openStores(options: OpenOptions): Promise<ServiceStores>;
  archive(): Promise<OperatorArchive>;
  database(purpose?: Purpose): Promise<StoreDatabase>;
}

/** One row of a log as it is stored. */
export interface StoredRow {
  readonly leafIndex: number;
  readonly recordId: string;
  /** JSON text of the leaf. */
  readonly leaf: string;
}

export interface RebuildOptions {
  readonly random: RandomFill;
  /** Called before each query of its transactions, which goes on when it resolves. */
  readonly before?: (statement: string) => Promise<void>;
  /** Called between transactions. */
  readonly pause?: () => Promise<void>;
}

export type StoreFixture = StoreDriver & ReturnType<typeof looksBehind<StoreDriver>>;

export function fixtureOver<Driver extends StoreDriver>(driver: Driver) {
  return { ...driver, ...looksBehind(driver) };
}

function looksBehind<Driver extends StoreDriver>(driver: Driver) {
  const query = async (sql: string) => driver.query(sql);
  const isOf = (tenantId: string, recordId: string) => `WHERE tenant_id = '${tenantId}' AND record_id = '${recordId}'`;
  /** Flips a bit of a row's bytes, at a place that is counted from the end if it is below 0. */
  const flip = async (table: string, column: string, at: number, where: string) => {
    const [row] = await query(`SELECT ${column} AS bytes FROM ${table} ${where}`);
    const bytes = Buffer.from(row?.bytes as Uint8Array);
    const place = at < 0 ? bytes.length + at : at;
    bytes[place] = (bytes[place] ?? 0) ^ 1;
    await query(`UPDATE ${table} SET ${column} = ${driver.blob(bytes.toString("hex"))} ${where}`);
  };
  const reading = <Result>(look: (archive: OperatorArchive) => Promise<Result>) => closing(driver.archive(), look);
  /** Closes them when the test that runs has ended, if it has not. */
  const openStores = async (options: Parameters<Driver["openStores"]>[0]): Promise<ServiceStores> => {
    const stores = await driver.openStores(options);
    onTestFinished(() => stores.ledger.close());
    return stores;
  };
  const administration = async (machine: Pick<AdministrationMachine, "clock" | "random">) =>
    administer(await driver.database(), { pause: () => setImmediate(), ...machine });
  return {
    reading,
    openStores,
    administration,
    open: async (options: Parameters<Driver["openStores"]>[0]): Promise<ServiceLedger> =>
      (await openStores(options)).ledger,
    /** Rows of a tenant's log, by index. */
    async rows(tenantId: string): Promise<readonly StoredRow[]> {
      const columns = "leaf_index, record_id, leaf";
      const rows = await query(`SELECT ${columns} FROM entries WHERE tenant_id = '${tenantId}' ORDER BY leaf_index`);
      return rows.map(({ leaf_index, record_id, leaf }) => ({
        leafIndex: Number(leaf_index),
        recordId: record_id as string,
        leaf: Buffer.from(leaf as Uint8Array).toString("utf8"),
      }));
    },
    /** What verifies the checkpoints of a log. */
    async verifier(origin: string): Promise<NoteVerifier> {
      const [key] = readKeyFile(driver.keyPath) ?? [];
      const verifier = key && parseVerifierKey(formatVerifierKey(origin, key.publicKey));
      if (verifier === undefined) throw new Error("There is no key.");
      return verifier;
    },
    /** Deletes the opening of a record, as an erasure does. */
    async deleteOpening(tenantId: string, recordId: string): Promise<void> {
      await query(`DELETE FROM openings ${isOf(tenantId, recordId)}`);
    },
    /** Changes a stored record without its key. */
    damage: (tenantId: string, recordId: string) => flip("entries", "sealed", -1, isOf(tenantId, recordId)),
    /** Changes the hash of a log's first leaf in its tile. */
    damageTile: (tenantId: string) =>
      flip("tiles", "hashes", 0, `WHERE tenant_id = '${tenantId}' AND level = 0 AND tile_index = 0`),
    /** Changes records as a command does. */
    administering: <Result>(
      machine: Parameters<typeof administration>[0],
      work: (opened: RecordsAdministration) => Promise<Result>,
    ) => closing(administration(machine), work),
    /** Rebuilds the indexes of a tenant's log. */
    rebuild: (tenantId: TenantId, { random, before, pause = () => setImmediate() }: RebuildOptions) =>
      closing(driver.database(), (database) =>
        rebuildIndexes(waiting(database, before), tenantId, { random, pause, onProgress: () => {} }),
      ),
    /** Puts a new key before those of the key file, as `keys rotate` does. Returns its public part. */
    rotateKey(random: RandomFill, statement?: FileKey["statement"]): Uint8Array {
      const next = signingKeyOf(random(new Uint8Array(32)));
      replaceKeyFile(driver.keyPath, [{ ...next, statement }, ...(readKeyFile(driver.keyPath) ?? [])]);
      return next.publicKey;
    },
    /** Lets the search indexes have all leaves, if some wait for more. */
    settle: async () => settleOn(await driver.database()),
    /** Walks the tenant's log. */
    audit: (tenantId: string) =>
      reading(async (archive) => {
        const head = (await archive.logs()).find((log) => log.tenantId === tenantId);
        if (head === undefined) throw new Error("There is no log.");
        const { leaves, erased, problem } = await auditLog(archive, head);
        return { leaves, erased, problem };
      }),
    /** What an audit finds wrong with any log, with what stands beside it, and with rows that no log has. */
    problems: (nowMs: number) =>
      reading(async (archive): Promise<readonly string[]> => {
        const wrong = (await archive.orphanRows()).map(({ table, name }) => `${table} ${name}`);
        for (const head of await archive.logs()) {
          const checks = companionChecks(await archive.companions(head), head, nowMs);
          const { problem } = await auditLog(archive, head, { checks });
          const found = [...(problem === undefined ? [] : [problem]), ...checks.flatMap((check) => check.problems)];
          wrong.push(...found.map(({ message }) => message));
        }
        return wrong;
      }),
    /** Backs up openings, kept answers and search terms; what it resolves with puts them back. */
    async backUpOpenings(): Promise<() => Promise<void>> {
      const tables = ["openings", "kept_answers", "search_segments"];
      for (const table of tables) await query(`CREATE TABLE backup_${table} AS SELECT * FROM ${table}`);
      return async () => {
        const segments = "SELECT tenant_id, first_leaf FROM backup_search_segments";
        await query("DELETE FROM kept_answers");
        await query(`DELETE FROM search_segments WHERE (tenant_id, first_leaf) IN (${segments})`);
        for (const table of tables)
          await query(`INSERT INTO ${table} SELECT * FROM backup_${table} WHERE true ON CONFLICT DO NOTHING`);
      };
    },
  };
}

/** Works with what is opened for that alone. */
async function closing<Opened extends { close(): Promise<void> }, Result>(
  opening: Promise<Opened>,
  work: (opened: Opened) => Promise<Result>,
): Promise<Result> {
  const opened = await opening;
  return work(opened).finally(() => opened.close());
}

/** A database whose transactions wait before each of their queries. */
function waiting(database: StoreDatabase, before: RebuildOptions["before"] = async () => {}): Database {
  return {
    ...database,
    transact: (work, tenantId) =>
      database.transact((transaction) => {
        const query: Transaction["query"] = async (statement, values) => {
          await before(statement);
          return transaction.query(statement, values);
        };
        const [insert, each] = [transaction.insert.bind(transaction), transaction.each.bind(transaction)];
        return work({ query, insert, each });
      }, tenantId),
  };
}
