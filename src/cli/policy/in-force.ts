/** Which revision is in force, as far as a store shows it. */
import { existsSync } from "node:fs";
import type { TenantId } from "../../base/ids.ts";
import type { StoreArchive } from "../../ledger/ports/archive.ts";
import { parseLeaf } from "../../ledger/record/leaf.ts";
import { storeBackend } from "../../stores/backends.ts";
import { type CommonOptions, loadOrReport, storeProblem } from "../options.ts";
import type { Output } from "../output.ts";

/** The newest decision of a tenant: what decided it was in force then, and nothing shows that it is no longer. */
export interface NewestDecision {
  readonly policyRevision: string;
  /** RFC 3339. */
  readonly recordedAt: string;
}

/** Leaves that are read at once, from the end of the log, and how many are in all: what is older says little. */
const blockLeaves = 256;
const maxLeaves = 16_384;

/** The tenant's newest decision; undefined where it has none, or none among its last `maxLeaves` records. */
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

/** The same from the store of the settings, where there is one; a problem of it is a line of text. */
export async function lookUpNewestDecision(
  options: CommonOptions,
  output: Output,
  tenantId: TenantId,
): Promise<NewestDecision | string | undefined> {
  const settings = loadOrReport("policy_replay", options, output);
  if (settings === undefined || (settings.store.kind === "sqlite" && !existsSync(settings.store.path)))
    return undefined;
  try {
    const archive = await (await storeBackend(settings)).openArchive();
    try {
      return await newestDecision(archive, tenantId);
    } finally {
      await archive.close();
    }
  } catch (error) {
    return storeProblem(error);
  }
}

/** What a person should know who reads an answer of this revision. */
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
