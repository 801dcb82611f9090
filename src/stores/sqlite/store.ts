/** The embedded store: one SQLite file, one thread that writes, one that reads. The event loop does neither. */
import type { Clock } from "../../base/clock.ts";
import type { RandomFill, RecordId, TenantId } from "../../base/ids.ts";
import type { StoredRecord } from "../../ledger/ports.ts";
import { seedBytes } from "../../ledger/sequence.ts";
import type { BatchPlace, LedgerStore, TenantBatch } from "../../ledger/store.ts";
import type { WorkerData } from "./protocol.ts";
import { type StoreLogger, StoreThread, type ThreadLimits } from "./thread.ts";

/** What the store is made of. */
export interface SqliteStoreOptions {
  readonly data: Omit<WorkerData, "role">;
  readonly limits: ThreadLimits;
  readonly clock: Clock;
  readonly random: RandomFill;
  readonly logger: StoreLogger | undefined;
}

export class SqliteStore implements LedgerStore {
  readonly #clock: Clock;
  readonly #random: RandomFill;
  readonly #writer: StoreThread;
  readonly #reader: StoreThread;

  private constructor({ data, limits, clock, random, logger }: SqliteStoreOptions) {
    this.#clock = clock;
    this.#random = random;
    this.#writer = new StoreThread({ ...data, role: "writer" }, limits, logger);
    this.#reader = new StoreThread({ ...data, role: "reader" }, limits, logger);
  }

  /** Starts both threads on a file that has been migrated. Rejects when either cannot open it. */
  static async start(options: SqliteStoreOptions): Promise<SqliteStore> {
    const store = new SqliteStore(options);
    try {
      await Promise.all([store.#writer.ready, store.#reader.ready]);
      return store;
    } catch (error) {
      await store.close();
      throw error;
    }
  }

  async write(batches: readonly TenantBatch[]): Promise<readonly BatchPlace[]> {
    const sizes = batches.map(({ records }) => seedBytes(records.length));
    const random = this.#random(new Uint8Array(sizes.reduce((sum, size) => sum + size, 0)));
    let offset = 0;
    const seeded = batches.map((batch, index) => {
      const seed = random.subarray(offset, offset + (sizes[index] ?? 0));
      offset += seed.length;
      return { ...batch, seed };
    });
    const places = await this.#writer.call({ call: "append", batches: seeded, nowMs: this.#clock.now() });
    return places as readonly BatchPlace[];
  }

  async find(tenantId: TenantId, recordId: RecordId): Promise<StoredRecord | "unknown" | "erased"> {
    return (await this.#reader.call({ call: "find", tenantId, recordId })) as StoredRecord | "unknown" | "erased";
  }

  async keepPolicyRevision(revision: string, content: string): Promise<void> {
    await this.#writer.call({ call: "keepPolicyRevision", revision, content });
  }

  /** Writes, and makes sure that the reading thread is there. */
  async check(): Promise<void> {
    await this.#writer.call({ call: "probe", nowMs: this.#clock.now() });
    await this.#reader.call({ call: "probe", nowMs: this.#clock.now() });
  }

  /** The writer goes last: the last connection to close folds the write-ahead log into the file. */
  async close(): Promise<void> {
    await this.#reader.close();
    await this.#writer.close();
  }
}
