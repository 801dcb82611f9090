/**
 * Decides which key references the deployment manages. A pattern is literal text in which `*` stands for any characters
 * or none; nothing else is special, case matters, and the whole reference must match. Among matching patterns the one
 * with the most literal characters wins, then the first: so `kms://tenant-b/*` may reserve for one tenant what
 * `kms://*` leaves to all.
 */
import type { TenantId } from "../../base/ids.ts";
import {
  isCanonicalKeyReference,
  looseForm,
  resolvedForm,
  schemeOf,
  unreadable,
} from "../../base/key-reference-form.ts";
import { isLike } from "../../base/text-forms.ts";
import {
  type KeyReferenceRule,
  keyTransportModes,
  type ManagedKeyTransport,
  type TdfKeyName,
  tdfKeyAlgorithms,
  tdfKeyForms,
} from "../../base/vocabulary.ts";

/** Default: references to a key management service are managed, every other key is the caller's own. */
export const defaultKeyReferences: readonly KeyReferenceRule[] = [
  { pattern: "kms://*", mode: "wrapped_key_reference", origin: "kms" },
];

/** Status of a reference; `unmanaged` means that the caller holds the key itself. */
export type KeyReferenceStatus = "unmanaged" | "another_tenant" | ManagedKeyTransport;

/** Returns the lookup for key references of tenants. Order matters only among equally specific patterns. */
export function keyReferenceLookup(
  rules: readonly KeyReferenceRule[],
): (tenant: TenantId, reference: string) => KeyReferenceStatus {
  const bySpecificity = rules
    .map((rule) => ({ rule, literals: rule.pattern.split("*") }))
    .sort((a, b) => literalLength(b.literals) - literalLength(a.literals)); // stable
  return (tenant, reference) => {
    const rule = bySpecificity.find(({ literals }) => isLike(reference, literals))?.rule;
    if (rule === undefined) return "unmanaged";
    return rule.tenants === undefined || rule.tenants.includes(tenant) ? rule : "another_tenant";
  };
}

/**
 * Returns a function that detects non-canonical spellings of possibly managed references. They must be refused: the
 * lookup uses the text, while what they resolve to may be another tenant's key. A reference with a scheme of the
 * patterns always counts; without a scheme it counts if a pattern matches what other parsers may read, or if it encodes
 * bytes that are not text.
 */
export function keyReferenceAliases(rules: readonly KeyReferenceRule[]): (reference: string) => boolean {
  const patterns = rules.map(({ pattern }) => pattern.toLowerCase());
  const schemes = new Set(patterns.flatMap((pattern) => schemeOf(pattern) ?? []));
  const withAuthority = new Set(
    [...schemes].filter((scheme) => patterns.some((text) => text.startsWith(`${scheme}://`))),
  );
  const loosePatterns = patterns.map((pattern) => pattern.split("*"));
  return (reference) => {
    const loose = looseForm(reference);
    const scheme = schemeOf(loose) ?? "";
    const readings = [loose, resolvedForm(loose)];
    const isManaged =
      loose.includes(unreadable) ||
      schemes.has(scheme) ||
      loosePatterns.some((literals) => readings.some((text) => isLike(text, literals)));
    return isManaged && !isCanonicalKeyReference(reference, withAuthority.has(scheme));
  };
}

function literalLength(literals: readonly string[]): number {
  return literals.reduce((sum, literal) => sum + literal.length, 0);
}

/*
 * Syntax of key transport in annotations and the manifest:
 *
 *     none
 *     mode=<mode>, origin=<origin>[, public_key_distribution=<text>][, exchange_algorithm=<text>]
 *       [, tdf_url=<url>, tdf_kid=<kid>, tdf_algorithm=<algorithm>[, tdf_attribute_fqns=<fqn>[;<fqn>…]]]
 *
 * in any order. It is one value instead of four, so that merging two policies cannot mix their transports.
 */

/** A managed transport, or `none` if the caller holds the key itself. */
export type KeyTransportChoice = "none" | ManagedKeyTransport;

const tdfKeyNames = ["tdf_url", "tdf_kid", "tdf_algorithm", "tdf_attribute_fqns"];
const memberNames = ["mode", "origin", "public_key_distribution", "exchange_algorithm", ...tdfKeyNames];
const valuePattern = /^[\x21-\x2b\x2d-\x7e]{1,256}$/;

/** Throws a RangeError that completes "must …". */
export function parseKeyTransport(text: string): KeyTransportChoice {
  if (text.trim() === "none") return "none";
  const members = membersIn(text);
  const mode = keyTransportModes.find((candidate) => candidate === members.get("mode"));
  const [origin, distribution, algorithm] = memberNames.slice(1, 4).map((name) => members.get(name));
  if (mode === undefined) throw new RangeError(`have a mode of ${keyTransportModes.join(", ")}`);
  if (origin === undefined) throw new RangeError("name the origin of the key material");
  return {
    mode,
    origin,
    ...(distribution !== undefined && { publicKeyDistribution: distribution }),
    ...(algorithm !== undefined && { exchangeAlgorithm: algorithm }),
    ...(tdfKeyNames.some((name) => members.has(name)) && { tdfKey: parseTdfKey(members) }),
  };
}

/** Canonical text of one that parses: equal choices have equal texts. */
export function canonicalKeyTransport(text: string): string {
  if (parseKeyTransport(text) === "none") return "none";
  const members = membersIn(text);
  return memberNames.flatMap((name) => (members.has(name) ? `${name}=${members.get(name)}` : [])).join(", ");
}

function membersIn(text: string): ReadonlyMap<string, string> {
  const members = new Map<string, string>();
  for (const part of text.split(",")) {
    const at = part.indexOf("=");
    const [name, value] = [part.slice(0, at < 0 ? undefined : at).trim(), at < 0 ? "" : part.slice(at + 1).trim()];
    if (!memberNames.includes(name)) throw new RangeError(`be "none" or members of ${memberNames.join(", ")}`);
    if (members.has(name)) throw new RangeError(`name ${name} once`);
    if (name !== "tdf_attribute_fqns" && !valuePattern.test(value))
      throw new RangeError(`give ${name} a value of visible ASCII characters without a comma`);
    members.set(name, name === "tdf_attribute_fqns" ? [...new Set(value.split(";"))].sort().join(";") : value);
  }
  return members;
}

function parseTdfKey(members: ReadonlyMap<string, string>): TdfKeyName {
  const [url = "", kid = "", named, fqns] = tdfKeyNames.map((name) => members.get(name));
  const algorithm = tdfKeyAlgorithms.find((candidate) => candidate === named);
  const attributeFqns = fqns?.split(";") ?? [];
  if (!tdfKeyForms.url.test(url) || !tdfKeyForms.kid.test(kid))
    throw new RangeError("name tdf_url, an http(s) URL, and tdf_kid");
  if (algorithm === undefined) throw new RangeError(`have a tdf_algorithm of ${tdfKeyAlgorithms.join(", ")}`);
  if (!attributeFqns.every((fqn) => tdfKeyForms.attributeFqn.test(fqn)))
    throw new RangeError(
      "have tdf_attribute_fqns of the form https://<namespace>/attr/<name>/value/<value>, separated by semicolons",
    );
  return { url, kid, algorithm, attributeFqns };
}
