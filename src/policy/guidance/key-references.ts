/**
 * Which key references the deployment manages. A pattern is literal text in which `*` stands for any characters,
 * none included; nothing else is special, case matters, and the whole reference must match. Of the patterns that
 * match, the one with the most literal characters rules, and of equals the first: so `kms://tenant-b/*` may give to
 * one tenant what `kms://*` leaves to all.
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

/** What holds for the key references that match one pattern. */
export interface KeyReferenceRule extends ManagedKeyTransport {
  readonly pattern: string;
  /** The only tenants that may use a matching reference; absent: all. */
  readonly tenants?: readonly TenantId[];
}

/** Out of the box: references to a key management service are managed, every other key is the caller's own. */
export const defaultKeyReferences: readonly KeyReferenceRule[] = [
  { pattern: "kms://*", mode: "wrapped_key_reference", origin: "kms" },
];

/** What the deployment knows of a reference; `unmanaged` means that the caller holds the key itself. */
export type KeyReferenceStatus = "unmanaged" | "another_tenant" | ManagedKeyTransport;

/** Makes the function that looks a tenant's key reference up. Order matters only among equally specific patterns. */
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
 * Makes the function that says whether a reference may be taken for one that the deployment manages, in whatever
 * spelling, and is not canonical: such a one is to be refused, since what is looked up is its text and what it names
 * may be another tenant's. A reference that names a scheme of the patterns always may; without one, where a pattern
 * matches how others may read it, and where nobody can say how, since it encodes bytes that are no text.
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

/** Whether the text is the literals in their order with anything between them. No backtracking: leftmost is best. */
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
