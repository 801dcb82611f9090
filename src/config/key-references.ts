/**
 * `SVC_KEY_REFERENCES`: which key references the deployment manages, and how their keys are delivered to the caller.
 */
import { parseTenantId, type TenantId } from "../base/ids.ts";
import { isCanonicalKeyReference } from "../base/key-reference-form.ts";
import { type KeyTransportMode, keyTransportModes } from "../base/vocabulary.ts";
import { wordOf } from "./parsers.ts";
import { map, type RawMap, requireMap, ValueProblem } from "./raw.ts";

/** What holds for the key references that match one pattern. */
export interface KeyReferenceRule {
  /** Pattern of key references; `*` stands for any characters. */
  readonly pattern: string;
  readonly mode: KeyTransportMode;
  /** Source of the key material, such as `kms`. */
  readonly origin: string;
  /** The only tenants that may use a matching reference; absent: all. */
  readonly tenants?: readonly TenantId[];
  readonly publicKeyDistribution?: string;
  readonly exchangeAlgorithm?: string;
}

const members = ["mode", "origin", "tenants", "public_key_distribution", "exchange_algorithm"];

/** A map from pattern to `{"mode", "origin", "tenants"?, "public_key_distribution"?, "exchange_algorithm"?}`. */
export const keyReferences = map((patterns): readonly KeyReferenceRule[] =>
  Object.entries(patterns).map(([pattern, value]) => {
    if (!/^[\x21-\x7e]{1,256}$/.test(pattern)) throw new ValueProblem("has a pattern that is not visible ASCII text");
    // Managed references are canonical, so a pattern that matches no canonical one would not restrict anything.
    if (!isCanonicalKeyReference(pattern.replaceAll("*", "x")))
      throw new ValueProblem(
        `has a pattern that no canonical key reference matches, ${pattern}: scheme and authority are lowercase, ` +
          "without user, port, query, fragment, percent sign, empty or dot segment",
      );
    return parseRule(pattern, requireMap(value, `the entry of pattern ${pattern}`));
  }),
);

function parseRule(pattern: string, entry: RawMap): KeyReferenceRule {
  const unknown = Object.keys(entry).find((member) => !members.includes(member));
  if (unknown !== undefined) throw new ValueProblem(`has an unknown member in the entry of pattern ${pattern}`);
  const string = (member: string): string | undefined => {
    const value = entry[member];
    if (value === undefined) return undefined;
    if (typeof value !== "string" || !/^[\x21-\x2b\x2d-\x7e]{1,256}$/.test(value)) {
      throw new ValueProblem(`needs visible ASCII text without a comma as ${member} of pattern ${pattern}`);
    }
    return value;
  };
  const [mode, origin] = [string("mode"), string("origin")];
  if (mode === undefined || origin === undefined) {
    throw new ValueProblem(`needs mode and origin in the entry of pattern ${pattern}`);
  }
  const [publicKeyDistribution, exchangeAlgorithm] = [string("public_key_distribution"), string("exchange_algorithm")];
  return {
    pattern,
    mode: keyTransportMode(mode),
    origin,
    ...(entry.tenants !== undefined && { tenants: tenantIds(pattern, entry.tenants) }),
    ...(publicKeyDistribution !== undefined && { publicKeyDistribution }),
    ...(exchangeAlgorithm !== undefined && { exchangeAlgorithm }),
  };
}

const keyTransportMode = (mode: string): KeyTransportMode => wordOf(keyTransportModes)(mode);

function tenantIds(pattern: string, value: unknown): readonly TenantId[] {
  const ids = Array.isArray(value) ? value.map((id) => (typeof id === "string" ? parseTenantId(id) : undefined)) : [];
  if (ids.length === 0 || ids.includes(undefined)) {
    throw new ValueProblem(`needs a list of tenant ids as tenants of pattern ${pattern}`);
  }
  return ids as TenantId[];
}
