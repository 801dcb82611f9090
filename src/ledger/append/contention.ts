/**
 * How patient the next write of a tenant is: those whose logs others hold are passed by, then waited for together, and
 * where that takes long each on its own, so that nobody waits for a log that is stuck.
 */
import { LRUCache } from "lru-cache";
import type { TenantId } from "../../base/ids.ts";
import type { BatchLeft, Patience } from "../ports/store.ts";

/** Tenants that are remembered. One that is forgotten is passed by again first. */
const maxTenants = 4_096;

export class Contention {
  readonly #tenants = new LRUCache<TenantId, Patience>({ max: maxTenants });

  patienceFor(tenantId: TenantId): Patience {
    return this.#tenants.get(tenantId) ?? "none";
  }

  /** A write of several left the tenant's batch out. */
  noteLeft(tenantId: TenantId, { left }: BatchLeft): void {
    this.#tenants.set(tenantId, left === "held" ? "moment" : "full");
  }

  /** The tenant's batch was stored. After one that failed the next is as patient. */
  noteWritten(tenantId: TenantId): void {
    this.#tenants.delete(tenantId);
  }
}
