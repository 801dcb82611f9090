/** The search index at rest: segments of terms, and what a process keeps of the leaves that wait for one. */
import fc from "fast-check";
import { expect, test } from "vitest";
import { systemClock } from "../../../src/base/clock.ts";
import { StoredTerms } from "../../../src/ledger/search/search-index.ts";
import { RightEdge } from "../../../src/ledger/tlog/right-edge.ts";
import { LogTools } from "../../../src/stores/sql/log-tools.ts";
import { additionOf, SearchTerms } from "../../../src/stores/sql/search-backlog.ts";
import {
  entryBytes,
  leavesOfTerms,
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
const leavesFrom = (firstLeaf: number) =>
  fc.array(
    fc.record({
      leafIndex: fc.integer({ min: firstLeaf, max: firstLeaf + segmentLeaves - 1 }),
      terms: fc.array(anyTerm, { maxLength: 4 }).map((terms) => Buffer.concat(terms).toString("latin1")),
    }),
    { minLength: 1, maxLength: 40 },
  );
const segment = first.chain((firstLeaf) =>
  fc.record({ firstLeaf: fc.constant(firstLeaf), leaves: leavesFrom(firstLeaf) }),
);

type Rows = ReturnType<typeof unpackTerms>;
const rowsOf = (leaves: Parameters<typeof packTerms>[1]): Rows =>
  leaves.flatMap(({ leafIndex, terms }) =>
    Array.from({ length: terms.length / 16 }, (_, at) => ({
      leafIndex,
      term: Buffer.from(terms.slice(at * 16, at * 16 + 16), "latin1"),
    })),
  );
const hex = ({ term }: Rows[number]) => Buffer.from(term).toString("hex");
const named = (rows: Rows) => [...new Set(rows.map((row) => `${row.leafIndex} ${hex(row)}`))].sort();

test("a segment has the terms of its leaves, each once, and no others", () => {
  fc.assert(
    fc.property(segment, ({ firstLeaf, leaves }) => {
      const packed = packTerms(firstLeaf, leaves);
      const rows = rowsOf(leaves);
      expect(named(unpackTerms(firstLeaf, packed))).toEqual(named(rows));
      expect(packed.length).toBe(entryBytes * new Set(rows.map(hex)).size);
    }),
  );
});

test("a term finds its leaves, each once and in order", () => {
  fc.assert(
    fc.property(segment, anyTerm, ({ firstLeaf, leaves }, other) => {
      const packed = packTerms(firstLeaf, leaves);
      const rows = rowsOf(leaves);
      for (const asked of [...rows.map((row) => row.term), other]) {
        const own = rows.filter((row) => Buffer.compare(row.term, asked) === 0).map(({ leafIndex }) => leafIndex);
        expect(leavesOfTerms(firstLeaf, packed, wantedTerms([asked]))).toEqual([...new Set(own)].sort((a, b) => a - b));
      }
    }),
  );
});

test.each([-1, segmentLeaves])("a leaf %i after the first belongs to no segment", (position) => {
  expect(() => packTerms(100, [{ leafIndex: 100 + position, terms: "0".repeat(16) }])).toThrow(RangeError);
});

test("terms that are cached, or wait, keep no memory but their own", () => {
  const key = Buffer.from("a1".repeat(32), "hex");
  const principal = { field: "principal", value: "payroll" } as const;
  const records = [{ leafIndex: 0, terms: [principal] }];
  const added = { index: { key, filledTo: 0 }, before: 0, size: 1, records, waiting: undefined, read: undefined };
  const { waiting } = additionOf(new SearchTerms(), added);
  const kept = [new StoredTerms().under(key)(principal), waiting?.key];
  expect(kept.map((bytes) => bytes?.buffer.byteLength)).toEqual([16, 32]);
  expect(waiting?.leaves).toEqual([{ leafIndex: 0, terms: expect.stringMatching(/^.{16}$/s) }]);
});

test("a process remembers few logs of many waiting terms, and many of few", () => {
  const root = new Uint8Array(32) as never;
  /** How many logs it still knows, of so many whose terms take so many bytes each. */
  const known = (logs: number, bytes: number) => {
    const tools = new LogTools({ anchor: undefined, originPrefix: "", clock: systemClock, random: (into) => into });
    const heads = Array.from({ length: logs }, (_, log) => ({ tenantId: `tenant-${log}`, size: 0, root }) as never);
    const waiting = { key: root, first: 0, leaves: [{ leafIndex: 0, terms: "0".repeat(bytes) }] };
    for (const log of heads) tools.remember({ log, edge: new RightEdge(), waiting });
    return heads.filter((head) => tools.recall(head).waiting !== undefined).length;
  };
  expect(known(400, 210_000)).toBe(276);
  expect(known(3_000, 6_000)).toBe(1_719);
});
