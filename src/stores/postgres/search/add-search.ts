/** Writes what an append adds to search indexes. */
import type { TenantId } from "../../../base/ids.ts";
import type { SearchAddition } from "../../search-backlog.ts";
import type { Queries } from "../connection/connection.ts";
import { moveIndex, moveIndexesOfMany } from "./search-index.ts";
import { addSegmentsOfMany, addSegmentsTo } from "./search-segments.ts";

/** To the index of a log. */
export async function addSearch(
  queries: Queries,
  tenantId: TenantId,
  { segments, move }: SearchAddition,
): Promise<void> {
  await Promise.all([addSegmentsTo(queries, tenantId, segments), move && moveIndex(queries, tenantId, move)]);
}

/** As `addSearch`, of many tenants on one server. */
export async function addSearchOfMany(
  queries: Queries,
  additions: readonly (SearchAddition & { readonly tenantId: TenantId })[],
): Promise<void> {
  await Promise.all([
    addSegmentsOfMany(
      queries,
      additions.flatMap(({ tenantId, segments }) => segments.map((segment) => ({ tenantId, ...segment }))),
    ),
    moveIndexesOfMany(
      queries,
      additions.flatMap(({ tenantId, move }) => (move === undefined ? [] : [{ tenantId, ...move }])),
    ),
  ]);
}
