/** The anchor in a file, which the replicas of one machine share, and what of the store is not what it says. */
import { type AnchoredLog, anchorProblem, type LogAnchor } from "../../../ledger/ports/anchor.ts";
import type { AnchorFinding } from "../../../ledger/ports/archive.ts";
import type { Hash } from "../../../ledger/tlog/tree.ts";
import { anchorConnection, createAnchor, SqliteAnchor } from "../../sqlite/log/anchor.ts";
import type { Queries, Statement } from "../connection/connection.ts";
import { headOfTenant, readTree } from "./log-rows.ts";

/** Short, because the event loop waits with it. Replicas hold the lock for microseconds. */
const busyTimeoutMs = 500;

/**
 * Opens the file, and creates it where it is missing. Throws `IncompatibleStoreError` where it is something else, a
 * file system or SQLite error where it cannot be used.
 */
export function openFileAnchor(path: string): LogAnchor {
  createAnchor(path, busyTimeoutMs);
  return anchorOf(SqliteAnchor.open({ ...anchorConnection, path, busyTimeoutMs }));
}

/** Opens the file, which must exist, to read it. */
export function readFileAnchor(path: string): LogAnchor {
  return anchorOf(SqliteAnchor.open({ path, readOnly: true, busyTimeoutMs }));
}

function anchorOf(anchor: SqliteAnchor): LogAnchor {
  return {
    find: async (tenantId) => anchor.find(tenantId),
    all: async () => [...anchor.all()],
    storeId: async () => anchor.storeId(),
    adopt: async (storeId, logs) => anchor.adopt(storeId, logs),
    advance: async (logs) => anchor.advance(logs),
    probe: async (nowMs) => anchor.probe(nowMs),
    close: async () => anchor.close(),
  };
}

/** Compares a store with its anchor. */
const identity: Statement = { name: "store_id", text: "SELECT store_id FROM store WHERE singleton = 1" };

/** What tells this store from every other. Rejects where it is not there. */
export async function readStoreId(queries: Queries): Promise<string> {
  const [row] = (await queries.query(identity, [])).rows;
  if (row === undefined) throw new Error("The store has lost its identity.");
  return row.store_id as string;
}

/** Everything in which the store is not what its anchor says. */
export async function findAnchorProblems(queries: Queries, anchor: LogAnchor): Promise<readonly AnchorFinding[]> {
  const anchored = await anchor.storeId();
  if (anchored !== undefined && anchored !== (await readStoreId(queries)))
    return [{ tenantId: undefined, message: "the anchor is the one of another store" }];
  const findings: AnchorFinding[] = [];
  for (const log of await anchor.all()) {
    const message = await problemOf(queries, log);
    if (message !== undefined) findings.push({ tenantId: log.tenantId, message });
  }
  return findings;
}

async function problemOf(queries: Queries, anchored: AnchoredLog): Promise<string | undefined> {
  const { tenantId, origin, size } = anchored;
  try {
    const log = await headOfTenant(queries, tenantId);
    const tree = log !== undefined && size < log.size ? await readTree(queries, tenantId, size) : undefined;
    return anchorProblem(anchored, { log, rootAt: () => tree?.root() as Hash });
  } catch (error) {
    return `log ${origin}: ${error instanceof Error ? error.message : "cannot be read"}`;
  }
}
