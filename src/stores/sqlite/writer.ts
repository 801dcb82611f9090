/** All that writes to the database: in the writer's thread, one transaction at a time. */

import type { TenantId } from "../../base/ids.ts";
import { utf8Text } from "../../base/text-forms.ts";
import type { AttemptLimit, Portion, ReachedLimit } from "../../domain/ports.ts";
import type { BatchResult, LogState, StoredCosignature } from "../../ledger/ports/store.ts";
import { sameHash } from "../../ledger/tlog/tree.ts";
import { RetiredKeyError } from "../key-ring.ts";
import type { ProofRow } from "../proof-batches.ts";
import { inTransaction, type SqliteConnection, type SqliteStatement } from "./connection.ts";
import type { SqliteAnchor } from "./log/anchor.ts";
import { Cosignatures } from "./log/cosignatures.ts";
import { type AppendedBatch, LogWriter, type SeededBatch } from "./log/log-writer.ts";
import type { PartSender } from "./part-sender.ts";
import { Attempts, DpopReplays } from "./shared.ts";
import { countChange } from "./wal-binding.ts";

/**
 * Size of what a probe writes. A disk too full for records often still has a page or two, so one page proves little;
 * random, because SQLite does not write what has not changed.
 */
const probeBytes = 64 * 1024;

export class SqliteWriter {
  readonly #connection: SqliteConnection;
  readonly #anchor: SqliteAnchor;
  readonly #logs: LogWriter;
  readonly #dpopReplays: DpopReplays;
  readonly #attempts: Attempts;
  readonly #cosignatures: Cosignatures;
  readonly #policyRevision: SqliteStatement;
  readonly #probe: SqliteStatement;
  readonly #count: SqliteStatement;
  readonly #newestKey: SqliteStatement;
  /** Appended in the transaction that is under way. */
  #appended: AppendedBatch[] = [];

  /** Connection and anchor become the writer's: they are closed with it. */
  constructor(connection: SqliteConnection, anchor: SqliteAnchor, originPrefix: string) {
    this.#connection = connection;
    this.#anchor = anchor;
    this.#logs = new LogWriter(connection, anchor, originPrefix);
    this.#dpopReplays = new DpopReplays(connection);
    this.#attempts = new Attempts(connection);
    this.#cosignatures = new Cosignatures(connection);
    this.#policyRevision = connection.prepare(
      "INSERT INTO policy_revisions (revision, content) VALUES (?, ?) ON CONFLICT DO NOTHING",
    );
    this.#newestKey = connection.prepare("SELECT public_key FROM signing_keys ORDER BY position DESC LIMIT 1");
    this.#count = countChange(connection);
    this.#probe = connection.prepare(
      `UPDATE store SET probed_at_ms = ?, probe = randomblob(${probeBytes}) WHERE singleton = 1`,
    );
  }

  /**
   * Does the work of several calls in one transaction, so that they share its sync. When it throws, the outcome is that of
   * `inTransaction`, for all of them.
   */
  together<Result>(works: readonly (() => Result)[]): Result[] {
    return this.#transact(() => works.map((work) => work()));
  }

  /**
   * Appends batches in one transaction. One file has one writer at a time, so tenants share it: the commit's sync is
   * what costs. Durable and anchored when it returns; when it throws, the outcome of the commit is unknown. Throws
   * `RetiredKeyError`, like all that names the key that will sign, where that is not the store's newest.
   * @param parts told of each result, in order, and then of their end, all before anything is committed
   */
  append(
    batches: readonly SeededBatch[],
    nowMs: number,
    signingKey: Uint8Array,
    parts?: Pick<PartSender, "add" | "end">,
  ): readonly BatchResult[] {
    return this.#transact(() => {
      this.#requireNewest(signingKey);
      const results = batches.map((batch) => {
        const appended = this.#logs.append(batch, nowMs);
        this.#appended.push(appended);
        parts?.add(appended.result);
        return appended.result;
      });
      parts?.end();
      return results;
    });
  }

  /** The newest state of a log, anchored, so that it may be signed. */
  head(name: string, signingKey: Uint8Array): LogState | undefined {
    const head = this.#logs.soundHead(name);
    // Behind the head: what a rotation that comes later retires has signed this tree rightly.
    this.#requireNewest(signingKey);
    if (head !== undefined) this.#anchor.advance([head]);
    return head;
  }

  storeCosignatures(cosignatures: readonly StoredCosignature[]): void {
    this.#transact(() => this.#cosignatures.keep(cosignatures));
  }

  keepPolicyRevision(revision: string, content: string | Uint8Array): void {
    this.#transact(() => this.#policyRevision.run(revision, utf8Text(content)));
  }

  /** Looks at some of the leaves that the index of registrations has not got yet. */
  indexRegistrations(tenantId: TenantId, key: Uint8Array): void {
    this.#transact(() => this.#logs.indexRegistrations(tenantId, key));
  }

  /** For each proof, in order, whether this is its first use. */
  noteProofs(rows: readonly ProofRow[], nowMs: number): readonly boolean[] {
    return this.#transact(() => this.#dpopReplays.note(rows, nowMs));
  }

  /** Empty where the attempt is counted; else the limits that are reached. */
  takeAttempt(limits: readonly AttemptLimit[], nowMs: number): readonly ReachedLimit[] {
    return this.#transact(() => this.#attempts.take(limits, nowMs));
  }

  giveBackAttempt(limits: readonly AttemptLimit[], nowMs: number): void {
    this.#transact(() => this.#attempts.giveBack(limits, nowMs));
  }

  takePortion(limit: AttemptLimit, wanted: number, nowMs: number): Portion {
    return this.#transact(() => this.#attempts.takePortion(limit, wanted, nowMs));
  }

  giveBackPortion(limit: AttemptLimit, unused: number, nowMs: number): void {
    this.#transact(() => this.#attempts.giveBackPortion(limit, unused, nowMs));
  }

  /** A real write, because a full disk still reads and locks. */
  probe(nowMs: number, signingKey: Uint8Array): void {
    inTransaction(this.#connection, () => {
      this.#requireNewest(signingKey);
      this.#count.run();
      if (Number(this.#probe.run(nowMs).changes) !== 1) throw new Error("The store has lost its identity.");
    });
    this.#anchor.probe(nowMs);
  }

  /** Brings what is committed into the file, as far as readers let it. */
  checkpoint(): void {
    this.#connection.exec("PRAGMA wal_checkpoint(PASSIVE)");
  }

  close(): void {
    this.#connection.close();
    this.#anchor.close();
  }

  /** Runs the work in a transaction: in the one that is under way, where there is one. */
  #transact<Result>(work: () => Result): Result {
    if (this.#connection.isTransaction) return work();
    this.#appended = [];
    let isAnchored = false;
    try {
      const result = inTransaction(this.#connection, () => {
        this.#logs.begin();
        this.#count.run();
        return work();
      });
      this.#anchor.advance(this.#appended.map(({ log }) => log));
      isAnchored = true;
      return result;
    } finally {
      this.#logs.end(isAnchored);
    }
  }

  #requireNewest(signingKey: Uint8Array): void {
    const newest = this.#newestKey.get()?.public_key as Uint8Array | undefined;
    if (newest === undefined) throw new Error("The store does not say which key signs its logs.");
    if (!sameHash(newest, signingKey)) throw new RetiredKeyError(newest);
  }
}
