/** What the newest leaves of logs will be found by, as this process appended them. */
import { LRUCache } from "lru-cache";
import type { TenantId } from "../../../base/ids.ts";
import type { LogState } from "../../../ledger/ports/store.ts";
import { type Hash, sameHash } from "../../../ledger/tlog/tree.ts";
import type { Waiting } from "../../search-backlog.ts";

/** Of all logs together. Of others the records are read again, once in 64 leaves. */
const maxBytes = 16 * 1024 * 1024;
/** What a log takes beside its terms at most, about: few of them may hold a buffer of which they are a part. */
const overheadBytes = 4 * 1024;

export class WaitingTerms {
  readonly #cache = new LRUCache<TenantId, { readonly root: Hash; readonly waiting: Waiting }>({
    maxSize: maxBytes,
    sizeCalculation: ({ waiting }) => waiting.packed.length + overheadBytes,
  });

  /** Of all leaves that wait, where nobody has appended since: so nobody has erased since either. */
  of({ tenantId, root }: Pick<LogState, "tenantId" | "root">): Waiting | undefined {
    const known = this.#cache.get(tenantId);
    return known !== undefined && sameHash(known.root, root) ? known.waiting : undefined;
  }

  /** To be called once the log has been committed. */
  put({ tenantId, root }: Pick<LogState, "tenantId" | "root">, waiting: Waiting | undefined): void {
    if (waiting === undefined) this.#cache.delete(tenantId);
    else this.#cache.set(tenantId, { root, waiting });
  }
}
