/** Compares a store with its anchor, for commands that look beside a running service. */
import { existsSync } from "node:fs";
import type { TenantId } from "../../base/ids.ts";
import { type AnchoredLog, anchorProblem } from "../../ledger/anchor.ts";
import type { LogState } from "../../ledger/store.ts";
import { anchorConnection, SqliteAnchor } from "./anchor.ts";
import { openConnection } from "./connection.ts";
import type { LogWalk } from "./log-walk.ts";
import type { StorePlace } from "./place.ts";

const busyTimeoutMs = 10_000;

/** One thing that does not hold; of one tenant's log, or of all where the tenant is undefined. */
export interface AnchorFinding {
  readonly tenantId: TenantId | undefined;
  readonly message: string;
}

/** Everything in which the store is not what its anchor says. */
export function readAnchorProblems(place: StorePlace, walk: LogWalk): readonly AnchorFinding[] {
  if (!existsSync(place.anchorPath))
    return walk.isAnchored() ? [{ tenantId: undefined, message: `${place.anchorPath} is missing` }] : [];
  const anchor = new SqliteAnchor(openConnection({ path: place.anchorPath, busyTimeoutMs, readOnly: true }));
  try {
    const storeId = anchor.storeId();
    if (storeId !== undefined && storeId !== walk.storeId())
      return [{ tenantId: undefined, message: `${place.anchorPath} is the anchor of another store` }];
    return [...anchor.all()].flatMap((anchored) => {
      const message = problemOf(walk, anchored);
      return message === undefined ? [] : [{ tenantId: anchored.tenantId, message }];
    });
  } finally {
    anchor.close();
  }
}

/**
 * Advances the anchor to a committed state of a log, so that this state may be signed. Returns what forbids it.
 */
export function anchorForSigning(place: StorePlace, walk: LogWalk, head: LogState): string | undefined {
  const [problem] = readAnchorProblems(place, walk).filter(
    ({ tenantId }) => tenantId === undefined || tenantId === head.tenantId,
  );
  if (problem !== undefined) return problem.message;
  const anchor = new SqliteAnchor(openConnection({ ...anchorConnection, path: place.anchorPath, busyTimeoutMs }));
  try {
    anchor.advance([head]);
    return undefined;
  } finally {
    anchor.close();
  }
}

/**
 * The walk sees the store as it was when it was opened, and the service may have advanced the anchor since: then the
 * newest head is looked at.
 */
function problemOf(walk: LogWalk, anchored: AnchoredLog): string | undefined {
  return walk.withNewest((rows) => {
    const log = rows.headOfTenant(anchored.tenantId);
    try {
      return anchorProblem(anchored, { log, rootAt: (size) => rows.rootAt(anchored.tenantId, size) });
    } catch (error) {
      return `log ${anchored.origin}: ${error instanceof Error ? error.message : "cannot be read"}`;
    }
  });
}
