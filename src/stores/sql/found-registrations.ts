/** Reads registrations from rows of the index. */
import type { RecordId } from "../../base/ids.ts";
import { storedArtifact } from "../../ledger/artifacts/registration-index.ts";
import { maxReliedOn, type Registration, registrationsOf } from "../../ledger/artifacts/registrations.ts";
import type { ArtifactRegistrations } from "../../ledger/ports/registrations.ts";
import { DamagedError } from "../files/errors.ts";
import { openStoredRecord } from "./stored-record.ts";

/** A row of the index that is relied on, with its record. */
export interface RegistrationRow {
  readonly artifact: Uint8Array;
  readonly leafIndex: number;
  readonly recordId: RecordId;
  readonly leaf: Uint8Array;
  readonly sealed: Uint8Array;
  /** Null if the record was erased. */
  readonly opening: Uint8Array | null;
  /** Whether leaf and record were left out because they are too large. */
  readonly isCut: boolean;
}

/** Bound of the rows that are read of one artifact. */
export const maxRows = maxReliedOn + 1;

/** Converts a relied-on row with its record; every kind of store has the same columns. */
export function toRegistrationRow(row: Readonly<Record<string, unknown>>): RegistrationRow {
  return {
    artifact: row.artifact as Uint8Array,
    leafIndex: row.leaf_index as number,
    recordId: row.record_id as RecordId,
    leaf: (row.leaf ?? none) as Uint8Array,
    sealed: (row.sealed ?? none) as Uint8Array,
    opening: row.opening as Uint8Array | null,
    isCut: Boolean(row.is_cut),
  };
}

/**
 * Returns what the rows say of the artifact with this name.
 *
 * @param rows of this artifact, in the order of the log, at most `maxRows`
 * @throws DamagedError if a record does not verify, or is of another artifact
 */
export function foundRegistrations(name: string, rows: readonly RegistrationRow[]): ArtifactRegistrations {
  if (rows.some(({ isCut }) => isCut)) return "too_many";
  if (rows.some(({ opening }) => opening === null)) return "erased";
  if (rows.length > maxReliedOn) return "too_many";
  return rows.map(({ recordId, leafIndex, leaf, sealed, opening }) => {
    const record = openStoredRecord(`record ${recordId}`, leaf, sealed, opening as Uint8Array);
    if (!registrationsOf(leafIndex, record).has(name))
      throw new DamagedError(`The index has record ${recordId} under an artifact that it does not register.`);
    return { recordId, leafIndex, record };
  });
}

const none = new Uint8Array();

/** Encodes a stored artifact as a key of maps. */
export function hexOf(artifact: Uint8Array): string {
  return Buffer.from(artifact).toString("hex");
}

/**
 * Reads the registration of a row. Unreadable if it was erased, does not open, or is too large: then nothing can be
 * known of the artifact.
 * @param key of the tenant's index
 */
export function knownRegistration(key: Uint8Array, row: RegistrationRow): Registration | "unreadable" {
  if (row.isCut) return "unreadable";
  try {
    for (const [name, registration] of openRegistrations(row))
      if (hexOf(storedArtifact(key, name)) === hexOf(row.artifact)) return registration;
  } catch (error) {
    if (!(error instanceof DamagedError)) throw error;
  }
  return "unreadable";
}

/** Opens the registrations of a row's record; none if it was erased. Throws `DamagedError` if it does not open. */
export function openRegistrations(row: RegistrationRow): ReadonlyMap<string, Registration> {
  const { leafIndex, leaf, sealed, opening } = row;
  if (opening === null) return new Map();
  return registrationsOf(leafIndex, openStoredRecord(`leaf ${leafIndex}`, leaf, sealed, opening));
}
