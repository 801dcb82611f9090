/** Which tenants get writes of their own: those whose logs others hold so often that writes of many pass them by. */
import { LRUCache } from "lru-cache";
import type { TenantId } from "../../base/ids.ts";
import type { BatchLeft } from "../ports/store.ts";

/** Writes of many that may pass a tenant by, one after the other. The next one is its own, and waits. */
const maxPassedBy = 3;
/** Writes of its own that a tenant gets then: a log that another process writes to as well is held again soon. */
const ownWrites = 8;
/** Tenants that are remembered. One that is forgotten is passed by again first. */
const maxTenants = 4_096;

export class Contention {
  /** How often a tenant was passed by since its last write. */
  readonly #passedBy = new LRUCache<TenantId, number>({ max: maxTenants });
  /** How many writes of its own a tenant still gets. One that fails does not count: it may fail again. */
  readonly #apart = new LRUCache<TenantId, number>({ max: maxTenants });

  isApart(tenantId: TenantId): boolean {
    return this.#apart.has(tenantId);
  }

  /** A write of several left the tenant's batch out. */
  noteLeft(tenantId: TenantId, { left }: BatchLeft): void {
    const passedBy = (this.#passedBy.get(tenantId) ?? 0) + 1;
    if (left === "apart") this.#apart.set(tenantId, 1);
    else if (passedBy < maxPassedBy) this.#passedBy.set(tenantId, passedBy);
    else {
      this.#passedBy.delete(tenantId);
      this.#apart.set(tenantId, ownWrites);
    }
  }

  /** The tenant's batch was stored. */
  noteWritten(tenantId: TenantId): void {
    this.#passedBy.delete(tenantId);
    const left = this.#apart.get(tenantId);
    if (left === undefined) return;
    if (left > 1) this.#apart.set(tenantId, left - 1);
    else this.#apart.delete(tenantId);
  }
}
