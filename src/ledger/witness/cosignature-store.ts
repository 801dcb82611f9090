/** What a store keeps of cosignatures: for each log the newest of each witness. */
import type { TenantId } from "../../base/ids.ts";
import type { StoredTree } from "../ports/store.ts";

export interface KeptCosignature extends StoredTree {
  readonly tenantId: TenantId;
  /** Name and id of the witness's key, as they stand in its lines. */
  readonly witness: string;
  readonly keyId: string;
  /** Line of the note, with its newline. */
  readonly line: string;
}

/** Both reject with `store_unavailable`. */
export interface CosignatureStore {
  /** All that are kept, of every log. */
  cosignatures(): Promise<readonly KeptCosignature[]>;
  /** Keeps those that are of a larger tree than what is kept of the same witness and log, or of the same. */
  keepCosignatures(cosignatures: readonly KeptCosignature[]): Promise<void>;
}
