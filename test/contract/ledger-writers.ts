/** Replicas that write without a pause and try again what was refused, and what must be true of all they were told. */
import { createHash } from "node:crypto";
import { expect, vi } from "vitest";
import type { TenantId } from "../../src/base/ids.ts";
import { auditLog } from "../../src/ledger/audit/audit.ts";
import type { Appended, Ledger } from "../../src/ledger/ports/ledger.ts";
import type { NewRecord } from "../../src/ledger/ports/record.ts";
import type { LogState } from "../../src/ledger/ports/store.ts";
import { verifyReceipt } from "../../src/ledger/record/receipt.ts";
import type { NoteVerifier } from "../../src/ledger/tlog/note-keys.ts";
import { RightEdge } from "../../src/ledger/tlog/right-edge.ts";
import { leafHash } from "../../src/ledger/tlog/tree.ts";
import type { OperatorArchive } from "../../src/stores/sql/archive.ts";
import { givenOf } from "./ledger-records.ts";

export interface Writer {
  readonly acknowledged: readonly Appended[];
  /** Appends that ended with `store_unavailable`. */
  readonly refusals: number;
  /** Finishes the appends under way; rejects where one ended with anything but a receipt or `store_unavailable`. */
  stop(): Promise<void>;
}

export interface WriterOptions {
  readonly name: string;
  readonly ledger: Ledger;
  readonly tenants: readonly TenantId[];
  readonly makeRecord: (tenantId: TenantId, changes: Partial<NewRecord>) => NewRecord;
}

/** Appends under way at a time, each to another tenant. */
const bulkhead = 4;

/** Starts a replica that appends to its tenants in turn. A record that was refused comes again, under its own key. */
export function startWriter({ name, ledger, tenants, makeRecord }: WriterOptions): Writer {
  const acknowledged: Appended[] = [];
  let refusals = 0;
  let isStopped = false;
  let turn = 0;
  const appendNext = async () => {
    const tenantId = tenants[turn % tenants.length] as TenantId;
    const scope = createHash("sha256").update(`${name}/${turn++}`).digest("hex");
    const record = makeRecord(tenantId, { idempotency: { scope, payloadDigest: `sha256:${scope}`, answer: {} } });
    const attempt = async (): Promise<Appended | "stopped" | { readonly unexpected: unknown }> => {
      try {
        return await ledger.append(record);
      } catch (error) {
        if ((error as { reason?: unknown }).reason !== "store_unavailable") return { unexpected: error };
        refusals += 1;
        if (isStopped) return "stopped";
        throw error;
      }
    };
    const outcome = await vi.waitFor(attempt, { timeout: 20_000, interval: 20 });
    if (outcome === "stopped") return;
    if ("unexpected" in outcome) throw outcome.unexpected;
    acknowledged.push(outcome);
  };
  const work = Array.from({ length: bulkhead }, async () => {
    while (!isStopped) await appendNext();
  });
  const done = Promise.all(work);
  // Told to who stops it.
  done.catch(() => {});
  return {
    acknowledged,
    get refusals() {
      return refusals;
    },
    async stop() {
      isStopped = true;
      await done;
    },
  };
}

/** A log as anyone could compute it from its leaves. */
interface History {
  /** By leaf index. */
  readonly recordIds: readonly string[];
  /** Base64, by tree size. */
  readonly roots: readonly string[];
}

/**
 * Every log audits clean; every record that was acknowledged stands at the index of its receipt, at no other and alone
 * there; every receipt verifies, and is of a tree that this history passed through.
 */
export async function expectOneHistory(
  archive: OperatorArchive,
  acknowledged: readonly Appended[],
  verifierOf: (origin: string) => Promise<NoteVerifier>,
): Promise<void> {
  const histories = new Map<string, History>();
  for (const head of await archive.logs()) {
    expect(await auditLog(archive, head)).not.toHaveProperty("problem");
    histories.set(head.origin, await historyOf(archive, head));
  }
  const lost = acknowledged.filter(
    ({ log, leafIndex, recordId }) => histories.get(log)?.recordIds[leafIndex] !== recordId,
  );
  expect(lost.map(({ log, leafIndex }) => `${log} ${leafIndex}`)).toEqual([]);
  for (const { recordIds } of histories.values()) expect(new Set(recordIds).size).toBe(recordIds.length);
  expect(new Set(acknowledged.map(({ log, leafIndex }) => `${log} ${leafIndex}`)).size).toBe(acknowledged.length);
  for (const { receipt, recordId, leafIndex } of acknowledged) {
    const verified = verifyReceipt(givenOf(receipt), await verifierOf(receipt.logOrigin));
    expect(verified).toMatchObject({ leafIndex, record: { record_id: recordId } });
    const root = histories.get(receipt.logOrigin)?.roots[receipt.treeSize];
    expect(Buffer.from(verified.root).toString("base64")).toBe(root);
  }
}

async function historyOf(archive: OperatorArchive, head: LogState): Promise<History> {
  const edge = new RightEdge();
  const rootNow = () => Buffer.from(edge.tree().root()).toString("base64");
  const recordIds: string[] = [];
  const roots = [rootNow()];
  for await (const { leaf, recordId } of archive.entries(head, 0, head.size)) {
    edge.append(leafHash(leaf));
    recordIds.push(recordId);
    roots.push(rootNow());
  }
  return { recordIds, roots };
}
