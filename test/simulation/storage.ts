/** Stores for the simulation: what a world of gateways and operators does with them. */
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import type { RecordId, TenantId } from "../../src/base/ids.ts";
import type { ServiceLedger } from "../../src/ledger/append/ledger.ts";
import type { AppenderLimits } from "../../src/ledger/append/limits.ts";
import { auditLog, rotationProblem } from "../../src/ledger/audit/audit.ts";
import { companionChecks, describeOrphans } from "../../src/ledger/audit/companions.ts";
import type { OpenSharedAnchor } from "../../src/ledger/ports/anchor.ts";
import type { StoredEntry } from "../../src/ledger/ports/archive.ts";
import type { TimedLog } from "../../src/ledger/ports/store.ts";
import { signingKeyOf } from "../../src/ledger/tlog/note-keys.ts";
import { readKeyFile, replaceKeyFile } from "../../src/stores/files/key-file.ts";
import { openPostgresArchive, openPostgresDatabase } from "../../src/stores/postgres/backend.ts";
import { openPostgresStores } from "../../src/stores/postgres/open-ledger.ts";
import type { OperatorArchive } from "../../src/stores/sql/archive.ts";
import { administer, type RecordsAdministration } from "../../src/stores/sql/records-administration.ts";
import { openSqliteArchive, openSqliteDatabase } from "../../src/stores/sqlite/backend.ts";
import { openSqliteStores } from "../../src/stores/sqlite/open-ledger.ts";
import { storeIn } from "../contract/ledger-records.ts";
import { Server } from "./database-server.ts";
import { type Machine, machine, type Process } from "./machine.ts";
import { installServer } from "./node-pg.ts";
import { disk } from "./node-sqlite.ts";
import type { Truth } from "./oracle.ts";

export interface OpenOptions {
  readonly openAnchor: OpenSharedAnchor | undefined;
  readonly limits: Partial<AppenderLimits>;
}

/** Whether a quorum of witnesses has cosigned so many leaves of a tenant's log. */
export type IsWitnessed = (tenantId: TenantId, size: number) => boolean;

interface Copy {
  /** Leaves by tenant. */
  readonly sizes: ReadonlyMap<unknown, unknown>;
  readonly file: Buffer;
  readonly log: Buffer;
}

const originPrefix = "ledger.example/logs";

/** Where all gateways of a world write: files that they share. What the store cannot do now, it says with `false`. */
export class SqliteStorage {
  protected readonly directory: string;
  protected readonly paths: ReturnType<typeof storeIn>;
  protected readonly machine: Machine;
  readonly #backups: Copy[] = [];
  readonly #openings = new Map<string, readonly [Uint8Array, Uint8Array | null]>();
  readonly #links: DatabaseSync[] = [];
  /** Whether a file notes all logs. */
  protected readonly hasAnchor: boolean = true;

  constructor(directory: string) {
    this.machine = machine();
    this.directory = directory;
    rmSync(directory, { recursive: true, force: true });
    mkdirSync(directory, { recursive: true });
    this.paths = storeIn(join(directory, "data"));
  }

  readonly keys = () => (readKeyFile(this.paths.keyPath) ?? []).map(({ publicKey }) => publicKey);

  open(process: Process, { openAnchor, limits }: OpenOptions): Promise<ServiceLedger> {
    const { random } = this.machine;
    const setup = { module: "", data: process.name };
    const options = { ...this.paths, originPrefix, clock: process.clock, random: random.fill, setup, openAnchor };
    return this.machine.as(
      process,
      async () => (await openSqliteStores({ ...options, limits, busyTimeoutMs: 0 })).ledger,
    );
  }

  truth(): Truth {
    const { path, anchorPath } = this.paths;
    const database = new DatabaseSync(path, { readOnly: true });
    this.#links.push(database);
    const anchor = this.hasAnchor ? new DatabaseSync(anchorPath, { readOnly: true }) : undefined;
    if (anchor !== undefined) this.#links.push(anchor);
    const version = database.prepare("PRAGMA data_version");
    const heads = database.prepare(
      `SELECT tenant_id AS tenantId, origin, size, root, last_recorded_at_ms AS lastRecordedAtMs FROM log_heads
        ORDER BY tenant_id`,
    );
    const entries = database.prepare(
      `SELECT leaf_index AS leafIndex, record_id AS recordId, leaf, sealed, opening
         FROM entries LEFT JOIN openings USING (tenant_id, record_id)
        WHERE tenant_id = ? AND leaf_index >= ? ORDER BY leaf_index`,
    );
    const opening = database.prepare("SELECT opening FROM openings WHERE tenant_id = ? AND record_id = ?");
    const answer = database.prepare("SELECT sealed FROM kept_answers WHERE tenant_id = ? AND leaf_index = ?");
    const newestKey = database.prepare("SELECT public_key FROM signing_keys ORDER BY position DESC LIMIT 1");
    const anchored = anchor?.prepare("SELECT size FROM anchored_logs WHERE tenant_id = ?");
    return {
      version: () => version.get()?.data_version as number,
      heads: () => heads.all() as unknown as TimedLog[],
      entries: (tenantId, first) =>
        entries.all(tenantId, first).map((row) => ({ ...row, opening: row.opening ?? undefined }) as StoredEntry),
      remains: (tenantId, recordId, leafIndex) => {
        const found = opening.get(tenantId, recordId)?.opening as Uint8Array | undefined;
        const kept = (answer.get(tenantId, leafIndex)?.sealed ?? null) as Uint8Array | null;
        if (found !== undefined) this.#openings.set(`${tenantId} ${recordId}`, [found, kept]);
        return [...(found === undefined ? [] : ["opening"]), ...(kept === null ? [] : ["kept answer"])];
      },
      newestKey: () => this.newestKey(newestKey.get()?.public_key as Uint8Array),
      anchored: (tenantId) => anchored && ((anchored.get(tenantId)?.size as number | undefined) ?? 0),
    };
  }

  /** The key that all logs were handed over to with the first start that knew it. */
  protected newestKey(publicKey: Uint8Array): Uint8Array | undefined {
    return publicKey;
  }

  async administration(process: Process): Promise<RecordsAdministration> {
    const pause = () => new Promise<void>((resolve) => void this.machine.after(1, "pause", resolve));
    const options = { clock: process.clock, random: this.machine.random.fill, pause };
    return this.machine.as(process, async () => administer(openSqliteDatabase(this.paths), options));
  }

  protected async archive(): Promise<OperatorArchive> {
    return openSqliteArchive(this.paths);
  }

  /** All that is wrong with the logs and what stands beside them, but for those of one tenant. */
  async audit(nowMs: number, sick: TenantId | undefined): Promise<readonly string[]> {
    const archive = await this.archive();
    try {
      const problems = (await archive.anchorProblems()).map(({ message }) => message);
      problems.push(...describeOrphans(await archive.orphanRows()));
      for (const head of await archive.logs()) {
        if (head.tenantId === sick) continue;
        const checks = companionChecks(await archive.companions(head), head, nowMs);
        const { problem, ...audit } = await auditLog(archive, head, { checks });
        const found = [
          problem,
          rotationProblem(audit, await archive.keysOfLog(head)),
          ...checks.flatMap((check) => check.problems),
        ];
        problems.push(...found.flatMap((one) => (one === undefined ? [] : [`${head.tenantId}: ${one.message}`])));
      }
      return problems;
    } finally {
      await archive.close();
    }
  }

  /** Puts a new key before those of the key file. */
  rotate(): void {
    const { keyPath } = this.paths;
    const keys = readKeyFile(keyPath);
    if (keys === undefined) return;
    const next = signingKeyOf(this.machine.random.fill(new Uint8Array(32)));
    replaceKeyFile(keyPath, [{ ...next, statement: { operator: "operator", reason: "planned" } }, ...keys]);
  }

  /** Keeps a copy of the store as it is. */
  backUp(): void {
    const { path } = this.paths;
    if (existsSync(path))
      this.#backups.push({
        sizes: sizesIn(path, "log_heads"),
        file: readFileSync(path),
        log: readOrEmpty(`${path}-wal`),
      });
    if (this.#backups.length > 4) this.#backups.splice(this.machine.random.below(4), 1);
  }

  /** Puts an older copy in the store's place; with `isOpen` files while it is used. The newest is kept. */
  replace(isOpen: boolean, _tenants: readonly TenantId[], _isWitnessed: IsWitnessed): boolean {
    const { path, anchorPath } = this.paths;
    if (this.#backups.length === 0) return false;
    const { sizes, file, log } = this.machine.random.pick(this.#backups);
    // A copy with all that was anchored is no older one: a gateway may go on with it.
    const anchored = [...sizesIn(anchorPath, "anchored_logs")];
    if (!anchored.some(([tenantId, size]) => (size as number) > ((sizes.get(tenantId) ?? 0) as number))) return false;
    if (!isOpen) this.unlink();
    for (const suffix of ["", "-wal", "-shm"])
      if (existsSync(path + suffix)) renameSync(path + suffix, `${path}.newest${suffix}`);
    writeFileSync(path, file);
    writeFileSync(`${path}-wal`, log);
    return true;
  }

  /** Puts the newest back. */
  restore(): void {
    const { path } = this.paths;
    for (const suffix of ["", "-wal", "-shm"]) {
      rmSync(path + suffix, { force: true });
      if (existsSync(`${path}.newest${suffix}`)) renameSync(`${path}.newest${suffix}`, path + suffix);
    }
    // Gateways went on in it while the copy had its name, and synced what they committed.
    disk.sync(path);
  }

  /** Puts back what erasing this record removed, as a backup does. */
  bringBack(tenantId: TenantId, recordId: RecordId, leafIndex: number): boolean {
    const [opening, answer] = this.#openings.get(`${tenantId} ${recordId}`) ?? [];
    if (opening === undefined) return false;
    const database = new DatabaseSync(this.paths.path, { timeout: 0 });
    try {
      database.exec("PRAGMA synchronous = FULL");
      database
        .prepare("INSERT INTO openings (tenant_id, record_id, opening) VALUES (?, ?, ?)")
        .run(tenantId, recordId, opening);
      if (answer !== null && answer !== undefined)
        database
          .prepare("UPDATE kept_answers SET sealed = ? WHERE tenant_id = ? AND leaf_index = ?")
          .run(answer, tenantId, leafIndex);
      return true;
    } finally {
      database.close();
    }
  }

  /** Damages what appending to a tenant's log needs. */
  damage(tenantId: TenantId): boolean {
    const database = new DatabaseSync(this.paths.path, { timeout: 0 });
    try {
      const damage = "UPDATE tiles SET hashes = zeroblob(length(hashes)) WHERE tenant_id = ?";
      return Number(database.prepare(damage).run(tenantId).changes) > 0;
    } finally {
      database.close();
    }
  }

  losePower(): boolean {
    if (!disk.isWatched) return false;
    this.unlink();
    disk.losePower();
    return true;
  }

  protected unlink(): void {
    for (const link of this.#links.splice(0)) link.close();
  }

  close(): void {
    this.unlink();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** The gateways share a database, and its file of anchors if there is one. */
export class PostgresStorage extends SqliteStorage {
  readonly #server: Server;
  readonly #copies: { readonly path: string; readonly sizes: ReadonlyMap<unknown, unknown> }[] = [];
  protected override readonly hasAnchor: boolean;

  constructor(directory: string, isWitnessed: boolean) {
    super(directory);
    this.hasAnchor = !isWitnessed || this.machine.random.chance(0.5);
    mkdirSync(join(directory, "data"));
    this.#server = new Server(this.paths.path);
    installServer(this.#server);
  }

  override async open(process: Process, { openAnchor, limits }: OpenOptions): Promise<ServiceLedger> {
    const { random } = this.machine;
    const options = {
      ...this.#place(process),
      originPrefix,
      clock: process.clock,
      random: random.fill,
      openAnchor,
      limits,
    };
    const poolSize = 2 + random.below(4);
    const keyPath = this.paths.keyPath;
    return (await this.machine.as(process, () => openPostgresStores({ ...options, keyPath, poolSize }))).ledger;
  }

  override administration(process: Process): Promise<RecordsAdministration> {
    const options = { clock: process.clock, random: this.machine.random.fill, pause: async () => {} };
    const place = this.#place(process);
    return this.machine.as(process, async () => administer(await openPostgresDatabase(place), options));
  }

  protected override archive(): Promise<OperatorArchive> {
    return openPostgresArchive(this.#place());
  }

  /** None while the server is away. */
  override async audit(nowMs: number, sick: TenantId | undefined): Promise<readonly string[]> {
    const { starts } = this.#server;
    try {
      return await super.audit(nowMs, sick);
    } catch (error) {
      if (this.#server.starts !== starts || this.#server.isDown) return [];
      throw error;
    }
  }

  /** The name of the database says whose connections these are. */
  #place(process?: Process) {
    const database = process?.name ?? "operator";
    const target = { host: "database.example", port: 5432, database, user: "svc", password: "", tls: undefined };
    return { target, anchorPath: this.hasAnchor ? this.paths.anchorPath : undefined };
  }

  /** Each log is handed over in its own transaction, beside gateways that serve. */
  protected override newestKey(): undefined {}

  override backUp(): void {
    const path = join(this.directory, `copy-${this.machine.steps}`);
    this.#server.save(path);
    this.#copies.push({ path, sizes: sizesIn(path, "log_heads") });
    if (this.#copies.length > 4) this.#copies.splice(this.machine.random.below(4), 1);
  }

  override replace(isOpen: boolean, tenants: readonly TenantId[], isWitnessed: IsWitnessed): boolean {
    if (isOpen || this.#copies.length === 0) return false;
    const { path, sizes } = this.machine.random.pick(this.#copies);
    const anchored = this.hasAnchor ? sizesIn(this.paths.anchorPath, "anchored_logs") : new Map<unknown, unknown>();
    const sizeOf = (tenantId: TenantId) => (sizes.get(tenantId) ?? 0) as number;
    const isAhead = [...anchored].some(([tenantId, size]) => (size as number) > sizeOf(tenantId as TenantId));
    const isKnown = !this.hasAnchor && tenants.every((tenantId) => isWitnessed(tenantId, sizeOf(tenantId) + 1));
    if (!isAhead && !isKnown) return false;
    this.#server.restart(false);
    this.#server.save(this.#newest);
    this.#server.load(path);
    return true;
  }

  get #newest(): string {
    return join(this.directory, "newest");
  }

  override restore(): void {
    this.#server.restart(false);
    this.#server.load(this.#newest);
  }

  override bringBack(...record: Parameters<SqliteStorage["bringBack"]>): boolean {
    return this.#server.isFree && this.#onServer(() => super.bringBack(...record));
  }

  override damage(tenantId: TenantId): boolean {
    return this.#server.isFree && this.#onServer(() => super.damage(tenantId));
  }

  #onServer(work: () => boolean): boolean {
    const isDone = work();
    disk.forget(this.paths.path);
    return isDone;
  }

  override losePower(): boolean {
    this.#server.restart(false);
    return super.losePower();
  }

  override close(): void {
    this.#server.close();
    super.close();
  }
}

function readOrEmpty(path: string): Buffer {
  return existsSync(path) ? readFileSync(path) : Buffer.alloc(0);
}

function sizesIn(path: string, table: "log_heads" | "anchored_logs"): ReadonlyMap<unknown, unknown> {
  const database = new DatabaseSync(path, { readOnly: true, timeout: 0 });
  try {
    // A gateway that fails as it starts may leave a file without tables.
    if (database.prepare("SELECT 1 FROM sqlite_schema WHERE name = ?").get(table) === undefined) return new Map();
    const rows = database.prepare(`SELECT tenant_id, size FROM ${table}`).all();
    return new Map(rows.map(({ tenant_id, size }) => [tenant_id, size]));
  } finally {
    database.close();
  }
}
