/** Textual differences between two bundles, policy by policy, whatever their effect. */
import { isDeepStrictEqual } from "node:util";
import { checkBundle } from "../check/check.ts";
import type { CheckedPolicy } from "../check/check-policy.ts";
import { parsedPolicy } from "../check/check-set.ts";
import { expressionText } from "../evaluate/conditions.ts";
import type { PolicyBundle } from "../load/bundle.ts";

/** A policy, or a member of the manifest, that differs. */
export interface PolicySummary {
  /** Absent for the manifest. */
  readonly set?: string;
  /** `@id` of the policy, or name of the member. */
  readonly id: string;
  readonly change: "added" | "removed" | "changed";
  /** Added (`+`) and removed (`-`) parts, such as `+ action unwrap`. Empty for whole policies and members. */
  readonly lines: readonly string[];
}

/** In the order of the sets and their policies. Ignores layout and file names. */
export function summaryOf(old: PolicyBundle, next: PolicyBundle): readonly PolicySummary[] {
  const [before, after] = [old, next].map((bundle) => checkBundle(bundle).sets) as [PolicySets, PolicySets];
  const sets = new Set([...before.keys(), ...after.keys()]);
  return [
    ...memberSummaries(old, next),
    ...[...sets].flatMap((set) => setSummaries(set, before.get(set), after.get(set))),
  ];
}

type PolicySets = ReadonlyMap<string, readonly CheckedPolicy[]>;

/** Members of the bundle besides its policies. */
const members = [
  ...["manifest", "guidance", "strictness", "keyReferences", "actions", "disclosable", "supportedProfiles"],
  ...["callerAttributes", "entities"],
] as readonly (keyof PolicyBundle)[];

function memberSummaries(old: PolicyBundle, next: PolicyBundle): readonly PolicySummary[] {
  return members.flatMap((id): readonly PolicySummary[] => {
    if (isDeepStrictEqual(old[id], next[id])) return [];
    const change = old[id] === undefined ? "added" : next[id] === undefined ? "removed" : "changed";
    return [{ id: id.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`), change, lines: [] }];
  });
}

function setSummaries(
  set: string,
  before: readonly CheckedPolicy[] = [],
  after: readonly CheckedPolicy[] = [],
): readonly PolicySummary[] {
  const [old, next] = [before, after].map((policies) => new Map(policies.map((policy) => [policy.id, policy])));
  return [...new Set([...before, ...after].map(({ id }) => id))].flatMap((id): readonly PolicySummary[] => {
    const [was, is] = [old?.get(id), next?.get(id)];
    if (was === undefined || is === undefined)
      return [{ set, id, change: is === undefined ? "removed" : "added", lines: [] }];
    if (was.text === is.text) return [];
    const [gone, added] = [partsOf(was), partsOf(is)];
    const lines = [
      ...gone.filter((part) => !added.includes(part)).map((part) => `- ${part}`),
      ...added.filter((part) => !gone.includes(part)).map((part) => `+ ${part}`),
    ];
    return lines.length === 0 ? [] : [{ set, id, change: "changed", lines }];
  });
}

/** Splits a policy into comparable parts. */
function partsOf({ text, effect, actions }: CheckedPolicy): readonly string[] {
  const { principal, resource, conditions, annotations = {} } = parsedPolicy(text);
  return [
    `effect ${effect}`,
    ...[...actions].map((action) => `action ${action}`),
    ...(principal.op === "All" ? [] : [`principal ${JSON.stringify(principal)}`]),
    ...(resource.op === "All" ? [] : [`resource ${JSON.stringify(resource)}`]),
    ...conditions.map(({ kind, body }) => `${kind} ${expressionText(body)}`),
    ...Object.entries(annotations).map(([name, value]) => `@${name}(${JSON.stringify(value ?? "")})`),
  ];
}
