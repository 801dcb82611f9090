/** The ledger of a service, over any store: appends through group commit. */
import { ServiceError, storeUnavailable } from "../../base/errors.ts";
import { singleFlight } from "../../base/timers.ts";
import type { Ledger, PublishedLogs, RecordArchive } from "../ports/ledger.ts";
import { type LedgerStore, type LogState, UnsoundLogError } from "../ports/store.ts";
import { type LogName, logNameOf, parseLogName } from "../tlog/log-name.ts";
import { type CheckpointSigner, cosigning } from "../tlog/signer.ts";
import { parseTilePath } from "../tlog/tiles.ts";
import { receiptOf, signedTree } from "./answering.ts";
import { Appender, type AppenderOptions } from "./appender.ts";
import { GroupRooms, recordGroup } from "./group.ts";

export interface ServiceLedger extends Ledger, PublishedLogs, Pick<RecordArchive, "policyRevision"> {
  /** Whether the newest append or check found the store writable. */
  readonly writable: boolean;
  /** Number of records that wait for the store. */
  readonly waiting: number;
}

/** Makes the ledger of a store. It closes the store and the anchor. */
export function ledgerOver(store: LedgerStore, keys: CheckpointSigner, options: AppenderOptions): ServiceLedger {
  const { limits, anchor, events } = options;
  const signer = anchor === undefined ? keys : cosigning(keys, anchor);
  const appender = new Appender(store, signer, options);
  let isWritable = true;
  let closing: Promise<void> | undefined;

  /** Notes whether the store was writable, as the work shows. */
  async function noted<Result>(work: Promise<Result>, onFailure?: () => void): Promise<Result> {
    try {
      const result = await work;
      isWritable = true;
      return result;
    } catch (error) {
      // A refusal because of the record's content is no failure of the store.
      if (error instanceof ServiceError && error.reason === "store_unavailable") {
        isWritable = false;
        onFailure?.();
      }
      throw error;
    }
  }

  const failed = () => events?.failed?.();
  const groups = {
    appender,
    rooms: new GroupRooms(limits.maxQueuedPerTenant),
    committing: (commit: Promise<void>) => noted(commit, failed),
  };
  /** The newest state that may be signed; undefined if there is no such log. */
  const signableHead = async (name: LogName): Promise<LogState | undefined> => {
    const head = await store.head(name).catch((cause: unknown) => {
      if (!(cause instanceof UnsoundLogError)) throw cause;
      throw storeUnavailable("The log cannot be signed.", cause);
    });
    if (head !== undefined) await anchor?.confirm(head);
    return head;
  };
  /** Reads of the log with this name; undefined if the text is no name. */
  const named = async <Result>(text: string, read: (name: LogName) => Promise<Result>): Promise<Result | undefined> => {
    const name = parseLogName(text);
    return name === undefined ? undefined : read(name);
  };
  return {
    get writable() {
      return isWritable;
    },
    get waiting() {
      return appender.waiting;
    },
    append: (record, span) => noted(appender.append(record, span), failed),
    group: (tenantId, shown) => recordGroup(groups, tenantId, shown),
    find: (tenantId, recordId) => store.find(tenantId, recordId),
    registrations: (tenantId, names) => store.registrations(tenantId, names),
    keepPolicyRevision: (revision, content) => store.keepPolicyRevision(revision, content),
    policyRevision: (revision) => store.policyRevision(revision),
    // Probes share an answer, so that they cannot load the store.
    check: singleFlight(() => noted(store.check())),
    close() {
      closing ??= (async () => {
        await appender.close();
        await anchor?.close();
        await store.close();
      })();
      return closing;
    },
    async multiProof(log, size, leafIndices) {
      const nodes = await store.multiProof(logNameOf(log), size, leafIndices);
      if (nodes === undefined) throw new ServiceError("internal", "The log is smaller than it was.");
      return nodes;
    },

    async published() {
      const logs = await store.logs();
      return logs.map(({ tenantId, origin, size }) => ({
        ...{ name: logNameOf(origin), tenantId, origin, size },
        verifierKeys: signer.verifierKeys(origin),
      }));
    },
    tenantOf: (text) => named(text, async (name) => (await store.logs(name))[0]?.tenantId),
    search: (query) => store.search(query),
    async receipt(text, recordId) {
      const head = await named(text, signableHead);
      if (head === undefined) return "unknown";
      const proven = await store.proven(logNameOf(head.origin), head, recordId);
      return typeof proven === "string" ? proven : receiptOf(head.origin, proven, signedTree(head, signer));
    },
    async checkpoint(text) {
      const head = await named(text, signableHead);
      return head && signer.sign(head);
    },
    async tile(text, path) {
      const tile = parseTilePath(path);
      return tile && named(text, (name) => store.tile(name, tile));
    },
    consistencyProof: (text, first, second) => named(text, (name) => store.consistencyProof(name, first, second)),
  };
}
