/** The policies that the operator listener shows: in force, as they were, and drafts beside them. */
import * as fileSystem from "node:fs/promises";
import { ServiceError } from "../base/errors.ts";
import type { TenantId } from "../base/ids.ts";
import { atOnce, type Timers } from "../base/timers.ts";
import type { PublishedLogs, RecordArchive } from "../ledger/ports/ledger.ts";
import { parseLeaf } from "../ledger/record/leaf.ts";
import { entriesIn, tilePath, tileWidth } from "../ledger/tlog/tiles.ts";
import type { ServedPolicies } from "../ops/ledger-access.ts";
import type { PolicyHolder } from "../policy/engine/holder.ts";
import { identify, type PolicyBundle, parseBundleContent } from "../policy/load/bundle.ts";
import { readPolicyDirectory } from "../policy/load/directory.ts";
import { copyPolicyFiles, fileSystemOf } from "../policy/load/file-texts.ts";
import { otherTenants } from "../policy/load/manifest.ts";
import type { FirstPolicySettings } from "./first-policy.ts";

/** Bundles of 256 leaves that are read for revisions, from the end of a log. */
const maxBundles = 64;
/** Larger directories do not fit into a draft. */
const maxFilesChars = 900_000;

export function servedPolicies(
  settings: FirstPolicySettings,
  logs: Pick<PublishedLogs, "search" | "tile"> & Pick<RecordArchive, "find" | "policyRevision">,
  policy: PolicyHolder,
  timers: Timers,
): ServedPolicies {
  return {
    async overview(log, tenantId, isWhole) {
      const own = policy.engine.setOf("tenant", tenantId);
      const sets = [
        ...(isWhole ? [["platform", policy.engine.setOf("platform", tenantId)] as const] : []),
        ["tenant", own] as const,
      ];
      return {
        current_revision: policy.revision,
        policies: sets.flatMap(([layer, set]) =>
          policy.engine.policies
            .filter((one) => one.set === set)
            .map(({ id, file, line, effect, description }) => ({ layer, set, id, file, line, effect, description })),
        ),
        ...(await revisionsIn(log, logs)),
      };
    },
    async texts(tenantId, revision, isWhole) {
      const content = await logs.policyRevision(revision);
      const bundle = content === undefined ? undefined : parseBundleContent(content, revision);
      if (bundle === undefined) throw new ServiceError("no_route", "there is no such policy revision");
      return { revision, layers: layersOf(bundle, tenantId, isWhole) };
    },
    async files() {
      const files = await copyPolicyFiles(settings.policyDir, fileSystem, settings);
      if (Object.values(files).reduce((sum, { length }) => sum + length, 0) > maxFilesChars)
        throw new ServiceError(
          "invalid_request",
          "the policy directory is too large for the playground: use policy diff",
        );
      const { bundle } = await readPolicyDirectory("/", fileSystemOf(files), settings);
      const isInForce = bundle !== undefined && atOnce(identify(bundle)).revision === policy.revision;
      return { current_revision: policy.revision, in_force: isInForce, files };
    },
    async tryDraft(log, tenantId, { files, questions, fromMs }, signal) {
      const { runTrial } = await import("../domain/playground.ts");
      const { keyReferences, supportedProfiles } = settings;
      const trial = {
        inForce: policy.engine.contentBytes,
        draft: { files, questions },
        settings: { keyReferences, supportedProfiles },
      };
      const source = {
        search: (query: Parameters<PublishedLogs["search"]>[1]) => logs.search(log, query),
        find: logs.find,
      };
      const since = fromMs === undefined ? undefined : { tenantId, fromMs };
      return { current_revision: policy.revision, ...(await runTrial(trial, since, source, timers, signal)) };
    },
  };
}

/** What decides for the tenant: texts of its sets by file. */
function layersOf({ manifest, sets }: PolicyBundle, tenantId: TenantId, isWhole: boolean) {
  const { platform, tenants } = manifest;
  const own = Object.hasOwn(tenants, tenantId) ? tenants[tenantId] : tenants[otherTenants];
  const named = [...(isWhole ? [["platform", platform] as const] : []), ["tenant", own] as const];
  return named.flatMap(([layer, set]) => (set === undefined ? [] : [{ layer, set, files: sets[set] ?? {} }]));
}

/** Revisions under which the log has decisions, the newest first, as far as its newest leaves show. */
async function revisionsIn(log: string, logs: Pick<PublishedLogs, "search" | "tile">) {
  const size = (await logs.search(log, { terms: [], limit: 1 }))?.size ?? 0;
  const found = new Map<string, { readonly last_at: string; first_at: string; decisions: number }>();
  const last = Math.ceil(size / tileWidth) - 1;
  const first = Math.max(0, last - maxBundles + 1);
  for (let index = last; index >= first; index--) {
    const width = Math.min(tileWidth, size - index * tileWidth);
    const bundle = await logs.tile(log, tilePath({ level: "entries", index, width }));
    for (const leaf of [...entriesIn(bundle ?? new Uint8Array())].reverse()) {
      const { policy_revision: revision, recorded_at: at } = parseLeaf(leaf);
      if (revision === undefined) continue;
      const seen = found.get(revision) ?? { last_at: at, first_at: at, decisions: 0 };
      found.set(revision, Object.assign(seen, { first_at: at, decisions: seen.decisions + 1 }));
    }
  }
  return {
    revisions: [...found].map(([revision, seen]) => ({ revision, ...seen })),
    leaves: { from: first * tileWidth, to: size },
  };
}
