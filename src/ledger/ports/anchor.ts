/**
 * The anchor: the last known state of every log, kept outside the store. A store that was restored from an older copy,
 * replaced, or rewritten contradicts it, and then nothing may be signed: signatures of two inconsistent trees of one
 * log can never be revoked.
 */

import type { ServiceError } from "../../base/errors.ts";
import type { TenantId } from "../../base/ids.ts";
import type { Span } from "../../base/trace.ts";
import type { Checkpoint } from "../tlog/checkpoint.ts";
import type { CheckpointSigner } from "../tlog/signer.ts";
import type { LedgerStore, LogState } from "./store.ts";

/** An anchor outside the store that is reached over the network and that replicas may share: witnesses. */
export interface SharedAnchor {
  /** Why nothing may be appended to the tenant's log now; undefined if it may. */
  refusal(tenantId: TenantId): ServiceError | undefined;
  /** The newest state known to be anchored; undefined if there is none. A tree appended later must be larger. */
  anchored(tenantId: TenantId): LogState | undefined;
  /**
   * Notes a committed state from an append, and resolves when it may be signed. `since` is what was anchored before the
   * append began; undefined if nothing was, or if the state is an earlier one that is returned again. Rejects with
   * `ServiceError` `store_unavailable`.
   *
   * @param span parent of the exchanges that this causes
   */
  appended(log: LogState, since: LogState | undefined, span?: Span): Promise<void>;
  /** Resolves when a committed state may be signed for a reader. Rejects with `ServiceError` `store_unavailable`. */
  confirm(log: LogState): Promise<void>;
  /** Known cosignature lines of exactly this tree, to follow the log's own signature. */
  cosignatures(checkpoint: Checkpoint): string;
  /** Stops asking witnesses; known states stay available. */
  close(): Promise<void>;
}

/** Opens the shared anchor of a store whose checkpoints the signer signs. Rejects if it cannot be used. */
export type OpenSharedAnchor = (store: LedgerStore, signer: CheckpointSigner) => Promise<SharedAnchor>;
