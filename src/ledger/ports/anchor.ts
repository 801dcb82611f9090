/**
 * The anchor: what every log was last known to be, kept outside the store. A store that was put back to an older copy,
 * replaced, or rewritten does not agree with it, and then nothing may be signed: two trees of one log that are not
 * consistent can never be taken back.
 */

import type { ServiceError } from "../../base/errors.ts";
import type { TenantId } from "../../base/ids.ts";
import type { Span } from "../../base/trace.ts";
import type { Checkpoint } from "../tlog/checkpoint.ts";
import type { CheckpointSigner } from "../tlog/signer.ts";
import { type Hash, sameHash } from "../tlog/tree.ts";
import type { LedgerStore, LogState, StoredTree } from "./store.ts";

/** What was answered, or was about to be: the log was at least this. */
export interface AnchoredLog extends StoredTree {
  readonly tenantId: TenantId;
  readonly origin: string;
}

/** What may be signed of a log, or why nothing may be. */
export type SignableState = { readonly head: LogState } | { readonly problem: string };

/** What the store has now. */
export interface StoreState {
  /** Undefined where the tenant has no log. */
  readonly log: Pick<LogState, "origin" | "size" | "root"> | undefined;
  /** Root over the log's first leaves, as the stored tiles have them. May throw where they are damaged. */
  rootAt(size: number): Hash;
}

/** Says what does not hold of the log, for the operator; undefined where it goes on from what was anchored. */
export function anchorProblem(anchored: AnchoredLog | undefined, { log, rootAt }: StoreState): string | undefined {
  if (anchored === undefined) return undefined;
  if (log === undefined) return `log ${anchored.origin} with ${anchored.size} leaves is missing from the store`;
  if (log.origin !== anchored.origin) return `log ${anchored.origin} was replaced by ${log.origin}`;
  if (log.size < anchored.size)
    return `log ${log.origin} has ${log.size} leaves, and had ${anchored.size}: the store is an older copy`;
  const root = log.size === anchored.size ? log.root : rootAt(anchored.size);
  return sameHash(root, anchored.root) ? undefined : `log ${log.origin} was rewritten before leaf ${anchored.size}`;
}

/**
 * The newest state of a log, up to the given one, that its anchor knows of, and so may be signed. The log agrees with its
 * anchor.
 * @param anchored `unknown` where there is an anchor that has nothing of the log, `unanchored` where there is none
 */
export function signableOf(head: LogState, anchored: AnchoredLog | "unknown" | "unanchored"): SignableState {
  if (anchored === "unanchored") return { head };
  if (anchored === "unknown") return { problem: `the anchor does not know log ${head.origin} yet: try again` };
  const { size, root } = anchored;
  return { head: size < head.size ? { ...head, size, root } : head };
}

/** An anchor outside the store that is asked over the network: witnesses, which all replicas may share. */
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
   *
   * @param span that the exchanges which this brings about are parts of
   */
  appended(log: LogState, since: AnchoredLog | undefined, span?: Span): Promise<void>;
  /** Resolves when a committed state may be signed for whoever reads it. Rejects with `ServiceError` `store_unavailable`. */
  confirm(log: LogState): Promise<void>;
  /** Lines of cosignatures of exactly this tree that are at hand, to stand after the log's own signature. */
  cosignatures(checkpoint: Checkpoint): string;
  /** Stops asking, and keeps what it knows. */
  close(): Promise<void>;
}

/** Makes the shared anchor of a store whose checkpoints the signer signs. Rejects where it cannot be used at all. */
export type OpenSharedAnchor = (store: LedgerStore, signer: CheckpointSigner) => Promise<SharedAnchor>;
