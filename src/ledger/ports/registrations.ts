/** What was registered of artifacts. */
import type { RecordId, TenantId } from "../../base/ids.ts";
import type { StoredRecord } from "./record.ts";

/** A registration and where it stands. */
export interface FoundRegistration {
  readonly recordId: RecordId;
  readonly leafIndex: number;
  readonly record: StoredRecord;
}

/**
 * The registrations of an artifact that are relied on (`artifacts/registrations.ts`), in the order of the log; empty
 * where there is none. Or why nothing can be known: one that counts was `erased`, or `too_many` are relied on.
 */
export type ArtifactRegistrations = readonly FoundRegistration[] | "erased" | "too_many";

export interface RegistrationReader {
  /**
   * Finds what this tenant registered, and no other, by the names of artifacts (`artifacts/artifact-names.ts`): one answer
   * for each, in their order. Sees everything that was acknowledged before the call, by whatever program. Rejects with
   * `store_unavailable` when the store cannot be read, with `internal` when what it finds is damaged.
   */
  registrations(tenantId: TenantId, names: readonly string[]): Promise<readonly ArtifactRegistrations[]>;
}
