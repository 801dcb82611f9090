/**
 * The stored index of registrations: by artifact, the leaves of those that count. Like the search index it holds no
 * cleartext, and its key is stored and backed up with the openings.
 */
import { createHmac } from "node:crypto";
import { type JsonObject, parseJson } from "../../base/json.ts";
import type { EncodedRecord } from "../ports/store.ts";
import {
  countingRegistrations,
  maxReliedOn,
  type Registration,
  type RegistrationSource,
  registrationsOf,
  reliedOn,
} from "./registrations.ts";

export const artifactKeyBytes = 32;

/** HMAC-SHA-256 of the artifact's name in UTF-8, with the tenant's key. 32 bytes. */
export function storedArtifact(key: Uint8Array, name: string): Uint8Array {
  return createHmac("sha256", key).update(name, "utf8").digest();
}

/** Bytes of stored records that are read before they are processed. */
export const pageBytes = 4 * 1024 * 1024;

/** Bytes in every leaf of a registration; leaves without them need not be parsed. */
export const registrationMark: Uint8Array = Buffer.from('"kind":"registration"');

/** A relied-on leaf; `unreadable` if it was erased, does not open, or was not read. */
export type KnownRegistration = Registration | "unreadable";

/** Changes of one artifact's rows. */
interface IndexChange {
  /** Leaves that count, and whether they are relied on. */
  readonly added: readonly { readonly leafIndex: number; readonly isReliedOn: boolean }[];
  /** Leaves that are no longer relied on. */
  readonly superseded: readonly number[];
}

const unchanged: IndexChange = { added: [], superseded: [] };

/**
 * Returns what further registrations of an artifact change. If something of it was erased, or it has more than
 * `maxReliedOn` or `maxReliedOnBytes`, nothing can be known of it, and nothing changes.
 *
 * @param known relied-on registrations, in the order of the log; `maxReliedOn` and one more suffice, or as many as have
 *   `maxReliedOnBytes`
 * @param fresh later ones, in the order of the log
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

/** Returns the registrations among the records of a batch, before they are stored. */
export function encodedRegistrations(
  records: readonly EncodedRecord[],
  firstLeafIndex: number,
): readonly ReadonlyMap<string, Registration>[] {
  return records.flatMap(({ kind, caller, ...record }, position) => {
    if (kind !== "registration") return [];
    const [request, outcome] = [record.request, record.outcome].map((text) => parseJson(text) as JsonObject);
    return [registrationsOf(firstLeafIndex + position, { kind, caller, request, outcome } as RegistrationSource)];
  });
}

/** Consecutive registrations of one artifact. */
export interface FreshRegistrations {
  readonly artifact: Uint8Array;
  readonly fresh: Registration[];
}

/** Groups registrations by artifact, in its stored form. */
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
