/** Concurrency limits for viewers of the logs, so that one viewer delays neither others nor the service. */
import type { FastifyReply } from "fastify";
import { ServiceError } from "../base/errors.ts";
import { createFairSemaphore, type FairLimits } from "../base/fair-queue.ts";
import type { TenantId } from "../base/ids.ts";

/** A tenant, or all viewers of every log. */
export interface Party {
  readonly tenantId: TenantId | undefined;
}

export interface ViewerLimits {
  /** Reads a log in the viewer's turn. Rejects with `rate_limited` or `overloaded` if too much is waiting. */
  read<T>(viewer: Party, reply: FastifyReply, work: () => Promise<T>): Promise<T>;
  /** Runs a search in the viewer's turn; each may take a tenth of a second of a thread or a connection. */
  search<T>(viewer: Party, reply: FastifyReply, work: () => Promise<T>): Promise<T>;
}

const readLimits: FairLimits = { maximum: 8, maximumWaitingEach: 64, maximumWaiting: 512 };
const searchLimits: FairLimits = { maximum: 2, maximumWaitingEach: 16, maximumWaiting: 64 };

export function createViewerLimits(): ViewerLimits {
  const reads = createFairSemaphore(readLimits);
  const searches = createFairSemaphore(searchLimits);
  return {
    read: (viewer, reply, work) => reads.run(partyOf(viewer), work, leavingOf(reply)),
    search: (viewer, reply, work) => searches.run(partyOf(viewer), work, leavingOf(reply)),
  };
}

/** Viewers of every log share one party. */
function partyOf({ tenantId }: Party): string {
  return tenantId === undefined ? "operator" : `tenant ${tenantId}`;
}

/** Aborts when the viewer has left. */
function leavingOf({ raw }: FastifyReply): AbortSignal {
  const controller = new AbortController();
  const leave = () => controller.abort(new ServiceError("canceled", "the caller went away"));
  if (raw.destroyed) leave();
  else raw.once("close", leave);
  return controller.signal;
}
