/** Makes a new anchor for a store that lost its own. The operator states that the store is the newest. */
import { encodeRecord } from "../../ledger/append/record-text.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import { adoptionRecord, type ErasureOptions } from "../../ledger/record/operator-records.ts";
import { sameHash } from "../../ledger/tlog/tree.ts";
import { openAnchor, readAnchor } from "../files/anchor.ts";
import { openConnection, readStoreId as readIdentity } from "../files/connection.ts";
import { IncompatibleStoreError } from "../files/errors.ts";
import { appendBatches } from "../sql/appending.ts";
import { heads } from "../sql/log-rows.ts";
import { LogTools } from "../sql/log-tools.ts";
import type { Queries } from "../sql/queries.ts";
import { readStoreId } from "../sql/store-checks.ts";
import { openSqliteDatabase } from "./backend.ts";
import { noteErasures } from "./noted-erasures.ts";
import type { StorePaths } from "./paths.ts";

/**
 * Returns why the store's anchor is not lost, and must not be replaced. Undefined if it is lost. A file that a refused
 * start created, and that belongs to no store, counts as lost.
 */
export function anchorIsThere(path: string, anchorPath: string): string | undefined {
  using anchor = readAnchor(anchorPath);
  const storeId = anchor?.storeId();
  if (storeId === undefined) return undefined;
  using connection = openConnection({ path, readOnly: true });
  return storeId === readIdentity(connection)
    ? `${anchorPath} is the anchor of this store: it is never replaced, whatever it says`
    : `${anchorPath} is the anchor of another store: move it away, or set SVC_ANCHOR to the place of this one's`;
}

/**
 * Appends a leaf about the adoption to every log, and makes the anchor, while it blocks other writers. Throws
 * `IncompatibleStoreError` if the logs are no longer as `audited`, or the anchor exists.
 */
export async function adoptAnchor(options: StorePaths & ErasureOptions, audited: readonly LogState[]): Promise<void> {
  const { anchorPath, operator, reason, clock, random } = options;
  await using store = openSqliteDatabase(options);
  using anchor = openAnchor(anchorPath);
  if (anchor.storeId() !== undefined) throw new IncompatibleStoreError(`${anchorPath} is there: nothing was done.`);
  await store.transact(async (transaction) => {
    await requireUnchanged(transaction, audited);
    // Every log exists, so no origin is made here.
    const tools = new LogTools({ anchor, originPrefix: "", clock, random });
    for (const { tenantId, size, root } of audited) {
      const record = encodeRecord(adoptionRecord({ tenantId, size, root, operator, reason, clock, random }));
      await appendBatches(transaction, [{ tenantId, records: [record] }], { taking: "apart", tools });
    }
  });
  // A crash before this leaves leaves without an anchor: the operator repeats the command.
  anchor.adopt(await readStoreId(store), await heads(store));
  await noteErasures(store, anchor);
}

async function requireUnchanged(queries: Queries, audited: readonly LogState[]): Promise<void> {
  const logs = await heads(queries);
  const isSame = ({ tenantId, size, root }: LogState) =>
    audited.some((log) => log.tenantId === tenantId && log.size === size && sameHash(log.root, root));
  if (logs.length !== audited.length || !logs.every(isSame))
    throw new IncompatibleStoreError("The store was written to meanwhile: stop the service, and try again.");
}
