/** Compares a store with its anchor. */
import type { TenantId } from "../../base/ids.ts";
import { type LogState, UnsoundLogError } from "../../ledger/ports/store.ts";
import { MissingTileError } from "../../ledger/tlog/tile-nodes.ts";
import { type Hash, sameHash } from "../../ledger/tlog/tree.ts";
import type { SqliteAnchor } from "../files/anchor.ts";
import { headOfTenant, readTree } from "./log-rows.ts";
import type { Queries } from "./queries.ts";

const identity = "SELECT store_id FROM store WHERE singleton = 1";

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

/** Lists every difference between the store and its anchor. */
export async function findAnchorProblems(
  queries: Queries,
  anchor: Pick<SqliteAnchor, "path" | "storeId" | "all">,
): Promise<readonly AnchorFinding[]> {
  const anchored = anchor.storeId();
  if (anchored !== undefined && anchored !== (await readStoreId(queries)))
    return [{ tenantId: undefined, message: `${anchor.path} is the anchor of another store` }];
  const findings: AnchorFinding[] = [];
  for (const log of anchor.all()) {
    const message = await problemOf(queries, await headOfTenant(queries, log.tenantId), log);
    if (message !== undefined) findings.push({ tenantId: log.tenantId, message });
  }
  return findings;
}

/** Rejects with `UnsoundLogError` if the log contradicts its anchor. */
export async function refuseUnsound(
  queries: Queries,
  log: LogState | undefined,
  anchored: LogState | undefined,
): Promise<void> {
  const problem = anchored && (await problemOf(queries, log, anchored));
  if (problem !== undefined) throw new UnsoundLogError(problem);
}

/** Throws `UnsoundLogError` if the log contradicts its anchor. */
export function requireSound(
  anchored: LogState | undefined,
  log: LogState | undefined,
  rootAt: (size: number) => Hash,
): void {
  if (anchored === undefined) return;
  const problem = anchorProblem(anchored, log, rootAt);
  if (problem !== undefined) throw new UnsoundLogError(problem);
}

/** As `anchorProblem`. The root at the anchored size is read from tiles if the log has grown since. */
async function problemOf(queries: Queries, log: LogState | undefined, anchored: LogState): Promise<string | undefined> {
  const isGrown = log !== undefined && anchored.size < log.size;
  const tree = isGrown ? await readTree(queries, anchored.tenantId, anchored.size) : undefined;
  return anchorProblem(anchored, log, () => tree?.root() as Hash);
}

/**
 * Returns the contradiction between a log and its anchor, for the operator; undefined if there is none. A missing tile
 * is a problem of the log.
 */
function anchorProblem(
  { origin, size, root }: LogState,
  log: LogState | undefined,
  rootAt: (size: number) => Hash,
): string | undefined {
  if (log === undefined) return `log ${origin} with ${size} leaves is missing from the store`;
  if (log.origin !== origin) return `log ${origin} was replaced by ${log.origin}`;
  if (log.size < size) return `log ${origin} has ${log.size} leaves, and had ${size}: the store is an older copy`;
  try {
    if (sameHash(log.size === size ? log.root : rootAt(size), root)) return undefined;
  } catch (error) {
    if (error instanceof MissingTileError) return error.message;
    throw error;
  }
  return `log ${origin} was rewritten before leaf ${size}`;
}
