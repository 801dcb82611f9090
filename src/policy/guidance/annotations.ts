/**
 * Annotations of policies: the id, which is required, a description, and the guidance that the policy gives when it
 * decides. docs/reference/policies.md lists them.
 */
import type { Effect } from "@cedar-policy/cedar-wasm/nodejs";
import { type ArtifactProfile, artifactProfiles } from "../../base/vocabulary.ts";
import type { Claimed } from "../model/decision.ts";
import { claimedRows } from "../model/input-table.ts";
import type { InputCatalogue } from "../model/inputs.ts";
import { canonicalKeyTransport } from "./key-references.ts";
import { namePattern, type ObligationTemplate, obligationNames, parseObligation } from "./obligations.ts";

export type ScalarName = keyof typeof scalarParsers;
export type ListName = keyof typeof listParsers;

/** The guidance of one policy, or of several after the merge. Names without a value are absent. */
export interface PolicyGuidance {
  readonly scalars: Readonly<Partial<Record<ScalarName, string>>>;
  /** Sorted, without duplicates. */
  readonly lists: Readonly<Partial<Record<ListName, readonly string[]>>>;
}

/** Guidance from a policy's annotations. */
export interface AnnotatedGuidance extends PolicyGuidance {
  /** Absent if there are none. */
  readonly obligations?: readonly ObligationTemplate[];
}

/** From weakest to strictest, by name. Without an order, two different values conflict. */
export type StrictnessOrders = Readonly<Partial<Record<ScalarName, readonly string[]>>>;

/** Rules for annotation values. */
export interface AnnotationRules {
  readonly supportedProfiles: readonly ArtifactProfile[];
  readonly strictness: StrictnessOrders;
  /** Members of `registered` that obligations may disclose to callers. */
  readonly disclosable?: readonly string[];
}

const recordedMembers = [
  ...(["artifact_cid", "artifact_digest", "artifact_kind", "artifact_locator", "artifact_merkle_root_cid"] as const),
  ...(["content_digest", "decision_id", "event_type", "occurred_at", "operation", "outcome"] as const),
] as const;

/** Members of later calls that a policy can ask the caller to send. None of them is plaintext. */
export type SendableMember = (typeof recordedMembers)[number] | Exclude<keyof Claimed, "content_digest_present">;
const sendableMembers: readonly string[] = [...recordedMembers, ...Object.keys(claimedRows)]
  .filter((name) => name !== "content_digest_present")
  .sort();

/** Identifiers to which a caller can bind a decision. */
const bindableIdentifiers = [
  ...["artifact_cid", "artifact_digest", "artifact_merkle_root_cid", "content_digest", "decision_id"],
  ...["key_reference", "policy_revision", "resource_id"],
];

/** A parser returns the canonical value, or throws a RangeError that completes "must …". */
type Parse<T> = (text: string, rules: AnnotationRules) => T;

function refuse(rule: string): never {
  throw new RangeError(rule);
}

const word: Parse<string> = (text) =>
  namePattern.test(text) ? text : refuse("be one word of lowercase letters, digits and underscores");

const profile: Parse<string> = (text, { supportedProfiles }) =>
  supportedProfiles.some((supported) => supported === text)
    ? text
    : refuse(`be one of ${supportedProfiles.join(", ")}`);

type Accepts = (item: string) => boolean;
const oneOf = (words: readonly string[]): Accepts => {
  return (item) => words.includes(item);
};
const matching = (pattern: RegExp): Accepts => {
  return (item) => pattern.test(item);
};

function list(accepts: Accepts, rule: string): Parse<readonly string[]> {
  return (text) => {
    const items = text.split(",").map((item) => item.trim());
    return items.every(accepts) ? [...new Set(items)].sort() : refuse(`be a comma-separated list of ${rule}`);
  };
}

const scalarParsers = {
  handling_mode: word,
  enforcement_mode: word,
  local_enforcement_library: word,
  artifact_profile: profile,
  key_strategy: word,
  authorization_strategy: word,
  key_transport: canonicalKeyTransport,
} as const;
export const scalarNames = Object.keys(scalarParsers) as readonly ScalarName[];

const listParsers = {
  send_only: list(oneOf(sendableMembers), sendableMembers.join(" ")),
  bind_policy_to: list(oneOf(bindableIdentifiers), bindableIdentifiers.join(" ")),
  required_actions: list(matching(/^[a-z][a-z0-9_.-]{0,127}$/), "words of lowercase letters, digits, and . _ -"),
  evidence_expected: list(oneOf(["protect", "access", "rewrap"]), "protect access rewrap"),
  required_scopes: list(matching(/^[\x21\x23-\x2b\x2d-\x5b\x5d-\x7e]{1,256}$/), "scopes (RFC 6749, section 3.3)"),
  warning: (text: string): readonly string[] =>
    /^[^\p{Cc}\p{Cs}]{1,512}$/u.test(text) ? [text] : refuse("be one line of at most 512 characters"),
  alert: list(matching(/^[a-z][a-z0-9_.-]{0,63}$/), "words of lowercase letters, digits, and . _ -"),
} as const;
export const listNames = Object.keys(listParsers) as readonly ListName[];

const forbidMayCarry: readonly string[] = ["required_actions", "warning", "alert", ...obligationNames];

/** From weakest to strictest: a signature keeps no secret, an envelope does, a TDF includes its policy. */
export const profileStrictness: readonly ArtifactProfile[] = [...artifactProfiles].reverse();

/** Parses one scalar of an annotation or the manifest. Throws a RangeError that completes "must …". */
export function parseScalar(name: ScalarName, text: string, rules: AnnotationRules): string {
  const value = scalarParsers[name](text, rules);
  const order = rules.strictness[name];
  if (order !== undefined && !order.includes(value))
    refuse(`be in the manifest's strictness order: ${order.join(", ")}`);
  return value;
}

/** Parses one list. Throws a RangeError that completes "must …". */
export function parseList(name: ListName, text: string, rules: AnnotationRules): readonly string[] {
  return listParsers[name](text, rules);
}

/** Parses a policy's guidance. Problems are sentences without a location. Does not check `@id` and `@description`. */
export function parseGuidance(
  effect: Effect,
  annotations: Readonly<Record<string, string | null>>,
  rules: AnnotationRules,
  catalogue: InputCatalogue,
): { readonly guidance: AnnotatedGuidance; readonly problems: readonly string[] } {
  const problems: string[] = [];
  const scalars: Partial<Record<ScalarName, string>> = {};
  const lists: Partial<Record<ListName, readonly string[]>> = {};
  const obligations: ObligationTemplate[] = [];
  for (const [name, text] of Object.entries(annotations)) {
    if (name === "id" || name === "description") continue;
    const scalar = scalarNames.find((candidate) => candidate === name);
    const listed = listNames.find((candidate) => candidate === name);
    const isObligation = obligationNames.includes(name);
    if (scalar === undefined && listed === undefined && !isObligation) {
      const known = ["id", "description", ...scalarNames, ...listNames, obligationNames[0], obligationNames[1]];
      problems.push(`unknown annotation @${name}; known: ${known.join(", ")} to _${obligationNames.length}`);
    } else if (effect === "forbid" && !forbidMayCarry.includes(name)) {
      problems.push(`@${name} guides what is allowed; a forbid may carry ${forbidMayCarry.join(", ")}`);
    } else {
      try {
        if (scalar !== undefined) scalars[scalar] = parseScalar(scalar, text ?? "", rules);
        if (listed !== undefined) lists[listed] = parseList(listed, text ?? "", rules);
        if (isObligation) obligations.push(parseObligation(text ?? "", { ...rules, catalogue }));
      } catch (error) {
        if (!(error instanceof RangeError)) throw error;
        problems.push(`@${name} must ${error.message}`);
      }
    }
  }
  return { guidance: { scalars, lists, ...(obligations.length > 0 && { obligations }) }, problems };
}
