import fc from "fast-check";
import { expect, test } from "vitest";
import { allTiles, encodeEntries, parseTilePath, partialTiles, tilePath } from "../../../src/ledger/tlog/tiles.ts";

test.each([
  ["0/000", { level: 0, index: 0, width: 256 }],
  ["0/x001/234", { level: 0, index: 1_234, width: 256 }],
  ["1/x001/x234/067", { level: 1, index: 1_234_067, width: 256 }],
  ["0/273.p/112", { level: 0, index: 273, width: 112 }],
  ["63/999.p/1", { level: 63, index: 999, width: 1 }],
  ["entries/x001/000.p/255", { level: "entries", index: 1_000, width: 255 }],
] as const)("%s", (path, name) => {
  expect(tilePath(name)).toBe(path);
  expect(parseTilePath(path)).toEqual(name);
});

test("what is no name's own spelling names no tile", () => {
  const part = fc.constantFrom(
    ..."0 1 63 64 000 001 256 999 x000 x001 x009 993 .p p entries entry Entries - / \\n".split(" "),
    "",
  );
  const path = fc.array(fc.oneof(part, fc.constant("/")), { maxLength: 9 }).map((parts) => parts.join(""));
  fc.assert(
    fc.property(path, (text) => {
      const name = parseTilePath(text);
      if (name !== undefined) expect(tilePath(name)).toBe(text);
    }),
    { numRuns: 5_000 },
  );
});

test.each(["64/000", "100/000", "0/000.p/0", "0/000.p/256", "0/x009/x007/x199/x254/x740/993"])(
  "%j, of a size that no tree has, names no tile",
  (path) => {
    expect(parseTilePath(path)).toBeUndefined();
  },
);

test("every name is read back as written", () => {
  const name = fc.record({
    level: fc.oneof(fc.constant("entries" as const), fc.integer({ min: 0, max: 63 })),
    index: fc.maxSafeNat(),
    width: fc.integer({ min: 1, max: 256 }),
  });
  fc.assert(
    fc.property(name, (tile) => {
      expect(parseTilePath(tilePath(tile))).toEqual(tile);
    }),
  );
});

test("the tiles of a tree of 70,000 are the specification's", () => {
  expect(partialTiles(70_000)).toEqual([
    { level: 0, index: 273, width: 112 },
    { level: 1, index: 1, width: 17 },
    { level: 2, index: 0, width: 1 },
  ]);
  const tiles = [...allTiles(70_000)];
  expect(tiles).toHaveLength(273 + 1 + 1 + 1 + 1);
  expect(tiles.filter(({ width }) => width < 256)).toEqual(partialTiles(70_000));
  expect([...allTiles(256)]).toEqual([
    { level: 0, index: 0, width: 256 },
    { level: 1, index: 0, width: 1 },
  ]);
  expect([...allTiles(0)]).toEqual([]);
});

test("entries in a bundle follow their lengths", () => {
  const bundle = encodeEntries([Buffer.from("ab"), new Uint8Array(0), new Uint8Array(300)]);
  expect(Buffer.from(bundle.subarray(0, 8)).toString("hex")).toBe("000261620000012c");
  expect(bundle).toHaveLength(2 + 2 + 2 + 2 + 300);
  expect(() => encodeEntries([new Uint8Array(65_536)])).toThrow(RangeError);
});
