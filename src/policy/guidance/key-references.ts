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
import type { ManagedKeyTransport } from "./key-transport.ts";

/** Rule for the key references that match one pattern. */
export interface KeyReferenceRule extends ManagedKeyTransport {
  readonly pattern: string;
  /** The only tenants that may use a matching reference; absent: all. */
  readonly tenants?: readonly TenantId[];
}

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
    const rule = bySpecificity.find(({ literals }) => matches(literals, reference))?.rule;
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
      loosePatterns.some((literals) => readings.some((text) => matches(literals, text)));
    return isManaged && !isCanonicalKeyReference(reference, withAuthority.has(scheme));
  };
}

function literalLength(literals: readonly string[]): number {
  return literals.reduce((sum, literal) => sum + literal.length, 0);
}

/** Whether the text has the literals in order with anything in between. The leftmost match is always best. */
function matches(literals: readonly string[], text: string): boolean {
  const first = literals[0] ?? "";
  const last = literals.at(-1) ?? "";
  if (literals.length === 1) return text === first;
  if (!text.startsWith(first) || !text.endsWith(last)) return false;
  let at = first.length;
  for (const literal of literals.slice(1, -1)) {
    const found = text.indexOf(literal, at);
    if (found < 0) return false;
    at = found + literal.length;
  }
  return at <= text.length - last.length;
}
