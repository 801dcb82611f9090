/** Writes what an append adds to search indexes. */
import type { TenantId } from "../../../base/ids.ts";
import type { Queries } from "../connection/connection.ts";
import type { SearchAddition } from "./search-backlog.ts";
import { addTerms, addTermsOfMany, moveIndex, moveIndexesOfMany } from "./search-index.ts";
import { addSegmentsOfMany, addSegmentsTo, clearSegments } from "./search-segments.ts";

/** To the indexes of a log. */
export async function addSearch(
  queries: Queries,
  tenantId: TenantId,
  { rows, segments, move, opens }: SearchAddition,
): Promise<void> {
  await Promise.all([
    move !== undefined && opens ? clearSegments(queries, tenantId, move.generation) : undefined,
    addTerms(queries, tenantId, rows),
    addSegmentsTo(queries, tenantId, segments),
    move && moveIndex(queries, tenantId, move),
  ]);
}

/** As `addSearch`, of many tenants on one server. */
export async function addSearchOfMany(
  queries: Queries,
  additions: readonly (SearchAddition & { readonly tenantId: TenantId })[],
): Promise<void> {
  const opened = additions.filter(({ opens }) => opens);
  await Promise.all([
    ...opened.map(({ tenantId, move }) => move && clearSegments(queries, tenantId, move.generation)),
    addTermsOfMany(
      queries,
      additions.flatMap(({ tenantId, rows }) => rows.map((row) => ({ tenantId, ...row }))),
    ),
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
