/**
 * How patient the next write of a tenant is: those whose logs others hold are passed by, then waited for together, and
 * where that takes long each on its own, so that nobody waits for a log that is stuck. A log that another process appends to
 * as well is waited for from then on: passed by, it would need two writes, and both would be small.
 */
import { LRUCache } from "lru-cache";
import type { TenantId } from "../../base/ids.ts";
import type { BatchLeft, BatchResult, Patience } from "../ports/store.ts";

/** Tenants that are remembered. One that is forgotten is passed by again first. */
const maxTenants = 4_096;
/** After so many writes without another's between them a log is passed by again where it is held. */
const quietWrites = 8;

interface Contended {
  readonly patience: Patience;
  /** Writes since another process was seen to append. */
  readonly quiet: number;
}

export class Contention {
  readonly #tenants = new LRUCache<TenantId, Contended>({ max: maxTenants });

  patienceFor(tenantId: TenantId): Patience {
    return this.#tenants.get(tenantId)?.patience ?? "none";
  }

  /** A write of several left the tenant's batch out. */
  noteLeft(tenantId: TenantId, { left }: BatchLeft): void {
    this.#tenants.set(tenantId, { patience: left === "held" ? "moment" : "full", quiet: 0 });
  }

  /** The tenant's batch was stored. After one that failed the next is as patient. */
  noteWritten(tenantId: TenantId, { isShared = false }: Pick<BatchResult, "isShared">): void {
    const { patience, quiet } = this.#tenants.get(tenantId) ?? { patience: "none", quiet: 0 };
    if (isShared) this.#tenants.set(tenantId, { patience: "moment", quiet: 0 });
    else if (patience === "moment" && quiet + 1 < quietWrites)
      this.#tenants.set(tenantId, { patience, quiet: quiet + 1 });
    else this.#tenants.delete(tenantId);
  }
}
