/**
 * Chooses how long the next write of a tenant waits for a lock. A locked log is skipped first, then retried with a
 * short timeout together with others, then retried alone, so one stuck log never blocks the others.
 */
import { LRUCache } from "lru-cache";
import type { TenantId } from "../../base/ids.ts";
import type { BatchLeft, Patience } from "../ports/store.ts";

/** Tenants that are remembered. A forgotten tenant starts again with a skip. */
const maxTenants = 4_096;

export class Contention {
  readonly #tenants = new LRUCache<TenantId, Patience>({ max: maxTenants });

  patienceFor(tenantId: TenantId): Patience {
    return this.#tenants.get(tenantId) ?? "none";
  }

  noteLeft(tenantId: TenantId, { left }: BatchLeft): void {
    this.#tenants.set(tenantId, left === "held" ? "moment" : "full");
  }

  /** The tenant's batch was stored. After a failure the next write waits the same way. */
  noteWritten(tenantId: TenantId): void {
    this.#tenants.delete(tenantId);
  }
}
