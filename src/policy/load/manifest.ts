/**
 * The manifest of a policy directory, `manifest.yaml` (JSON is YAML too, so `manifest.json` is accepted).
 * docs/reference/policies.md lists its members. Without a set for `*`, every question of a tenant that is not named is
 * denied.
 */
import type { Node } from "yaml";
import { parseTenantId } from "../../base/ids.ts";
import { defined } from "../../base/json.ts";
import { type ArtifactProfile, artifactProfiles } from "../../base/vocabulary.ts";
import {
  type AnnotationRules,
  parseList,
  parseScalar,
  profileStrictness,
  type ScalarName,
  type StrictnessOrders,
} from "../guidance/annotations.ts";
import { type GuidanceDefaults, guidanceDefaults } from "../guidance/guidance.ts";
import { parseKeyTransport } from "../guidance/key-references.ts";
import { namePattern, scalarInput } from "../guidance/obligations.ts";
import type { PolicyAction } from "../model/decision.ts";
import { principalReference } from "../model/entities.ts";
import { type DeclaredInputs, inputCatalogue } from "../model/inputs.ts";
import type { PolicyProblem } from "../model/problem.ts";
import { policyActions } from "../model/schema.ts";
import { type EntitiesMember, readCallerAttributes, readDeclaredEntities } from "./declarations.ts";
import { type ManifestNode, ManifestReader, textsOf, wordOf } from "./manifest-reader.ts";

/** Content of a manifest, with its guidance merged over the defaults. */
interface Manifest {
  /** Name of the platform's set. */
  readonly platform: string;
  /** Name of each tenant's set, by tenant id; `*` for the others. */
  readonly tenants: Readonly<Record<string, string>>;
  readonly guidance: GuidanceDefaults;
  readonly strictness: StrictnessOrders;
  /** Without entities, whose files are not read yet. */
  readonly declared: Omit<DeclaredInputs, "entities">;
  readonly entities?: EntitiesMember;
  /** Actions by the additional names that enforcement points use; absent if the manifest maps none. */
  readonly actions?: Readonly<Record<string, PolicyAction>>;
  /** Members of `registered` that obligations may disclose to callers; absent if the manifest names none. */
  readonly disclosable?: readonly string[];
}

/** Key of the tenants' map for tenants that are not named. No tenant id contains it. */
export const otherTenants = "*";

const modeNames = ["handling_mode", "enforcement_mode", "local_enforcement_library", "authorization_strategy"] as const;
const orderableNames: readonly ScalarName[] = [...modeNames, "key_strategy"];

/**
 * Reads a manifest. All its problems are in `problems`; the returned manifest has what could be read, so that the
 * policies' own problems can be found in the same run.
 */
export function parseManifest(
  file: string,
  text: string,
  supportedProfiles: readonly ArtifactProfile[],
): { readonly manifest: Manifest; readonly problems: readonly PolicyProblem[] } {
  const reader = new ManifestReader(file, text);
  const top = reader.members(reader.document.contents, "the manifest", [
    ...["platform", "tenants", "guidance", "strictness", "caller_attributes", "disclosable", "actions", "entities"],
  ]);
  const strictness = { ...readStrictness(reader, top.get("strictness")), artifact_profile: profileStrictness };
  const rules: AnnotationRules = { supportedProfiles, strictness };
  const callerAttributes = readCallerAttributes(reader, top.get("caller_attributes"));
  const declared: DeclaredInputs = { ...(callerAttributes !== undefined && { callerAttributes }) };
  const disclosable = readDisclosable(reader, top.get("disclosable"), declared);
  const actions = readActions(reader, top.get("actions"));
  const entities = readDeclaredEntities(reader, top.get("entities"));
  if (entities?.references.principal !== undefined && callerAttributes?.[principalReference] !== undefined) {
    const hint = "give the attribute another name";
    reader.problem(top.get("entities"), `principal.${principalReference} is both an attribute and an entity`, hint);
  }
  const manifest: Manifest = {
    platform: reader.setName(top.get("platform"), "platform") ?? "",
    tenants: readTenants(reader, top.get("tenants")),
    guidance: readGuidance(reader, top.get("guidance"), rules),
    strictness,
    declared,
    ...defined({ entities, disclosable, actions }),
  };
  return { manifest, problems: reader.problems };
}

function readTenants(reader: ManifestReader, node: ManifestNode): Manifest["tenants"] {
  const tenants: Record<string, string> = {};
  for (const [tenant, value] of reader.members(node, "tenants")) {
    if (tenant !== otherTenants && parseTenantId(tenant) === undefined) {
      reader.problem(value, `${JSON.stringify(tenant)} is not a tenant id`, 'name a tenant, or "*" for all others');
      continue;
    }
    const set = reader.setName(value, `the set of tenant ${tenant}`);
    if (set !== undefined) tenants[tenant] = set;
  }
  return tenants;
}

function readDisclosable(
  reader: ManifestReader,
  node: ManifestNode,
  declared: DeclaredInputs,
): readonly string[] | undefined {
  if (node === undefined) return undefined;
  const catalogue = inputCatalogue(declared);
  const items = textsOf(node) ?? [""];
  const unknown = items.filter((item) => scalarInput(`registered.${item}`, catalogue) === undefined);
  for (const item of unknown) {
    const hint = "a list of what policies read under context.registered, such as resource.id or attributes.owner";
    reader.problem(node, `disclosable must list members of one value, which ${JSON.stringify(item)} is not`, hint);
  }
  return items.length === 0 || unknown.length > 0 ? undefined : [...new Set(items)].sort();
}

/** The service's own action names cannot be mapped. */
function readActions(reader: ManifestReader, node: ManifestNode): Manifest["actions"] {
  if (node === undefined) return undefined;
  const actions = [...reader.members(node, "actions")].flatMap(([name, value]) => {
    const action = wordOf(policyActions, value);
    if (action === undefined) reader.problem(value, `actions.${name} must be one of ${policyActions.join(", ")}`);
    const isTaken = policyActions.some((known) => known === name) || name.length < 1 || name.length > 256;
    if (isTaken)
      reader.problem(value, `actions.${name} cannot be mapped`, "map names of 1 to 256 characters other than actions");
    return action === undefined || isTaken ? [] : [[name, action] as const];
  });
  return actions.length === 0 ? undefined : Object.fromEntries(actions.sort(([a], [b]) => (a < b ? -1 : 1)));
}

function readStrictness(reader: ManifestReader, node: ManifestNode): StrictnessOrders {
  const orders: Partial<Record<ScalarName, readonly string[]>> = {};
  if (node === undefined) return orders;
  const members = reader.members(node, "strictness", orderableNames);
  for (const name of orderableNames) {
    const value = members.get(name);
    if (value === undefined) continue;
    const items = textsOf(value) ?? [];
    if (items.length < 2 || new Set(items).size < items.length || !items.every((item) => namePattern.test(item))) {
      reader.problem(value, `strictness.${name} must list at least two different words, the strictest last`);
    } else orders[name] = items;
  }
  return orders;
}

function readGuidance(reader: ManifestReader, node: ManifestNode, rules: AnnotationRules): GuidanceDefaults {
  const known = [...modeNames, "artifact_profile", "key_strategy", "bind_policy_to", "key_transport"];
  const members = node === undefined ? new Map<string, Node | null>() : reader.members(node, "guidance", known);
  // An invalid member keeps its default.
  const read = <Value>(name: string, parse: (text: string) => Value): Value | undefined =>
    members.has(name) ? reader.parse(members.get(name), `guidance.${name}`, parse) : undefined;
  const scalar = (name: ScalarName) => read(name, (text) => parseScalar(name, text, rules));
  const guidance: GuidanceDefaults = {
    ...guidanceDefaults,
    ...defined({
      handling_mode: scalar("handling_mode"),
      enforcement_mode: scalar("enforcement_mode"),
      local_enforcement_library: scalar("local_enforcement_library"),
      authorization_strategy: scalar("authorization_strategy"),
      artifact_profile: scalar("artifact_profile") as ArtifactProfile | undefined,
      key_strategy: read("key_strategy", (text) => {
        const managed = parseScalar("key_strategy", text, rules);
        return { local: { tdf: managed, envelope: managed, detached_signature: managed }, managed };
      }),
      bind_policy_to: read("bind_policy_to", (text) => parseList("bind_policy_to", text, rules)),
      key_transport: members.has("key_transport") ? readTransports(reader, members.get("key_transport")) : undefined,
    }),
  };
  if (!rules.supportedProfiles.includes(guidance.artifact_profile) && !members.has("artifact_profile")) {
    reader.problem(
      node,
      `the default profile ${guidance.artifact_profile} is not supported by this deployment`,
      `set guidance.artifact_profile to one of ${rules.supportedProfiles.join(", ")}`,
    );
  }
  return guidance;
}

function readTransports(reader: ManifestReader, node: ManifestNode): GuidanceDefaults["key_transport"] {
  const members = reader.members(node, "guidance.key_transport", artifactProfiles);
  const transports = artifactProfiles
    .filter((profile) => members.has(profile))
    .map((profile) => {
      return [profile, reader.parse(members.get(profile), `guidance.key_transport.${profile}`, parseKeyTransport)];
    });
  return defined(Object.fromEntries(transports));
}
