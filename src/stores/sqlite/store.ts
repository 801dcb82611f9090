/**
 * The embedded store: one SQLite file, one thread that writes, one that reads from the first record or question on, and
 * one that searches from the first search on. The event loop does none of it.
 */

import type { ProofUse } from "../../auth/proof/replay-store.ts";
import type { Clock } from "../../base/clock.ts";
import type { RandomFill, RecordId, TenantId } from "../../base/ids.ts";
import type { AttemptLimit, Portion, ReachedLimit } from "../../domain/ports.ts";
import { seedBytes } from "../../ledger/append/sequence.ts";
import { artifactKeyBytes } from "../../ledger/artifacts/registration-index.ts";
import type { StoredRecord } from "../../ledger/ports/record.ts";
import type { ArtifactRegistrations } from "../../ledger/ports/registrations.ts";
import type { SearchPage, SearchQuery } from "../../ledger/ports/search.ts";
import type {
  BatchResult,
  LedgerStore,
  LogState,
  Patience,
  StoredCosignature,
  TenantBatch,
} from "../../ledger/ports/store.ts";
import type { LogName } from "../../ledger/tlog/log-name.ts";
import type { TileName } from "../../ledger/tlog/tiles.ts";
import type { Hash } from "../../ledger/tlog/tree.ts";
import { type RegistrationsLook, upToDate } from "../found-registrations.ts";
import type { KeyRing } from "../key-ring.ts";
import { ProofBatches } from "../proof-batches.ts";
import { AppendParts } from "./append-parts.ts";
import type { StoreCaller } from "./calls.ts";
import type { LateThread } from "./late-thread.ts";
import type { AppendedParts } from "./protocol.ts";

/** What the store is made of. */
export interface SqliteStoreOptions {
  readonly threads: StoreThreads;
  readonly clock: Clock;
  readonly random: RandomFill;
  /** The keys that will sign what the store gives. */
  readonly keys: KeyRing;
}

/** The threads of a store. They become the store's: they are closed with it. */
export interface StoreThreads {
  readonly writer: StoreCaller;
  readonly reader: LateThread;
  readonly searcher: LateThread;
}

export class SqliteStore implements LedgerStore {
  readonly #clock: Clock;
  readonly #random: RandomFill;
  readonly #writer: StoreCaller;
  readonly #reader: LateThread;
  readonly #searcher: LateThread;
  readonly #proofs: ProofBatches;
  readonly #keys: KeyRing;

  private constructor({ threads, clock, random, keys }: SqliteStoreOptions) {
    this.#keys = keys;
    this.#clock = clock;
    this.#random = random;
    this.#writer = threads.writer;
    this.#reader = threads.reader;
    this.#searcher = threads.searcher;
    this.#proofs = new ProofBatches(
      async (rows) => (await this.#writer.call({ call: "noteProofs", rows, nowMs: clock.now() })) as readonly boolean[],
    );
  }

  /** Waits for the threads that were started, on a file that has been migrated. Rejects when one cannot open it. */
  static async open(options: SqliteStoreOptions): Promise<SqliteStore> {
    const store = new SqliteStore(options);
    try {
      await Promise.all([store.#writer.ready, store.#reader.ready]);
      return store;
    } catch (error) {
      await store.close();
      throw error;
    }
  }

  async write(
    batches: readonly TenantBatch[],
    _patience?: Patience,
    _endsAtMs?: number,
    foresee?: (result: BatchResult) => void,
  ): Promise<readonly BatchResult[]> {
    const sizes = batches.map(({ records }) => seedBytes(records.length));
    const random = this.#random(new Uint8Array(sizes.reduce((sum, size) => sum + size, 0)));
    let offset = 0;
    const seeded = batches.map((batch, index) => {
      const seed = random.subarray(offset, offset + (sizes[index] ?? 0));
      offset += seed.length;
      return { ...batch, seed };
    });
    const results = await this.#keys.following(async (signingKey) => {
      const parts = new AppendParts(foresee);
      const request = { call: "append", batches: seeded, nowMs: this.#clock.now(), signingKey } as const;
      const committed = await this.#writer.call(request, (part) => parts.add(part));
      return parts.committed(committed as AppendedParts);
    });
    // What was recorded will be cited.
    this.#reader.start();
    return results;
  }

  async find(tenantId: TenantId, recordId: RecordId): Promise<StoredRecord | "unknown" | "erased"> {
    return (await this.#reader.call({ call: "find", tenantId, recordId })) as StoredRecord | "unknown" | "erased";
  }

  registrations(tenantId: TenantId, names: readonly string[]): Promise<readonly ArtifactRegistrations[]> {
    return upToDate(
      async () => (await this.#reader.call({ call: "registrations", tenantId, names })) as RegistrationsLook,
      async () => {
        const key = this.#random(new Uint8Array(artifactKeyBytes));
        await this.#writer.call({ call: "indexRegistrations", tenantId, key });
      },
    );
  }

  async search(query: SearchQuery): Promise<SearchPage> {
    return (await this.#searcher.call({ call: "search", query })) as SearchPage;
  }

  async log(name: LogName): Promise<LogState | undefined> {
    return (await this.#reader.call({ call: "log", name })) as LogState | undefined;
  }

  async logs(): Promise<readonly LogState[]> {
    return (await this.#reader.call({ call: "logs" })) as readonly LogState[];
  }

  async head(name: LogName): Promise<LogState | undefined> {
    const head = await this.#keys.following((signingKey) => this.#writer.call({ call: "head", name, signingKey }));
    return head as LogState | undefined;
  }

  async tile(name: LogName, tile: TileName): Promise<Uint8Array | undefined> {
    return (await this.#reader.call({ call: "tile", name, tile })) as Uint8Array | undefined;
  }

  async consistencyProof(name: LogName, first: number, second: number): Promise<readonly Hash[] | undefined> {
    return (await this.#reader.call({ call: "consistencyProof", name, first, second })) as readonly Hash[] | undefined;
  }

  async multiProof(name: LogName, size: number, leafIndices: readonly number[]): Promise<readonly Hash[] | undefined> {
    return (await this.#reader.call({ call: "multiProof", name, size, leafIndices })) as readonly Hash[] | undefined;
  }

  async cosignatures(): Promise<readonly StoredCosignature[]> {
    return (await this.#reader.call({ call: "cosignatures" })) as readonly StoredCosignature[];
  }

  async storeCosignatures(cosignatures: readonly StoredCosignature[]): Promise<void> {
    await this.#writer.call({ call: "storeCosignatures", cosignatures });
  }

  async keepPolicyRevision(revision: string, content: string | Uint8Array): Promise<void> {
    await this.#writer.call({ call: "keepPolicyRevision", revision, content });
  }

  /**
   * Notes the use of a proof: exactly one call with the same one gets true, in all processes on the file together,
   * before or after a restart. Rejects with `store_unavailable` where that cannot be known.
   * @param expiresAtMs milliseconds since the Unix epoch from which on the use may be forgotten
   */
  firstUse(use: ProofUse, expiresAtMs: number): Promise<boolean> {
    return this.#proofs.firstUse(use, expiresAtMs);
  }

  /**
   * Counts one attempt under each of the limits, for all processes on the file together, or under none where some are
   * reached: resolves with those. Rejects with `store_unavailable`.
   */
  async takeAttempt(limits: readonly AttemptLimit[]): Promise<readonly ReachedLimit[]> {
    const nowMs = this.#clock.now();
    return (await this.#writer.call({ call: "takeAttempt", limits, nowMs })) as readonly ReachedLimit[];
  }

  /** Takes back one attempt under each of the limits, as far as their windows have not ended. */
  async giveBackAttempt(limits: readonly AttemptLimit[]): Promise<void> {
    await this.#writer.call({ call: "giveBackAttempt", limits, nowMs: this.#clock.now() });
  }

  /** Grants up to so many of what the limit leaves to all processes on the file. Rejects with `store_unavailable`. */
  async takePortion(limit: AttemptLimit, wanted: number): Promise<Portion> {
    const nowMs = this.#clock.now();
    return (await this.#writer.call({ call: "takePortion", limit, amount: wanted, nowMs })) as Portion;
  }

  async giveBackPortion(limit: AttemptLimit, unused: number): Promise<void> {
    await this.#writer.call({ call: "giveBackPortion", limit, amount: unused, nowMs: this.#clock.now() });
  }

  /** Writes, and makes sure that the reading thread, where it was started, is there, and that the keys are the store's. */
  async check(): Promise<void> {
    const probe = (signingKey: Uint8Array) => ({ call: "probe", nowMs: this.#clock.now(), signingKey }) as const;
    await this.#keys.following((signingKey) => this.#writer.call(probe(signingKey)));
    if (this.#reader.isStarted) await this.#reader.call(probe(this.#keys.current));
  }

  /** The writer goes last: the last connection to close folds the write-ahead log into the file. */
  async close(): Promise<void> {
    await this.#searcher.close();
    await this.#reader.close();
    await this.#writer.close();
  }
}
