/** Where a page of a search ends that finds nothing, by how much it goes through. */
import { expect, test } from "vitest";
import type { TenantId } from "../../../src/base/ids.ts";
import type { Queries, Row } from "../../../src/stores/sql/queries.ts";
import { searchRecords } from "../../../src/stores/sql/search.ts";

/** Leaves of one look. */
const looked = 65_536;
const size = 32 * looked;
const key = { generation: 1, key: new Uint8Array(32), filled_to: size };

/** A log whose segments of 64 leaves have so many bytes each, and not what is asked for. */
function logOf(bytes: number): Queries {
  const answers: Record<string, readonly Row[]> = {
    head: [{ size }],
    serving_index: [key],
    search_segment_bytes_within: [{ bytes: (looked / 64) * bytes }],
  };
  return {
    async query({ name }) {
      const rows = answers[name] ?? [];
      return { rows, count: rows.length };
    },
  };
}

test.each([
  [2_000, 16],
  [6_000, 16],
  [20_000, 5],
  [210_000, 1],
])("with segments of %i bytes it ends after %i looks", async (bytes, looks) => {
  const terms = [{ field: "subject", value: "nobody" }] as const;
  const page = await searchRecords(logOf(bytes), { tenantId: "alice" as TenantId, terms, limit: 10 });
  expect(page).toEqual({ found: [], next: looks * looked - 1 });
});
