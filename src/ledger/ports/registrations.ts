/** Registrations of artifacts. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { StoredRecord } from "./record.ts";

/** A registration and its position. */
export interface FoundRegistration {
  readonly recordId: RecordId;
  readonly leafIndex: number;
  readonly record: StoredRecord;
}

/**
 * The registrations of an artifact that are relied on (`artifacts/registrations.ts`), in the order of the log; empty if
 * there is none. Or why nothing is known: one that counts was `erased`, or there are `too_many`.
 */
export type ArtifactRegistrations = readonly FoundRegistration[] | "erased" | "too_many";

export interface RegistrationReader {
  /**
   * Finds this tenant's registrations by the names of artifacts (`artifacts/registrations.ts`): one result for each
   * name, in order. Sees everything that was acknowledged before the call, by any process. Rejects with
   * `store_unavailable` if the store cannot be read, with `internal` if a result is damaged.
   */
  registrations(tenantId: TenantId, names: readonly string[]): Promise<readonly ArtifactRegistrations[]>;
}
