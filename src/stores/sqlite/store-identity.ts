import type { SqliteConnection } from "./connection.ts";

/** What tells this store from every other. Throws where it is not there. */
export function readStoreId(connection: SqliteConnection): string {
  const id = connection.prepare("SELECT store_id FROM store WHERE singleton = 1").get()?.store_id;
  if (typeof id !== "string") throw new Error("The store has lost its identity.");
  return id;
}
