/** The search index at rest: segments of terms, and what a process keeps of the leaves that wait for one. */
import fc from "fast-check";
import { expect, test } from "vitest";
import type { TenantId } from "../../../src/base/ids.ts";
import { WaitingTerms } from "../../../src/stores/sql/log-tools.ts";
import {
  entryBytes,
  leavesOfTerms,
  mergeTerms,
  packTerms,
  segmentLeaves,
  unpackTerms,
  wantedTerms,
} from "../../../src/stores/sql/term-segment.ts";

/** Of few bytes, so that one term stands across the entries of others. */
const term = fc.constantFrom(0, 1, 255).map((byte) => new Uint8Array(16).fill(byte));
/** Some of them begin alike. */
const endings = fc.nat(15).map((at) => new Uint8Array(16).fill(1, at));
const anyTerm = fc.oneof(term, endings, fc.uint8Array({ minLength: 16, maxLength: 16 }));
const first = fc.integer({ min: 0, max: 1_000 });
const rowsFrom = (firstLeaf: number) =>
  fc.array(
    fc.record({
      leafIndex: fc.integer({ min: firstLeaf, max: firstLeaf + segmentLeaves - 1 }),
      term: anyTerm,
    }),
    { minLength: 1, maxLength: 40 },
  );
const segment = first.chain((firstLeaf) => fc.record({ firstLeaf: fc.constant(firstLeaf), rows: rowsFrom(firstLeaf) }));

const named = (rows: readonly { readonly leafIndex: number; readonly term: Uint8Array }[]) =>
  [...new Set(rows.map((row) => `${row.leafIndex} ${Buffer.from(row.term).toString("hex")}`))].sort();

test("a segment has the terms that were packed into it, and no others", () => {
  fc.assert(
    fc.property(segment, ({ firstLeaf, rows }) => {
      const packed = packTerms(firstLeaf, rows);
      expect(packed.length % entryBytes).toBe(0);
      expect(named(unpackTerms(firstLeaf, packed))).toEqual(named(rows));
      // Two of them, one behind the other, are one that has what both have.
      expect(named(unpackTerms(firstLeaf, Buffer.concat([packed, packed])))).toEqual(named(rows));
    }),
  );
});

test("a merged segment has the same terms, each once", () => {
  fc.assert(
    fc.property(segment, segment, ({ firstLeaf, rows }, other) => {
      const others = other.rows.map((row) => ({ ...row, leafIndex: row.leafIndex - other.firstLeaf + firstLeaf }));
      const merged = mergeTerms(Buffer.concat([packTerms(firstLeaf, rows), packTerms(firstLeaf, others)]));
      const all = [...rows, ...others];
      expect(named(unpackTerms(firstLeaf, merged))).toEqual(named(all));
      expect(merged.length).toBe(entryBytes * new Set(all.map((row) => Buffer.from(row.term).toString("hex"))).size);
    }),
  );
});

test("a term finds its leaves, each once and in order", () => {
  fc.assert(
    fc.property(segment, anyTerm, ({ firstLeaf, rows }, other) => {
      const packed = Buffer.concat([packTerms(firstLeaf, rows), packTerms(firstLeaf, rows)]);
      for (const asked of [...rows.map((row) => row.term), other]) {
        const own = rows.filter((row) => Buffer.compare(row.term, asked) === 0).map(({ leafIndex }) => leafIndex);
        expect(leavesOfTerms(firstLeaf, packed, wantedTerms([asked]))).toEqual([...new Set(own)].sort((a, b) => a - b));
      }
    }),
  );
});

test.each([-1, segmentLeaves])("a leaf %i after the first belongs to no segment", (position) => {
  const rows = [{ leafIndex: 100 + position, term: new Uint8Array(16) }];
  expect(() => packTerms(100, rows)).toThrow(RangeError);
});

test("the cache of waiting terms keeps few logs of many terms, and many of few", () => {
  const root = new Uint8Array(32) as never;
  /** How many logs it still knows, of so many whose terms take so many bytes each. */
  const known = (logs: number, bytes: number) => {
    const terms = new WaitingTerms();
    const tenants = Array.from({ length: logs }, (_, log) => `tenant-${log}` as TenantId);
    for (const tenantId of tenants)
      terms.put({ tenantId, root }, { generation: 1, first: 0, packed: new Uint8Array(bytes) });
    return tenants.filter((tenantId) => terms.of({ tenantId, root }) !== undefined).length;
  };
  expect(known(200, 210_000)).toBe(78);
  expect(known(1_600, 6_000)).toBe(1_600);
  expect(known(5_000, 0)).toBe(4_096);
});
