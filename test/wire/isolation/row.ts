import type { Wire, World } from "./world.ts";

/** One stored thing of which no tenant gets anything of another's. */
export interface IsolationRow {
  readonly thing: string;
  /** Tables that hold it, by their names in every store. */
  readonly tables: readonly string[];
  readonly check: (world: World, wire: Wire) => Promise<void>;
}
