/** Compares a store with its anchor. */
import { type AnchoredLog, anchorProblem, type LogAnchor } from "../../../ledger/ports/anchor.ts";
import type { AnchorFinding } from "../../../ledger/ports/archive.ts";
import type { Hash } from "../../../ledger/tlog/tree.ts";
import type { Queries, Statement } from "../connection/session.ts";
import { headOfTenant, readTree } from "./log-rows.ts";

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
