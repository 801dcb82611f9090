/** An anchor outside the store that is asked over the network: witnesses, which all replicas may share. */
import type { ServiceError } from "../../base/errors.ts";
import type { TenantId } from "../../base/ids.ts";
import type { Checkpoint } from "../tlog/checkpoint.ts";
import type { CheckpointSigner } from "../tlog/signer.ts";
import type { AnchoredLog } from "./anchor.ts";
import type { LedgerStore, LogState } from "./store.ts";

export interface SharedAnchor {
  /** Why nothing may be appended to the tenant's log now; undefined where it may. */
  refusal(tenantId: TenantId): ServiceError | undefined;
  /**
   * The newest state that this process knows to be anchored; undefined where it knows none. A tree that is appended
   * afterwards and is not larger is not of this log.
   */
  anchored(tenantId: TenantId): AnchoredLog | undefined;
  /**
   * Takes note of a committed state that an append gave, and resolves when it may be signed for those who wait for it.
   * `since` is what was anchored before the append began; undefined where nothing was, or where the state is an earlier
   * one that is answered again. Rejects with `ServiceError` `store_unavailable`.
   */
  appended(log: LogState, since: AnchoredLog | undefined): Promise<void>;
  /** Resolves when a committed state may be signed for whoever reads it. Rejects with `ServiceError` `store_unavailable`. */
  confirm(log: LogState): Promise<void>;
  /** Lines of cosignatures of exactly this tree that are at hand, to stand after the log's own signature. */
  cosignatures(checkpoint: Checkpoint): string;
  /** Stops asking, and keeps what it knows. */
  close(): Promise<void>;
}

/** Makes the shared anchor of a store whose checkpoints the signer signs. Rejects where it cannot be used at all. */
export type OpenSharedAnchor = (store: LedgerStore, signer: CheckpointSigner) => Promise<SharedAnchor>;
