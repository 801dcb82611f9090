/** The thread of `playground.ts`: tries one draft, and answers once. */

import { parentPort, workerData } from "node:worker_threads";
import type { TenantId } from "../base/ids.ts";
import { parseJson } from "../base/json.ts";
import { utf8Text } from "../base/text-forms.ts";
import type { StoredRecord } from "../ledger/ports/record.ts";
import type { FoundRecord } from "../ledger/ports/search.ts";
import { type Draft, tryDraft } from "../policy/diff/playground.ts";
import type { PolicyBundle } from "../policy/load/bundle.ts";
import type { PolicySettings } from "../policy/load/directory.ts";
import { compareRecorded } from "./replay.ts";

/** What the thread needs. */
export interface Trial {
  /** Content of the revision in force, in UTF-8. */
  readonly inForce: Uint8Array;
  readonly draft: Draft;
  readonly settings: PolicySettings;
  readonly recorded: RecordedSample | undefined;
}

export interface RecordedSample {
  readonly tenantId: TenantId;
  readonly found: readonly FoundRecord[];
  /** The decisions, and the registrations that they relied on. */
  readonly records: ReadonlyMap<string, StoredRecord | "unknown" | "erased">;
  /** Whether there are more decisions since then. */
  readonly isCut: boolean;
}

const { inForce, draft, settings, recorded } = workerData as Trial;
const bundle = parseJson(utf8Text(inForce)) as PolicyBundle;
const answer = await tryDraft(bundle, draft, settings, async (engines) => {
  if (recorded === undefined) return {};
  const { tenantId, found, records, isCut } = recorded;
  const archive = {
    search: async () => ({ found, size: 0 }),
    find: async (_: unknown, id: string) => records.get(id) ?? ("unknown" as const),
  };
  const compared = await compareRecorded(archive, [tenantId], 0, engines, () => {});
  return { recorded: { ...compared, cut: isCut } };
});
parentPort?.postMessage(answer);
