/** The revision in force, as far as a store shows it. */
import { existsSync } from "node:fs";
import type { TenantId } from "../../base/ids.ts";
import type { StoreArchive } from "../../ledger/ports/archive.ts";
import { parseLeaf } from "../../ledger/record/leaf.ts";
import type { Context } from "../frame/command.ts";
import type { Refusal } from "../frame/output.ts";
import { inStore, withArchive } from "../frame/store.ts";

/** The newest decision of a tenant: its revision was in force then, and may still be. */
export interface NewestDecision {
  readonly policyRevision: string;
  /** RFC 3339. */
  readonly recordedAt: string;
}

/**
 * Leaves that are read at once, from the end of the log, and their maximum in total: older ones are not significant.
 */
const blockLeaves = 256;
const maxLeaves = 16_384;

/** The tenant's newest decision; undefined if it has none, or none among its last `maxLeaves` records. */
export async function newestDecision(
  archive: Pick<StoreArchive, "logs" | "entries">,
  tenantId: TenantId,
): Promise<NewestDecision | undefined> {
  const head = (await archive.logs()).find((log) => log.tenantId === tenantId);
  if (head === undefined) return undefined;
  for (let end = head.size; end > Math.max(0, head.size - maxLeaves); end -= blockLeaves) {
    let newest: NewestDecision | undefined;
    for await (const { leaf } of archive.entries(head, Math.max(0, end - blockLeaves), end)) {
      const { policy_revision: policyRevision, recorded_at: recordedAt } = parseLeaf(leaf);
      if (policyRevision !== undefined) newest = { policyRevision, recordedAt };
    }
    if (newest !== undefined) return newest;
  }
  return undefined;
}

/** The same from the store of the settings, if there is one; or a text that describes the store's problem. */
export async function lookUpNewestDecision(
  { load }: Pick<Context, "load">,
  tenantId: TenantId,
): Promise<NewestDecision | string | undefined> {
  const { store } = load("ledger");
  if (store.kind === "sqlite" && !existsSync(store.path)) return undefined;
  const looked = inStore(() => withArchive({ load }, ({ archive }) => newestDecision(archive, tenantId)));
  return looked.catch((error: Refusal) => error.message);
}

/** Warnings for readers of an answer of this revision. */
export function revisionWarnings(
  revision: string,
  tenantId: TenantId,
  newest: NewestDecision | string | undefined,
): readonly string[] {
  if (newest === undefined) return [];
  if (typeof newest === "string") return [`whether this revision is in force is not known: ${newest}`];
  if (newest.policyRevision === revision) return [];
  return [
    `this revision is not in force: the newest decision of ${tenantId}, of ${newest.recordedAt}, ` +
      `was made under ${newest.policyRevision}`,
  ];
}
