/**
 * A store that is a variable, with every outcome that a database over a network has: a write is rolled back, left to
 * another, lost, late, done twice, or committed without a reply; and an older replica takes over.
 */
import { ServiceError } from "../../src/base/errors.ts";
import type { RecordId, TenantId } from "../../src/base/ids.ts";
import { planBatch } from "../../src/ledger/append/batch-plan.ts";
import { EdgeCache, edgeOf } from "../../src/ledger/append/edge-cache.ts";
import { ledgerOver, type ServiceLedger } from "../../src/ledger/append/ledger.ts";
import { defaultAppenderLimits } from "../../src/ledger/append/limits.ts";
import { seedBytes, sequence } from "../../src/ledger/append/sequence.ts";
import { auditLog } from "../../src/ledger/audit/audit.ts";
import type { IdempotencyRow, StoredEntry } from "../../src/ledger/ports/archive.ts";
import {
  type BatchFailure,
  type BatchOutcome,
  type BatchResult,
  type LedgerStore,
  type LogState,
  type StoredCosignature,
  type TenantBatch,
  type TimedLog,
  UnstorableError,
} from "../../src/ledger/ports/store.ts";
import { committedRecords } from "../../src/ledger/record/committed-record.ts";
import { idempotentResult, sealIdempotencyRecord } from "../../src/ledger/record/idempotency-record.ts";
import { parseLeaf } from "../../src/ledger/record/leaf.ts";
import { open } from "../../src/ledger/record/sealing.ts";
import { logNameOf } from "../../src/ledger/tlog/log-name.ts";
import { signingKeyOf } from "../../src/ledger/tlog/note-keys.ts";
import { RightEdge } from "../../src/ledger/tlog/right-edge.ts";
import { LogSigner } from "../../src/ledger/tlog/signer.ts";
import { nodesOfTiles } from "../../src/ledger/tlog/tile-nodes.ts";
import { Tree } from "../../src/ledger/tlog/tree.ts";
import { type Machine, machine, type Process } from "./machine.ts";
import type { Truth } from "./oracle.ts";
import type { IsWitnessed, OpenOptions, Storage } from "./storage.ts";

/** A committed log. Never changed: a commit puts another in its place. */
interface Log {
  readonly head: TimedLog;
  readonly entries: readonly StoredEntry[];
  readonly tiles: ReadonlyMap<string, Uint8Array>;
  readonly kept: ReadonlyMap<string, IdempotencyRow>;
}
type Logs = ReadonlyMap<TenantId, Log>;

function unavailable(): ServiceError {
  return new ServiceError("store_unavailable", "The record store is not available.", { retryAfterSeconds: 1 });
}

export class ModelStorage implements Storage {
  readonly #key;
  readonly machine: Machine = machine();
  logs: Logs = new Map();
  /** What was begun before the latest cannot be committed after it. */
  replacements = 0;
  version = 0;
  #newest: Logs | undefined;
  readonly #backups: Logs[] = [];
  readonly #isWitnessed: boolean;

  /** @param isWitnessed whether answers wait for witnesses: without, nothing finds out an older replica */
  constructor(isWitnessed: boolean) {
    this.#isWitnessed = isWitnessed;
    this.#key = signingKeyOf(this.machine.random.fill(new Uint8Array(32)));
  }

  readonly keys = () => [this.#key.publicKey];

  async open(process: Process, { openAnchor, limits }: OpenOptions): Promise<ServiceLedger> {
    const store = new ModelStore(this, process, this.#key.publicKey);
    const signer = new LogSigner([this.#key]);
    const anchor = await openAnchor?.(store, signer);
    const waits = { maxWritesInFlight: 2, slowWriteMs: 300, maxWaitMs: 5_000 };
    return ledgerOver(store, signer, { limits: { ...defaultAppenderLimits, ...waits, ...limits }, anchor });
  }

  truth(): Truth {
    return {
      version: () => this.version,
      heads: () => [...this.logs.values()].map(({ head }) => head),
      entries: (tenantId, first) => this.logs.get(tenantId)?.entries.slice(first) ?? [],
      remains: () => ["opening"],
      newestKey: () => this.#key.publicKey,
      anchored: () => undefined,
    };
  }

  async administration(): Promise<undefined> {}
  rotate(): void {}
  bringBack = () => false;
  damage = () => false;
  losePower = () => false;
  close(): void {}

  async audit(_: number, sick: TenantId | undefined): Promise<readonly string[]> {
    const problems: string[] = [];
    for (const { head, entries, tiles } of this.logs.values()) {
      async function* all() {
        yield* entries;
      }
      const storedTile = async (_: LogState, level: number, index: number) => tiles.get(`${level}/${index}`);
      const { problem } = await auditLog({ entries: all, storedTile }, head);
      if (problem !== undefined && head.tenantId !== sick) problems.push(`${head.tenantId}: ${problem.message}`);
    }
    return problems;
  }

  backUp(): void {
    this.#backups.push(this.logs);
  }

  /** A gateway refuses a log only if witnesses know more of it: the copy must be older in every log. */
  replace(isOpen: boolean, tenants: readonly TenantId[], isWitnessed: IsWitnessed): boolean {
    const older = this.#backups.filter((logs) =>
      tenants.every((tenantId) => isWitnessed(tenantId, (logs.get(tenantId)?.head.size ?? Infinity) + 1)),
    );
    if (isOpen || !this.#isWitnessed || older.length === 0) return false;
    this.#newest = this.logs;
    this.replacements += 1;
    this.commit(this.machine.random.pick(older));
    return true;
  }

  restore(): void {
    this.replacements += 1;
    if (this.#newest !== undefined) this.commit(this.#newest);
  }

  commit(logs: Logs): void {
    this.logs = logs;
    this.version += 1;
  }
}

/** What one gateway's connections do. */
class ModelStore implements LedgerStore {
  readonly #storage: ModelStorage;
  readonly #process: Process;
  readonly #publicKey: Uint8Array;
  readonly #edges = new EdgeCache();
  readonly #cosignatures: StoredCosignature[] = [];

  constructor(storage: ModelStorage, process: Process, publicKey: Uint8Array) {
    this.#storage = storage;
    this.#process = process;
    this.#publicKey = publicKey;
  }

  /** Does something after the time that it takes; never where the process is dead by then. */
  #later<Result>(name: string, work: () => Result, typicalMs = 2): Promise<Result> {
    const { machine } = this.#storage;
    return new Promise((resolve, reject) => {
      machine.after(machine.latencyMs(typicalMs), name, () => {
        if (!this.#process.isAlive) return;
        try {
          resolve(machine.as(this.#process, work));
        } catch (error) {
          reject(error);
        }
      });
    });
  }

  async write(batches: readonly TenantBatch[]): Promise<readonly BatchOutcome[]> {
    const { machine } = this.#storage;
    const { random } = machine;
    const trouble = this.#process.hasFaults && machine.diskFaults > 0 && random.chance(0.15);
    const fault = trouble ? random.pick(["rolled back", "no reply", "late", "twice", "left"] as const) : undefined;
    if (fault === "left")
      return this.#later("left", () => batches.map((batch) => ({ later: this.#writeLater(batch) })));
    if (fault === "late") {
      const { replacements } = this.#storage;
      // Its reply will be lost; it may be committed long after it was given up.
      machine.after(random.below(8_000), "late commit", () => {
        if (replacements === this.#storage.replacements && machine.processes.size > 0)
          this.#attempt(() => this.#transact(batches).commit());
      });
      return this.#later("given up", () => batches.map(() => ({ error: unavailable() })), 500);
    }
    return this.#later("write", () => {
      const { outcomes, commit } = this.#transact(batches);
      if (fault === "rolled back") throw unavailable();
      commit();
      if (fault === "no reply") throw unavailable();
      // The server has done it, and gets it again.
      if (fault === "twice") this.#attempt(() => this.#transact(batches).commit());
      return outcomes;
    });
  }

  async #writeLater(batch: TenantBatch): Promise<BatchResult | BatchFailure> {
    const work = () => {
      const { outcomes, commit } = this.#transact([batch]);
      commit();
      return outcomes[0] as BatchResult | BatchFailure;
    };
    return this.#later("write later", work, 400).catch((error: unknown) => ({ error }));
  }

  #attempt(work: () => void): void {
    try {
      work();
    } catch (error) {
      if (!(error instanceof UnstorableError)) throw error;
    }
  }

  /** All of it, or nothing; the edges are kept once it is committed. */
  #transact(batches: readonly TenantBatch[]) {
    const logs = new Map(this.#storage.logs);
    const edges: (readonly [LogState, RightEdge])[] = [];
    const outcomes = batches.map((batch): BatchOutcome => {
      try {
        return this.#append(batch, logs, edges);
      } catch (error) {
        if (!(error instanceof UnstorableError)) throw error;
        return { error };
      }
    });
    const commit = () => {
      this.#storage.commit(logs);
      for (const [log, edge] of edges) this.#edges.put(log.tenantId, edge, log.root);
    };
    return { outcomes, commit };
  }

  #append(
    { tenantId, records }: TenantBatch,
    logs: Map<TenantId, Log>,
    edges: (readonly [LogState, RightEdge])[],
  ): BatchResult {
    const log = logs.get(tenantId);
    const tileOf = (level: number, index: number) => log?.tiles.get(`${level}/${index}`);
    const treeAt = (size: number) => new Tree(size, nodesOfTiles(tileOf));
    const plan = planBatch(records, (asked) => {
      const row = log?.kept.get(asked.scope);
      return row && log && idempotentResult(row, asked, log.head, treeAt);
    });
    const [first, ...rest] = plan.fresh;
    if (first === undefined) return { log: log?.head.origin ?? "", results: plan.results([]) };
    const ids = new Set(log?.entries.map(({ recordId }) => recordId));
    if (plan.fresh.some(({ recordId }) => ids.has(recordId))) throw new UnstorableError("The id is taken.");
    const { random } = this.#storage.machine;
    const seed = random.fill(new Uint8Array(seedBytes(plan.fresh.length)));
    const edge = log === undefined ? new RightEdge() : edgeOf(log.head, this.#edges.take(log.head), tileOf);
    const sequenced = sequence(
      log?.head,
      [first, ...rest],
      this.#process.clock.now(),
      seed,
      "ledger.example/logs",
      this.#publicKey,
    );
    for (const { leafHash } of sequenced.entries) edge.append(leafHash);
    const tree = edge.tree();
    const head: TimedLog = { tenantId, ...sequenced.head, size: edge.size, root: tree.root() };
    const committed = committedRecords(sequenced, tree, head);
    const tiles = new Map(log?.tiles);
    for (const { level, index, hashes } of edge.takeTouched()) tiles.set(`${level}/${index}`, hashes.slice());
    const kept = new Map(log?.kept);
    sequenced.entries.slice(-plan.fresh.length).forEach(({ leafIndex, recordId, leaf, sealed, opening }, i) => {
      const asked = plan.fresh[i]?.idempotency;
      if (asked === undefined) return;
      const answer = sealIdempotencyRecord(asked, opening);
      kept.set(asked.scope, { leafIndex, treeSize: head.size, answer, opening, recordId, leaf, record: sealed });
    });
    logs.set(tenantId, { head, tiles, kept, entries: [...(log?.entries ?? []), ...sequenced.entries] });
    edges.push([head, edge]);
    return { log: head.origin, results: plan.results(committed) };
  }

  #named(name: string): Log | undefined {
    return [...this.#storage.logs.values()].find(({ head }) => logNameOf(head.origin) === name);
  }

  #proof<Proof>(name: string, size: number, prove: (tree: Tree) => Proof): Promise<Proof | undefined> {
    return this.#later("proof", () => {
      const log = this.#named(name);
      if (log === undefined || size > log.head.size) return undefined;
      return prove(
        new Tree(
          size,
          nodesOfTiles((level, index) => log.tiles.get(`${level}/${index}`)),
        ),
      );
    });
  }

  find(tenantId: TenantId, wanted: RecordId) {
    return this.#later("find", () => {
      const entry = this.#storage.logs.get(tenantId)?.entries.find(({ recordId }) => recordId === wanted);
      if (entry === undefined) return "unknown" as const;
      if (entry.opening === undefined) return "erased" as const;
      return JSON.parse(Buffer.from(open(entry.sealed, entry.opening, parseLeaf(entry.leaf).commitment)).toString());
    });
  }

  logs = () => this.#later("logs", () => [...this.#storage.logs.values()].map(({ head }) => head));
  log = (name: string) => this.#later("log", () => this.#named(name)?.head);
  head = (name: string) => this.#later("head", () => this.#named(name)?.head);
  consistencyProof = (name: string, first: number, second: number) =>
    this.#proof(name, second, (tree) => (first > second ? undefined : tree.consistencyProof(first)));
  multiProof = (name: string, size: number, leaves: readonly number[]) =>
    this.#proof(name, size, (tree) => tree.multiProof(leaves));
  cosignatures = () => this.#later("cosignatures", () => this.#cosignatures);
  storeCosignatures = () => this.#later("cosignatures", () => {});
  keepPolicyRevision = () => this.#later("policy", () => {});
  policyRevision = async () => undefined;
  check = () => this.#later("check", () => {});
  close = () => this.#later("close", () => {});
  registrations = async () => [];
  proven = async () => "unknown" as const;
  tile = async () => undefined;
  search(): never {
    throw new Error("The model store does not search.");
  }
}
