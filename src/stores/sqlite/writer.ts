/** All writes to the database: in the writer's thread, one transaction at a time. */
import { utf8Text } from "../../base/text-forms.ts";
import type { AttemptLimit, Portion } from "../../domain/ports.ts";
import { readRecordText } from "../../ledger/append/record-text.ts";
import type { BatchResult, LogState, StoredCosignature, TenantBatch } from "../../ledger/ports/store.ts";
import { shownOnly } from "../../ledger/record/committed-record.ts";
import type { LogName } from "../../ledger/tlog/log-name.ts";
import { sameHash } from "../../ledger/tlog/tree.ts";
import type { SqliteAnchor } from "../files/anchor.ts";
import { passiveCheckpoint, type SqliteConnection, type SqliteStatement } from "../files/connection.ts";
import { appendBatches } from "../sql/appending.ts";
import { RetiredKeyError, SigningKeysOfStore } from "../sql/key-ring.ts";
import { headByName, keepingCosignature, keepRevision } from "../sql/log-rows.ts";
import { type AppendedLog, LogTools } from "../sql/log-tools.ts";
import { givingBack, noteProofs, type ProofRow, takePortion } from "../sql/shared.ts";
import { refuseUnsound } from "../sql/store-checks.ts";
import { SqliteQueries, transactOn } from "./queries.ts";
import { countChange } from "./wal-binding.ts";

/** Size of a probe: a full disk may still have a page or two. Random, since SQLite skips unchanged pages. */
const probe = `UPDATE store SET probed_at_ms = $1, probe = randomblob(${64 * 1024}) WHERE singleton = 1`;

/**
 * Pages in the write-ahead log from which on it should be copied into the file: 32 MiB. A commit of a hundred tenants
 * writes about a thousand.
 */
const longPages = 4_096;
/** So few pages are copied in about a millisecond. */
const fewPages = 512;
/** From this length on, 128 MiB, the writer does not rely on another thread. */
const maxPages = 4 * longPages;

/** A batch on its way to the store's thread: its records as texts. */
export type TextBatch = Omit<TenantBatch, "records"> & { readonly records: readonly string[] };

/** Its methods must be called one after the other. */
export class SqliteWriter {
  readonly #connection: SqliteConnection;
  readonly #queries: SqliteQueries;
  readonly #anchor: SqliteAnchor;
  readonly #keys: SigningKeysOfStore;
  readonly #tools: LogTools;
  readonly #logState: SqliteStatement;
  /** Logs of the current transaction's appends. */
  #appended: AppendedLog[] = [];
  /** Of the current append: its time, its random bytes, and the key that signs its trees. */
  #nowMs = 0;
  #seed: Uint8Array = new Uint8Array(0);
  #signingKey: Uint8Array = new Uint8Array(0);

  /** The writer owns connection and anchor, and closes them. */
  constructor(connection: SqliteConnection, anchor: SqliteAnchor, originPrefix: string) {
    this.#connection = connection;
    this.#queries = new SqliteQueries(connection);
    this.#anchor = anchor;
    const signingKey = () => this.#signingKey;
    this.#keys = new SigningKeysOfStore({
      get current() {
        return signingKey();
      },
      statementOf: () => undefined,
      follow(newest) {
        if (!sameHash(newest, signingKey())) throw new RetiredKeyError(newest);
      },
    });
    this.#tools = new LogTools({
      ...{ anchor, originPrefix, keys: this.#keys, isAlone: true },
      clock: { now: () => this.#nowMs },
      random: (bytes) => this.#draw(bytes),
    });
    this.#logState = connection.prepare("PRAGMA wal_checkpoint(NOOP)");
    // No commit waits for a checkpoint: see `shortenLog`.
    connection.exec("PRAGMA wal_autocheckpoint = 0");
  }

  /**
   * Does the work of several calls in one transaction, so that they share its sync. If it rejects, the outcome is that
   * of `transactOn`, for all of them.
   */
  together<Result>(works: readonly (() => Promise<Result>)[]): Promise<Result[]> {
    return this.#transact(async () => {
      const results: Result[] = [];
      for (const work of works) results.push(await work());
      return results;
    });
  }

  /**
   * Appends batches in one transaction. One file has one writer at a time, so tenants share the commit, whose sync is
   * the main cost. Durable and anchored when it resolves; if it rejects, the outcome of the commit is unknown. Rejects
   * with `RetiredKeyError` if the signing key is not the store's newest.
   */
  append(
    texts: readonly TextBatch[],
    seed: Uint8Array,
    nowMs: number,
    signingKey: Uint8Array,
  ): Promise<readonly BatchResult[]> {
    return this.#transact(async () => {
      await this.#requireNewest(signingKey);
      this.#nowMs = nowMs;
      this.#seed = seed;
      const batches = texts.map((batch) => ({ ...batch, records: batch.records.map(readRecordText) }));
      const appended = await appendBatches(this.#queries, batches, {
        ...{ taking: "apart", tools: this.#tools, isBeginning: true },
      });
      this.#appended.push(...appended.logs);
      return batches.map(({ tenantId, shown }) => {
        const { log, results } = appended.outcomes.get(tenantId) as BatchResult;
        return { log, results: shownOnly(results, shown) };
      });
    });
  }

  /** Returns the newest state of a log, anchored, so that it may be signed. */
  async head(name: LogName, signingKey: Uint8Array): Promise<LogState | undefined> {
    const found = await headByName(this.#queries, name);
    // Before the head, outside of a transaction: a concurrent append between the two is no fault.
    const anchored = found && this.#anchor.find(found.tenantId);
    const head = found && (await headByName(this.#queries, name));
    await refuseUnsound(this.#queries, head, anchored);
    // After the head: a key that a later rotation retires may sign this tree.
    await this.#requireNewest(signingKey);
    if (head === undefined) return undefined;
    this.#anchor.advance([head]);
    const { tenantId, origin, size, root } = head;
    return { tenantId, origin, size, root };
  }

  storeCosignatures(cosignatures: readonly StoredCosignature[]): Promise<void> {
    return this.#transact(async () => {
      for (const cosignature of cosignatures) await this.#queries.query(...keepingCosignature(cosignature));
    });
  }

  async keepPolicyRevision(revision: string, content: string | Uint8Array): Promise<void> {
    await this.#transact(() => this.#queries.query(keepRevision, [revision, utf8Text(content)]));
  }

  /** Returns for each proof, in order, whether this is its first use. */
  noteProofs(rows: readonly ProofRow[], nowMs: number): Promise<readonly boolean[]> {
    return this.#transact(async () => {
      const first = new Map<ProofRow, boolean>();
      for (const [tenantId, own] of Map.groupBy(rows, (row) => row.tenantId)) {
        const noted = await noteProofs(this.#queries, tenantId, own, nowMs);
        own.forEach((row, position) => void first.set(row, noted[position] === true));
      }
      return rows.map((row) => first.get(row) === true);
    });
  }

  takePortion(limit: AttemptLimit, wanted: number, nowMs: number): Promise<Portion> {
    return this.#transact(() => takePortion(this.#queries, limit, wanted, nowMs));
  }

  async giveBackPortion(...unused: Parameters<typeof givingBack>): Promise<void> {
    await this.#transact(() => this.#queries.query(...givingBack(...unused)));
  }

  /** A real write, because a full disk still reads and locks. */
  async probe(nowMs: number, signingKey: Uint8Array): Promise<void> {
    await this.#transact(async () => {
      await this.#requireNewest(signingKey);
      const { count } = await this.#queries.query(probe, [nowMs]);
      if (count !== 1) throw new Error("The store has lost its identity.");
    });
    this.#anchor.probe(nowMs);
  }

  /**
   * Bounds the write-ahead log, between two calls. SQLite begins the log again only after all of it is in the file,
   * which another connection cannot reach while this one commits: the last few pages are copied here. Returns whether
   * another connection should copy the pages before them.
   */
  shortenLog(): boolean {
    const { log, checkpointed } = this.#logState.get() as { readonly log: number; readonly checkpointed: number };
    if (log < longPages) return false;
    if (log - checkpointed > fewPages && log < maxPages) return true;
    passiveCheckpoint(this.#connection);
    return false;
  }

  /** Copies all commits into the file. Waits for readers and another copy, at most the busy timeout. */
  checkpointAll(): void {
    this.#connection.exec("PRAGMA wal_checkpoint(FULL)");
  }

  close(): void {
    this.#connection.close();
    this.#anchor.close();
  }

  /** Runs the work in the current transaction, or in a new one. */
  async #transact<Result>(work: () => Result | Promise<Result>): Promise<Result> {
    if (this.#connection.isTransaction) return work();
    this.#appended = [];
    const result = await transactOn(this.#connection, async () => {
      await this.#queries.query(countChange, []);
      return work();
    });
    this.#tools.keep(this.#appended);
    return result;
  }

  /** Rejects with `RetiredKeyError` if another key signs the store's logs. */
  #requireNewest(signingKey: Uint8Array): Promise<void> {
    this.#signingKey = signingKey;
    return this.#keys.follow(this.#queries);
  }

  #draw(bytes: Uint8Array): Uint8Array {
    if (this.#seed.length < bytes.length) throw new RangeError("The seed is too short.");
    bytes.set(this.#seed.subarray(0, bytes.length));
    this.#seed = this.#seed.subarray(bytes.length);
    return bytes;
  }
}
