/**
 * The embedded store: one SQLite file and four threads. One writes; one reads, started by the first record or read;
 * one searches, started by the first search; one copies the write-ahead log into the file, started when that is long.
 * The event loop does no I/O.
 */
import type { ReplayStore } from "../../auth/replay-store.ts";
import type { PortionCounters } from "../../domain/ports.ts";
import { seedBytes } from "../../ledger/append/sequence.ts";
import type { LedgerStore } from "../../ledger/ports/store.ts";
import type { ServiceMachine } from "../sql/backend.ts";
import type { KeyRing } from "../sql/key-ring.ts";
import { ProofBatches } from "../sql/shared.ts";
import { type Remote, remote, type WorkerData } from "./protocol.ts";
import type { SqliteReader } from "./queries.ts";
import type { StoreThread } from "./thread.ts";
import type { SqliteWriter } from "./writer.ts";

/**
 * A store that all processes on the file share.
 * @param threads of the store, which owns and closes them
 * @param keys that sign its trees
 */
export function sqliteStore(
  threads: Readonly<Record<WorkerData["role"], StoreThread>>,
  keys: KeyRing,
  { clock, random }: Pick<ServiceMachine, "clock" | "random">,
): LedgerStore & ReplayStore & PortionCounters {
  const writer: Remote<SqliteWriter> = remote((request) => threads.writer.call(request));
  const reader: Remote<SqliteReader> = remote((request) => threads.reader.call(request));
  const searcher: Remote<SqliteReader> = remote((request) => threads.searcher.call(request));
  // One writer, and so one lane.
  const proofs = new ProofBatches(
    (rows) => writer.noteProofs(rows, clock.now()),
    () => "",
  );
  return {
    async write(batches) {
      const texts = batches.map((batch) => ({ ...batch, records: batch.records.map(({ text }) => text) }));
      const seed = random(new Uint8Array(batches.reduce((sum, { records }) => sum + seedBytes(records.length), 0)));
      const results = await keys.following((signingKey) => writer.append(texts, seed, clock.now(), signingKey));
      // New records will be read by citations.
      threads.reader.start();
      return results;
    },
    find: reader.find,
    proven: reader.proven,
    registrations: reader.registrations,
    search: searcher.search,
    logs: reader.logs,
    head: (name) => keys.following((signingKey) => writer.head(name, signingKey)),
    tile: reader.tile,
    consistencyProof: reader.consistencyProof,
    multiProof: reader.multiProof,
    policyRevision: reader.policyRevision,
    cosignatures: reader.cosignatures,
    storeCosignatures: writer.storeCosignatures,
    keepPolicyRevision: writer.keepPolicyRevision,
    firstUse: (use, expiresAtMs) => proofs.firstUse(use, expiresAtMs),
    takePortion: (limit, wanted) => writer.takePortion(limit, wanted, clock.now()),
    giveBackPortion: (...unused) => writer.giveBackPortion(...unused),
    /** Writes, and requires a running reader thread, if one was started, and the store's keys. */
    async check() {
      await keys.following((signingKey) => writer.probe(clock.now(), signingKey));
      if (threads.reader.isStarted) await reader.probe();
    },
    /** The writer goes last: the last connection to close copies the write-ahead log into the file. */
    async close() {
      await threads.searcher.close();
      await threads.reader.close();
      await threads.checkpointer.close();
      await threads.writer.close();
    },
  };
}
