/** The mark of a database that a store is being copied to: until it is gone nobody serves from it, or writes to it. */
import { IncompatibleStoreError } from "../../errors.ts";
import type { Queries, Statement } from "../connection/session.ts";

const readMark: Statement = { name: "copy_mark", text: "SELECT copy_under_way FROM store WHERE singleton = 1" };

/** Whether the database is no copy that is under way or was broken off. */
export async function isWhole(queries: Queries): Promise<boolean> {
  const [row] = (await queries.query(readMark, [])).rows;
  return typeof row?.copy_under_way !== "string";
}

/** Rejects with `IncompatibleStoreError` where a copy into the database is under way, or was broken off. */
export async function requireWholeStore(queries: Queries): Promise<void> {
  if (await isWhole(queries)) return;
  throw new IncompatibleStoreError(
    "A store is being copied to the database, or such a copy was broken off: finish it with `store copy`.",
  );
}
