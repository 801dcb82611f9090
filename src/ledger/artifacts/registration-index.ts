/**
 * The index of registrations at rest: by artifact, the leaves of those that count. Like the search index it has no value
 * in the clear, and its key is kept, and backed up, where openings are.
 */
import { createHmac } from "node:crypto";
import type { JsonObject } from "../../base/json.ts";
import type { EncodedRecord } from "../record/record.ts";
import {
  countingRegistrations,
  maxReliedOn,
  type Registration,
  type RegistrationSource,
  registrationsOf,
  reliedOn,
} from "./registrations.ts";

/** Size of the key of a tenant's index. */
export const artifactKeyBytes = 32;

/** HMAC-SHA-256 under the tenant's key, over the name of the artifact in UTF-8: what stands for it. 32 bytes. */
export function storedArtifact(key: Uint8Array, name: string): Uint8Array {
  return createHmac("sha256", key).update(name, "utf8").digest();
}

/**
 * Leaves that one append makes up for, where an older program left its registrations out: that many, or twice its own, or
 * fewer where these have `bytesPerCatchUp`.
 */
export const leavesPerCatchUp = 1_024;

/**
 * Bytes of stored registrations after which a transaction makes up for no more, so that it ends in time. Twice what
 * one append writes.
 */
export const bytesPerCatchUp = 8 * 1024 * 1024;

/** Bytes of stored records after which no more are read before these have been looked at. */
export const pageBytes = 4 * 1024 * 1024;

/**
 * Under this name, which no artifact has, stand registrations that did not open when they were looked at: nobody can tell
 * what they are of.
 */
export const unreadableName = "\u0000unreadable";

/** Bytes that every leaf of a registration has, so that others need not be read. */
export const registrationMark: Uint8Array = Buffer.from('"kind":"registration"');

/** A leaf that is relied on, as it was read; `unreadable` where it was erased, does not open, or was not looked at. */
export type KnownRegistration = Registration | "unreadable";

/** What to write of one artifact. */
export interface IndexChange {
  /** Those that count, and whether they are relied on. */
  readonly added: readonly { readonly leafIndex: number; readonly isReliedOn: boolean }[];
  /** Leaves that nothing relies on any more. */
  readonly superseded: readonly number[];
}

const unchanged: IndexChange = { added: [], superseded: [] };

/**
 * What further registrations of an artifact change. Of one of which something was erased, or that has more than
 * `maxReliedOn` or `maxReliedOnBytes`, nothing can be known any more: it stays as it is, however many come.
 *
 * @param known those that are relied on, in the order of the log; no more than `maxReliedOn` and one are needed, nor more
 *   of them than have `maxReliedOnBytes`
 * @param fresh those that follow, in the order of the log
 */
export function indexChange(known: readonly KnownRegistration[], fresh: readonly Registration[]): IndexChange {
  const readable = known.filter((one) => one !== "unreadable");
  if (readable.length < known.length || known.length > maxReliedOn) return unchanged;
  const last = readable.at(-1)?.leafIndex ?? -1;
  const counting = countingRegistrations([...readable, ...fresh]);
  const relied = new Set(reliedOn(counting).map(({ leafIndex }) => leafIndex));
  return {
    added: counting.flatMap(({ leafIndex }) =>
      leafIndex > last ? [{ leafIndex, isReliedOn: relied.has(leafIndex) }] : [],
    ),
    superseded: readable.flatMap(({ leafIndex }) => (relied.has(leafIndex) ? [] : [leafIndex])),
  };
}

/** What records of a batch register, before they are stored; those that register nothing are left out. */
export function encodedRegistrations(
  records: readonly EncodedRecord[],
  firstLeafIndex: number,
): readonly ReadonlyMap<string, Registration>[] {
  return records.flatMap(({ kind, caller, ...record }, position) => {
    if (kind !== "registration") return [];
    const [request, outcome] = [record.request, record.outcome].map((text) => JSON.parse(text) as JsonObject);
    return [registrationsOf(firstLeafIndex + position, { kind, caller, request, outcome } as RegistrationSource)];
  });
}

/** Registrations of one artifact that follow one another. */
export interface FreshRegistrations {
  readonly artifact: Uint8Array;
  readonly fresh: Registration[];
}

/** Registrations by their artifacts, as these are stored under the key. */
export function byArtifact(
  key: Uint8Array,
  registrations: readonly ReadonlyMap<string, Registration>[],
): readonly FreshRegistrations[] {
  const byName = new Map<string, FreshRegistrations>();
  for (const [name, registration] of registrations.flatMap((named) => [...named])) {
    const own = byName.get(name) ?? { artifact: storedArtifact(key, name), fresh: [] };
    own.fresh.push(registration);
    byName.set(name, own);
  }
  return [...byName.values()];
}
