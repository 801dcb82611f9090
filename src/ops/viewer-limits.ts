/** Concurrency limits of those who read the logs: one viewer's load keeps neither others nor the service waiting. */
import type { FastifyReply } from "fastify";
import { ServiceError } from "../base/errors.ts";
import type { TenantId } from "../base/ids.ts";
import { createFairSemaphore, type FairLimits } from "../base/semaphore.ts";

/** A viewer: a tenant, or somebody who may see every log. */
export interface Party {
  readonly tenantId: TenantId | undefined;
}

export interface ViewerLimits {
  /** Looks at a log when the viewer's turn has come. Rejects with `rate_limited` or `overloaded` where too much waits. */
  read<T>(viewer: Party, reply: FastifyReply, work: () => Promise<T>): Promise<T>;
  /** The same for a search, of which each may take a tenth of a second of a thread or a connection. */
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

/** A tenant by its own token; all who may see every log are one. */
function partyOf({ tenantId }: Party): string {
  return tenantId === undefined ? "operator" : `tenant ${tenantId}`;
}

/** Whoever has left is not waited for. */
function leavingOf({ raw }: FastifyReply): AbortSignal {
  const controller = new AbortController();
  const leave = () => controller.abort(new ServiceError("canceled", "the caller went away"));
  if (raw.destroyed) leave();
  else raw.once("close", leave);
  return controller.signal;
}
