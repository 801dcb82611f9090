/** The part that a store has in a copy. Its source is sealed, and its target is not complete: neither is served. */
import { IncompatibleStoreError } from "../files/errors.ts";
import type { Queries, Row, Statement } from "./queries.ts";

export interface CopyState {
  readonly part: "source" | "target";
  /** Identity of the other store. */
  readonly otherStoreId: string;
  /** Whether the target may be served: the seal of its source is then permanent. */
  readonly isFinal: boolean;
}

export const copyState: Statement = {
  name: "copy_state",
  text: "SELECT part, other_store_id, is_final FROM store_copy WHERE singleton = 1",
};

/** Returns the part that the store has in a copy; undefined if it has none. */
export async function readCopyState(queries: Queries): Promise<CopyState | undefined> {
  return toCopyState((await queries.query(copyState, [])).rows[0]);
}

export function toCopyState(row: Row | undefined): CopyState | undefined {
  if (row === undefined) return undefined;
  const part = row.part === "source" ? "source" : "target";
  return { part, otherStoreId: row.other_store_id as string, isFinal: row.is_final === 1 };
}

/** Throws `IncompatibleStoreError` if the store takes part in a copy. `store` begins its message. */
export function requireServable(state: CopyState | undefined, store: string): void {
  if (state === undefined) return;
  if (state.part === "target")
    throw new IncompatibleStoreError(
      `${store} is not complete: a store is being copied to it, or such a copy was broken off: finish it with ` +
        "`store copy`.",
    );
  throw new IncompatibleStoreError(
    state.isFinal
      ? `${store} is sealed: it was copied to the store ${state.otherStoreId}, which continues its logs.`
      : `${store} is sealed: a copy to another store is under way, or was broken off. Run \`store copy\` again, or take ` +
          "the seal off with `store copy --abandon`.",
  );
}
