/**
 * A policy bundle: everything that decides, as data. Two bundles with the same content answer every question alike,
 * and the hash of the content is the policy revision.
 */
import { createHash } from "node:crypto";
import canonicalize from "canonicalize";
import type { ArtifactProfile } from "../../base/vocabulary.ts";
import type { PolicyAction } from "../engine/decision.ts";
import type { DeclaredInputs } from "../engine/inputs.ts";
import type { StrictnessOrders } from "../guidance/annotations.ts";
import type { GuidanceDefaults } from "../guidance/guidance-defaults.ts";
import type { KeyReferenceRule } from "../guidance/key-references.ts";
import { otherTenants } from "./manifest.ts";

/** Optional members are absent where they say nothing, so that what does not use them has the same content without. */
export interface PolicyBundle extends DeclaredInputs {
  /** `engineVersion` of the engine that the bundle was loaded for. */
  readonly engine: string;
  /** Text of the Cedar schema that the policies are checked against: `schemaFor` what the bundle declares. */
  readonly schema: string;
  /** Names of sets: the platform's, and each tenant's by tenant id, `*` for those not named. */
  readonly manifest: { readonly platform: string; readonly tenants: Readonly<Record<string, string>> };
  readonly guidance: GuidanceDefaults;
  readonly strictness: StrictnessOrders;
  readonly keyReferences: readonly KeyReferenceRule[];
  /** What names of actions that enforcement points use stand for. */
  readonly actions?: Readonly<Record<string, PolicyAction>>;
  /** Members of `registered` that obligations may tell callers. */
  readonly disclosable?: readonly string[];
  /** Profiles that a policy may choose. */
  readonly supportedProfiles: readonly ArtifactProfile[];
  /** Text of each `*.cedar` file, by set and file name. Sets that the manifest does not name are not here. */
  readonly sets: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

/** The bundle as canonical JSON (RFC 8785): what is kept so that its decisions can be evaluated again. */
export function bundleContent(bundle: PolicyBundle): string {
  const text = canonicalize(bundle);
  if (text === undefined) throw new TypeError("a bundle is JSON");
  return text;
}

/** `sha256:` and the hexadecimal SHA-256 of a bundle's content in UTF-8. */
export function revisionOf(content: string): string {
  return `sha256:${createHash("sha256").update(content, "utf8").digest("hex")}`;
}

/** The bundle of which this is the content; undefined where the content is not what the revision says. */
export function parseBundleContent(content: string, revision: string): PolicyBundle | undefined {
  return revisionOf(content) === revision ? (JSON.parse(content) as PolicyBundle) : undefined;
}

/**
 * Whether the bundle names other tenants: by sets of their own, or key references that are theirs alone. What the
 * organisation knows is of all tenants.
 */
export function namesOtherTenants(
  bundle: Pick<PolicyBundle, "manifest" | "keyReferences" | "entities">,
  tenantId: string,
): boolean {
  if (bundle.entities !== undefined) return true;
  const named = [
    ...Object.keys(bundle.manifest.tenants),
    ...bundle.keyReferences.flatMap(({ tenants }) => tenants ?? []),
  ];
  return named.some((name) => name !== otherTenants && name !== tenantId);
}
