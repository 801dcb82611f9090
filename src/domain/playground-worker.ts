/** The thread of `playground.ts`: tries one draft, and answers once. */

import { parentPort, workerData } from "node:worker_threads";
import type { TenantId } from "../base/ids.ts";
import { parseJson } from "../base/json.ts";
import { utf8Text } from "../base/text-forms.ts";
import { type Draft, tryDraft } from "../policy/diff/playground.ts";
import type { PolicyBundle } from "../policy/load/bundle.ts";
import type { PolicySettings } from "../policy/load/directory.ts";
import { type FoundDecision, RecordedComparing } from "./replay.ts";

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
  readonly decisions: readonly FoundDecision[];
  /** Whether there are more decisions since then. */
  readonly isCut: boolean;
}

const { inForce, draft, settings, recorded } = workerData as Trial;
const bundle = parseJson(utf8Text(inForce)) as PolicyBundle;
const answer = await tryDraft(bundle, draft, settings, async (engines) => {
  if (recorded === undefined) return {};
  const comparing = new RecordedComparing(engines);
  for (const decision of recorded.decisions) comparing.add(recorded.tenantId, decision);
  return { recorded: { ...comparing.result(), cut: recorded.isCut } };
});
parentPort?.postMessage(answer);
