/** Strict readers of leaves and records from outside: only the members that docs/reference/ledger-formats.md names. */

import { isMoment } from "../../base/text-forms.ts";
import type { StoredRecord } from "../ports/record.ts";
import { assertCanonical, canonicalText } from "./canonical.ts";
import { type Leaf, leafBytes, parseLeaf } from "./leaf.ts";
import { requestDigest } from "./record.ts";

const commitmentPattern = /^hmac-sha256:[0-9a-f]{64}$/;

/** Parses the exact bytes of a leaf; undefined for anything that `leafBytes` does not write. */
export function readExactLeaf(bytes: Uint8Array): Leaf | undefined {
  return orUndefined(() => {
    const leaf = parseLeaf(bytes);
    assertCanonical(leaf);
    const { kind, record_id, recorded_at, policy_revision = "", commitment } = leaf;
    if (![kind, record_id, policy_revision].every(isText) || !isMoment(recorded_at)) return undefined;
    if (!isText(commitment) || !commitmentPattern.test(commitment)) return undefined;
    // Writing must give the same bytes: no other members, and no other spelling.
    return Buffer.compare(leafBytes(leaf), bytes) === 0 ? leaf : undefined;
  });
}

const textMembers = [
  "kind",
  "record_id",
  "log",
  "tenant_id",
  "recorded_at",
  "request_id",
  "route",
  "request_digest",
] as const satisfies readonly (keyof StoredRecord)[];
const objectMembers = ["caller", "request", "outcome"] as const satisfies readonly (keyof StoredRecord)[];
const callerMembers = [
  "auth_source",
  "principal_id",
  "subject",
] as const satisfies readonly (keyof StoredRecord["caller"])[];

/** Parses the exact bytes of a record; undefined for anything that `recordBytes` does not write. */
export function readExactRecord(bytes: Uint8Array): StoredRecord | undefined {
  return orUndefined(() => {
    const text = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
    const record = JSON.parse(text) as StoredRecord;
    assertCanonical(record);
    const isRecord =
      hasExactly(record, [...textMembers, ...objectMembers]) &&
      hasExactly(record.caller, callerMembers) &&
      textMembers.every((member) => isText(record[member])) &&
      callerMembers.every((member) => isText(record.caller[member])) &&
      objectMembers.every((member) => isObject(record[member]));
    return isRecord && canonicalText({ ...record }) === text ? record : undefined;
  });
}

/** Returns the contradiction between a record and its leaf, or within the record; undefined if there is none. */
export function recordDisagreement(record: StoredRecord, leaf: Leaf): string | undefined {
  for (const member of ["record_id", "kind", "recorded_at"] as const)
    if (record[member] !== leaf[member]) return `has another ${member} than its leaf`;
  const { policy_revision: revision } = record.outcome;
  if (record.kind === "decision" && revision !== undefined && revision !== leaf.policy_revision)
    return "has another policy_revision than its leaf";
  return record.request_digest === requestDigest(record.request) ? undefined : "has another request than its digest";
}

function hasExactly(value: unknown, members: readonly string[]): boolean {
  return (
    isObject(value) &&
    Object.keys(value).length === members.length &&
    members.every((name) => Object.hasOwn(value, name))
  );
}

function isText(value: unknown): value is string {
  return typeof value === "string";
}

function isObject(value: unknown): value is object {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function orUndefined<Value>(read: () => Value | undefined): Value | undefined {
  try {
    return read();
  } catch {
    return undefined;
  }
}
