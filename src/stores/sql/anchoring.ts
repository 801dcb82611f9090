/** Compares a store with its anchor. */
import type { TenantId } from "../../base/ids.ts";
import { anchorProblem } from "../../ledger/ports/anchor.ts";
import { type LogState, UnsoundLogError } from "../../ledger/ports/store.ts";
import { MissingTileError } from "../../ledger/tlog/tile-nodes.ts";
import type { Hash } from "../../ledger/tlog/tree.ts";
import type { SqliteAnchor } from "../files/anchor.ts";
import { headOfTenant, readTree } from "./log-rows.ts";
import type { Queries, Statement } from "./queries.ts";

const identity: Statement = { name: "store_id", text: "SELECT store_id FROM store WHERE singleton = 1" };

/** Reads the store's identity. Rejects if it is missing. */
export async function readStoreId(queries: Queries): Promise<string> {
  const [row] = (await queries.query(identity, [])).rows;
  if (typeof row?.store_id !== "string") throw new Error("The store has lost its identity.");
  return row.store_id;
}

/** A contradiction in one tenant's log, or in the whole store if the tenant is undefined. */
export interface AnchorFinding {
  readonly tenantId: TenantId | undefined;
  readonly message: string;
}

/**
 * Lists every difference between the store and its anchor.
 * @param path of the anchor's file, for the message
 */
export async function findAnchorProblems(
  queries: Queries,
  anchor: Pick<SqliteAnchor, "storeId" | "all">,
  path: string,
): Promise<readonly AnchorFinding[]> {
  const anchored = anchor.storeId();
  if (anchored !== undefined && anchored !== (await readStoreId(queries)))
    return [{ tenantId: undefined, message: `${path} is the anchor of another store` }];
  const findings: AnchorFinding[] = [];
  for (const log of anchor.all()) {
    const message = await problemOf(queries, log);
    if (message !== undefined) findings.push({ tenantId: log.tenantId, message });
  }
  return findings;
}

/** A missing tile is a problem of the log; an unreadable store rejects instead. */
async function problemOf(queries: Queries, anchored: LogState): Promise<string | undefined> {
  const { tenantId } = anchored;
  const log = await headOfTenant(queries, tenantId);
  const rootAt = await rootOfAnchored(queries, tenantId, log, anchored);
  return orMessage(() => anchorProblem(anchored, { log, rootAt }));
}

/** Rejects with `UnsoundLogError` if the log contradicts its anchor. */
export async function refuseUnsound(
  queries: Queries,
  tenantId: TenantId,
  log: LogState | undefined,
  anchored: LogState | undefined,
): Promise<void> {
  if (anchored === undefined) return;
  requireSound(anchored, log, await rootOfAnchored(queries, tenantId, log, anchored));
}

/** Throws `UnsoundLogError` if the log contradicts its anchor. */
export function requireSound(
  anchored: LogState | undefined,
  log: LogState | undefined,
  rootAt: (size: number) => Hash,
): void {
  const problem = orMessage(() => anchorProblem(anchored, { log, rootAt }));
  if (problem !== undefined) throw new UnsoundLogError(problem);
}

/** Throws `UnsoundLogError` if a log that is not there was anchored. */
export function requireMissing(anchored: LogState | undefined): void {
  requireSound(anchored, undefined, () => new Uint8Array());
}

/** Returns the root at the anchored size, read from tiles if the log has grown since. */
async function rootOfAnchored(
  queries: Queries,
  tenantId: TenantId,
  log: LogState | undefined,
  { size }: LogState,
): Promise<() => Hash> {
  const tree = log !== undefined && size < log.size ? await readTree(queries, tenantId, size) : undefined;
  return () => tree?.root() as Hash;
}

/** A root that cannot be computed is a problem of the log. */
function orMessage(find: () => string | undefined): string | undefined {
  try {
    return find();
  } catch (error) {
    if (error instanceof MissingTileError) return error.message;
    throw error;
  }
}
