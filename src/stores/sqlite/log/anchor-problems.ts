/** Compares a store with its anchor, for commands that look beside a running service. */
import { existsSync } from "node:fs";
import type { TenantId } from "../../../base/ids.ts";
import { type AnchoredLog, anchorProblem } from "../../../ledger/ports/anchor.ts";
import type { AnchorFinding } from "../../../ledger/ports/archive.ts";
import { SqliteAnchor } from "./anchor.ts";
import type { LogRows } from "./log-rows.ts";

/** A store beside its anchor. */
export interface AnchoredStore {
  isAnchored(): boolean;
  storeId(): string;
  /** Reads the newest committed state. */
  withNewest<Result>(read: (rows: LogRows) => Result): Result;
}

const busyTimeoutMs = 10_000;

/** Everything in which the store is not what its anchor says. */
export function readAnchorProblems(anchorPath: string, archive: AnchoredStore): readonly AnchorFinding[] {
  if (!existsSync(anchorPath))
    return archive.isAnchored() ? [{ tenantId: undefined, message: `${anchorPath} is missing` }] : [];
  const anchor = SqliteAnchor.open({ path: anchorPath, busyTimeoutMs, readOnly: true });
  try {
    const storeId = anchor.storeId();
    if (storeId !== undefined && storeId !== archive.storeId())
      return [{ tenantId: undefined, message: `${anchorPath} is the anchor of another store` }];
    return [...anchor.all()].flatMap((anchored) => {
      const message = problemOf(archive, anchored);
      return message === undefined ? [] : [{ tenantId: anchored.tenantId, message }];
    });
  } finally {
    anchor.close();
  }
}

/** What the anchor knows of a log; `unanchored` where nothing was ever anchored: the file is missing, or new. */
export function readAnchored(anchorPath: string, tenantId: TenantId): AnchoredLog | "unknown" | "unanchored" {
  if (!existsSync(anchorPath)) return "unanchored";
  const anchor = SqliteAnchor.open({ path: anchorPath, busyTimeoutMs, readOnly: true });
  try {
    return anchor.storeId() === undefined ? "unanchored" : (anchor.find(tenantId) ?? "unknown");
  } finally {
    anchor.close();
  }
}

/**
 * The archive sees the store as it was when it was opened, and the service may have advanced the anchor since: then
 * the newest head is looked at.
 */
function problemOf(archive: AnchoredStore, anchored: AnchoredLog): string | undefined {
  return archive.withNewest((rows) => {
    const log = rows.headOfTenant(anchored.tenantId);
    try {
      return anchorProblem(anchored, { log, rootAt: (size) => rows.rootAt(anchored.tenantId, size) });
    } catch (error) {
      return `log ${anchored.origin}: ${error instanceof Error ? error.message : "cannot be read"}`;
    }
  });
}
