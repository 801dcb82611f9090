/**
 * The same rules in two languages: ours and the peer's. One permit, and the other rules prohibitions, of four kinds in
 * turn. None of them applies to the measured request, so that every one has to be evaluated.
 */

import { mkdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";

/** Text of each file by its path in a policy directory. */
export type Files = Readonly<Record<string, string>>;

/** Writes them below the directory. */
export function writeFiles(directory: string, files: Files): void {
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    writeFileSync(join(directory, path), text);
  }
}

/** One rule in both languages. */
interface Rule {
  readonly cedar: string;
  readonly cel: string;
}

/** Rules by kind; `n` makes each of them different. */
const kinds: readonly ((n: string) => Rule)[] = [
  (n) => ({
    cedar: `context.claimed.resource.kind == "kind-${n}" && context.claimed.labels.contains("label-${n}")`,
    cel: `R.attr.kind == "kind-${n}" && "label-${n}" in R.attr.labels`,
  }),
  (n) => ({
    cedar: `context.claimed.attributes.hasTag("region") && context.claimed.attributes.getTag("region") == "region-${n}" && context.claimed.workload has environment && context.claimed.workload.environment == "production"`,
    cel: `has(R.attr.attributes.region) && R.attr.attributes.region == "region-${n}" && has(R.attr.workload.environment) && R.attr.workload.environment == "production"`,
  }),
  (n) => ({
    cedar: `context.claimed has purpose && context.claimed.purpose == "purpose-${n}" && context.claimed.workload.application == "application-${n}"`,
    cel: `has(R.attr.purpose) && R.attr.purpose == "purpose-${n}" && R.attr.workload.application == "application-${n}"`,
  }),
  (n) => ({
    cedar: `principal.scopes.contains("scope-${n}") && context.claimed.resource.kind != "record-${n}"`,
    cel: `"scope-${n}" in P.attr.scopes && R.attr.kind != "record-${n}"`,
  }),
];

function rules(number: number, salt = ""): readonly Rule[] {
  return Array.from({ length: number }, (_, n) => (kinds[n % kinds.length] as (n: string) => Rule)(`${n}${salt}`));
}

/** Policies of a set: the permit and `number` - 1 prohibitions. `salt` makes each of these different. */
function policySet(number: number, salt?: string): string {
  const forbids = rules(number - 1, salt).map(
    ({ cedar }, n) =>
      `@id("forbid-${n}")\nforbid (principal, action == Action::"protect", resource)\nwhen { ${cedar} };`,
  );
  return ['@id("permit")\npermit (principal, action, resource);', ...forbids].join("\n\n");
}

/**
 * A directory in which each tenant's set has `number` policies, different ones for each tenant or the same for all; the
 * platform's has one that permits. Another `edition` has other policies.
 */
export function policyFiles(number: number, tenants: readonly string[] = ["*"], areAlike = true, edition = ""): Files {
  const sets = tenants.map((tenant, index) => [tenant, `set-${index}`] as const);
  return {
    "manifest.yaml": [
      "platform: platform",
      "tenants:",
      ...sets.map(([tenant, set]) => `  "${tenant}": ${set}`),
      "",
    ].join("\n"),
    "platform/permit.cedar": '@id("permit")\npermit (principal, action, resource);\n',
    ...Object.fromEntries(
      sets.map(([, set]) => [`${set}/policies.cedar`, policySet(number, areAlike ? edition : `-of-${set}${edition}`)]),
    ),
  };
}

/** The peer's policy with the same `number` of rules, by path. */
export function peerPolicy(number: number): Files {
  const denies = rules(number - 1).map(({ cel }) => ({
    actions: ["protect"],
    effect: "EFFECT_DENY",
    roles: ["*"],
    condition: { match: { expr: cel } },
  }));
  const allow = { actions: ["*"], effect: "EFFECT_ALLOW", roles: ["*"] };
  const policy = { resource: "data", version: "default", rules: [allow, ...denies] };
  // JSON is valid YAML.
  return { "data.yaml": JSON.stringify({ apiVersion: "api.cerbos.dev/v1", resourcePolicy: policy }) };
}
