/**
 * A policy bundle: everything that decides, as data. Two bundles with the same content answer every question alike, and
 * the hash of the content is the policy revision.
 */

import canonicalize from "canonicalize";
import { parseJson } from "../../base/json.ts";
import { contentAddress } from "../../base/text-forms.ts";
import type { ArtifactProfile, KeyReferenceRule } from "../../base/vocabulary.ts";
import type { StrictnessOrders } from "../guidance/annotations.ts";
import type { GuidanceDefaults } from "../guidance/guidance.ts";
import type { PolicyAction } from "../model/decision.ts";
import type { DeclaredInputs } from "../model/inputs.ts";
import { otherTenants } from "./manifest.ts";

/** Optional members are absent if they are unused, so that bundles without them have the same content as before. */
export interface PolicyBundle extends DeclaredInputs {
  /** `engineVersion` of the engine that the bundle was loaded for. */
  readonly engine: string;
  /** Text of the Cedar schema that the policies are checked against: `schemaFor` the bundle's declarations. */
  readonly schema: string;
  /** Names of sets: the platform's, and each tenant's by tenant id, `*` for those not named. */
  readonly manifest: { readonly platform: string; readonly tenants: Readonly<Record<string, string>> };
  readonly guidance: GuidanceDefaults;
  readonly strictness: StrictnessOrders;
  readonly keyReferences: readonly KeyReferenceRule[];
  /** Actions by the additional names that enforcement points use. */
  readonly actions?: Readonly<Record<string, PolicyAction>>;
  /** Members of `registered` that obligations may disclose to callers. */
  readonly disclosable?: readonly string[];
  /** Profiles that a policy may choose. */
  readonly supportedProfiles: readonly ArtifactProfile[];
  /** Text of each `*.cedar` file, by set and file name. Sets that the manifest does not name are not here. */
  readonly sets: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/** Name of the tenant's set; undefined if it has none. */
export function tenantSet({ manifest: { tenants } }: PolicyBundle, tenant: string): string | undefined {
  return Object.hasOwn(tenants, tenant) ? tenants[tenant] : tenants[otherTenants];
}

/** Content of a bundle, kept so that its decisions can be evaluated again, and its revision. */
export interface BundleIdentity {
  /** The bundle as canonical JSON (RFC 8785) in UTF-8, in shared memory because it may be megabytes. */
  readonly content: Uint8Array;
  /** `contentAddress` of the content. */
  readonly revision: string;
}

/** Serialises and hashes the bundle, which may be megabytes of text. */
export function identify(bundle: PolicyBundle): BundleIdentity {
  const text = canonicalize(bundle) as string;
  const bytes = Buffer.from(text, "utf8");
  const content = new Uint8Array(new SharedArrayBuffer(bytes.length));
  content.set(bytes);
  return { content, revision: contentAddress(text) };
}

/** The bundle with this content; undefined if the content does not match the revision. */
export function parseBundleContent(content: string, revision: string): PolicyBundle | undefined {
  return contentAddress(content) === revision ? (parseJson(content) as PolicyBundle) : undefined;
}

/**
 * Reason why the bundle must not be shown to this tenant alone; undefined if it may. A bundle may name other tenants,
 * by their sets, by their key references or in policies. The organisation's entities belong to all its tenants.
 *
 * @param others the deployment's other tenants
 */
export function tellsOfOthers(
  { manifest, keyReferences, entities, sets }: Pick<PolicyBundle, "manifest" | "keyReferences" | "entities" | "sets">,
  tenantId: string,
  others: readonly string[],
): string | undefined {
  const named = [
    ...Object.keys(manifest.tenants),
    ...keyReferences.flatMap(({ tenants }) => tenants ?? []),
    ...tenantsIn(
      Object.values(sets).flatMap((files) => Object.values(files)),
      others,
    ),
  ];
  if (named.some((name) => name !== otherTenants && name !== tenantId)) return "it names other tenants too";
  const isOfAll = entities !== undefined && others.length > 0 && Object.hasOwn(manifest.tenants, otherTenants);
  return isOfAll ? "it has the entities of all tenants, and there are others" : undefined;
}

/** Tenants that policies name: any in the ids of principals, and the known ones by themselves in quotes. */
function tenantsIn(policies: readonly string[], known: readonly string[]): readonly string[] {
  const found = (pattern: RegExp) => policies.flatMap((text) => text.match(pattern) ?? []);
  const quoted = new Set(found(/(?<=")[\w.:-]+(?=")/g));
  return [...found(/(?<=\bPrincipal\s*::\s*")[^"/]+(?=\/)/g), ...known.filter((tenant) => quoted.has(tenant))];
}
