/** Packs of a time range: what they show, and that nothing can be left out or put in. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import type { CheckedEntry } from "../../../../src/ledger/pack/entry-checks.ts";
import type { PackEntry, PackLine } from "../../../../src/ledger/pack/format.ts";
import { verifyPack } from "../../../../src/ledger/pack/verify.ts";
import { randomOf } from "../../../harness/fuzz/random.ts";
import { type MemoryLog, memoryLog, moment } from "./memory-log.ts";
import { changedLines } from "./mutations.ts";
import { leafAlone, linesIn, sealLines, verdictOf, verifyText } from "./packs.ts";

/** Genesis and leaf 1 at second 0, then a leaf a second. */
function tenLeaves(options?: Parameters<typeof memoryLog>[0]): MemoryLog {
  const log = memoryLog(options);
  for (let count = 0; count < 9; count++) log.append();
  return log;
}

function flipBit(bytes: Uint8Array | undefined): void {
  bytes?.set([(bytes[0] as number) ^ 1]);
}

async function verified(log: MemoryLog, text: string) {
  const entries: CheckedEntry[] = [];
  const pack = await verifyText(text, [log.verifier()], (entry) => entries.push(entry));
  const shown = entries.filter(({ record }) => record !== undefined).map(({ leafIndex }) => leafIndex);
  return { pack, indices: entries.map(({ leafIndex }) => leafIndex), shown };
}

describe("a pack of a time range", () => {
  test.each([
    ["inside the log", { from: moment(2), to: moment(5) }, [2, 3, 4, 5, 6, 9], [3, 4, 5], true],
    ["from the beginning", { to: moment(1) }, [0, 1, 2, 9], [0, 1], true],
    ["to the end", { from: moment(7) }, [7, 8, 9], [8, 9], false],
    ["beyond the end", { from: moment(7), to: moment(100) }, [7, 8, 9], [8, 9], false],
    ["up to the last leaf", { from: moment(7), to: moment(8) }, [7, 8, 9], [8], true],
    ["of everything", { to: moment(100) }, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], [0, 1, 2, 3, 4, 5, 6, 7, 8, 9], false],
    ["between two leaves", { from: "2026-01-02T00:00:02.001Z", to: "2026-01-02T00:00:02.002Z" }, [3, 4, 9], [], true],
    ["before the log", { to: moment(0) }, [0, 9], [], true],
    ["after the log", { from: moment(100) }, [9], [], false],
  ])("%s shows all of it, and its neighbours", async (_, selection, indices, shown, closed) => {
    const log = tenLeaves();
    const result = await verified(log, await log.pack(selection));
    expect(result).toMatchObject({ indices, shown, pack: { selection, tenantId: "alice" } });
    expect(result.pack.range).toEqual({ leaves: shown.length, firstLeafIndex: shown[0], closed });
    expect(result.pack.newestRecordedAt).toBe(moment(8));
  });

  test("needs some 2 log n hashes, instead of one for each leaf", async () => {
    const log = memoryLog();
    const records = Array.from({ length: 2_000 }, () => log.makeRecord());
    log.appendRecords(records.slice(0, 700) as never);
    log.clock.nowMs += 1_000;
    log.appendRecords(records.slice(700, 1_700) as never);
    log.clock.nowMs += 1_000;
    log.appendRecords(records.slice(1_700) as never);
    const text = await log.pack({ from: moment(1), to: moment(2) });
    const gaps = linesIn(text).flatMap((line) => (line.type === "entry" ? (line.gap ?? []) : []));
    expect(gaps.length).toBeLessThan(24);
    expect((await verified(log, text)).shown).toHaveLength(1_000);
  });

  test("contains each policy revision once, before its decisions", async () => {
    const log = memoryLog();
    const revision = "sha256:2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae";
    log.policies.set(revision, "foo");
    for (const policyRevision of [revision, "sha256:lost", revision]) log.append({ policyRevision });
    const text = await log.pack({ to: moment(100) });
    expect(linesIn(text).map((line) => (line.type === "policy" ? (line.content ?? "-") : line.type))).toEqual([
      "header",
      "entry",
      "foo",
      "entry",
      "-",
      "entry",
      "entry",
      "end",
    ]);
    const { pack } = await verified(log, text);
    expect([...pack.policies]).toEqual([
      [revision, true],
      ["sha256:lost", false],
    ]);
  });

  test("shows an erased record as erased, wherever the erasure is", async () => {
    const log = tenLeaves();
    log.erase(log.entries[3]?.recordId as never); // leaf 10, inside of the second range only
    log.append();
    log.erase(log.entries[4]?.recordId as never); // leaf 12
    log.append();
    expect(await verified(log, await log.pack({ from: moment(2), to: moment(5) }))).toMatchObject({
      indices: [2, 3, 4, 5, 6, 10, 12, 13],
      shown: [5, 10, 12],
    });
    // The erasure of leaf 4 is the leaf after the range.
    expect(await verified(log, await log.pack({ from: moment(2), to: moment(11) }))).toMatchObject({
      indices: [2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13],
      shown: [5, 6, 7, 8, 9, 10, 11, 12],
      pack: { range: { leaves: 9 } },
    });
  });

  test("is not made of an unsound log", async () => {
    const selection = { from: moment(2), to: moment(5) };
    const lost = tenLeaves();
    (lost.entries[4] as { opening: unknown }).opening = undefined;
    await expect(lost.pack(selection)).rejects.toThrow(/^the record .* cannot be opened, and no leaf erased it/);
    const changed = tenLeaves();
    flipBit(changed.entries[4]?.sealed);
    await expect(changed.pack(selection)).rejects.toThrow("leaf 4 does not open its record");
    const tile = tenLeaves();
    flipBit(tile.tiles.get("0/0"));
    await expect(tile.pack(selection)).rejects.toThrow("do not lead to the log's root");
    tile.tiles.clear();
    await expect(tile.pack(selection)).rejects.toThrow("tile 0 of level 0 is missing or short");
  });
});

describe("a false pack of a time range", async () => {
  const log = tenLeaves();
  const other = tenLeaves({ seed: "other" });
  const stranger = tenLeaves({ name: "bob" });
  const selection = { from: moment(2), to: moment(5) };
  const honest = linesIn(await log.pack(selection));
  const otherLines = linesIn(await other.pack(selection));

  const refusal = (text: string | Uint8Array, keys = [log.verifier()]) => verdictOf(text, keys);
  const at = (leafIndex: number) => honest.findIndex((line) => line.type === "entry" && line.leaf_index === leafIndex);
  const entryOf = (lines: PackLine[], leafIndex: number) =>
    lines.find((line) => line.type === "entry" && line.leaf_index === leafIndex) as PackEntry;
  const put = (leafIndex: number, entry: PackEntry) => honest.with(at(leafIndex), entry);
  const changed = (leafIndex: number, changes: Partial<PackEntry>) =>
    put(leafIndex, { ...entryOf(honest, leafIndex), ...changes });
  const headed = (changes: object) => honest.map((line) => (line.type === "header" ? { ...line, ...changes } : line));
  /** The policy's line, replaced by others. */
  const policies = (put: (line: PackLine & { type: "policy" }) => PackLine[]) =>
    honest.flatMap((line) => (line.type === "policy" ? put(line) : [line]));

  test("differs from the honest one, which verifies when put together again", async () => {
    expect(await refusal(sealLines(honest))).toBe("accepted");
  });

  test("is refused if it is a prefix", async () => {
    const bytes = Buffer.from(sealLines(honest));
    for (let end = 0; end < bytes.length; end += end > bytes.length - 200 ? 1 : 37)
      expect(await refusal(bytes.subarray(0, end))).toMatch(
        /^line \d+: is cut off$|^the pack is cut off: it has no end$/,
      );
  });

  test("with any changed byte is refused, with its line", async () => {
    const bytes = Buffer.from(sealLines(honest));
    await fc.assert(
      fc.asyncProperty(fc.nat(bytes.length - 1), fc.integer({ min: 1, max: 255 }), async (place, change) => {
        const copy = Buffer.from(bytes);
        copy[place] = (copy[place] as number) ^ change;
        expect(await refusal(copy)).toMatch(/^line \d+: ./);
      }),
      { numRuns: 300 },
    );
  });

  test("with any changed line is refused although its digest matches, but for its maker's word on the time", async () => {
    const { below: next } = randomOf(1, 0);
    for (let count = 0; count < 1_000; count++) {
      const lines = changedLines(honest, next);
      const verdict = await refusal(sealLines(lines));
      if (verdict === "accepted") {
        const [header, ...others] = lines.filter(({ type }) => type !== "end");
        expect([{ ...header, made_at: "" }, ...others]).toEqual([
          { ...honest[0], made_at: "" },
          ...honest.slice(1, -1),
        ]);
      } else expect(verdict, JSON.stringify(lines)).toMatch(/^line \d+: ./);
    }
  });

  const cases: readonly (readonly [string, () => PackLine[], RegExp])[] = [
    [
      "one dropped, with a hash in its place",
      () => {
        const hash = Buffer.alloc(32).toString("base64");
        return changed(5, { gap: [hash] }).filter((_, line) => line !== at(4));
      },
      /leaf 4 is left out/,
    ],
    ["a record left out", () => put(4, leafAlone(entryOf(honest, 4))), /leaf 4 is of the range/],
    [
      "a record said to be erased that was not",
      () => put(4, { ...leafAlone(entryOf(honest, 4)), erased: true }),
      /leaf 4 is said to be erased, and no erasure of it is shown/,
    ],
    ["everything of another log", () => [honest[0] as PackLine, ...otherLines.slice(1)], /is of another log/],
    [
      "a narrower range",
      () => headed({ selection: { from: moment(3), to: moment(5) } }),
      /leaf 3 is one too many before the range|record of leaf 2/,
    ],
    ["a wider range", () => headed({ selection: { from: moment(0), to: moment(5) } }), /leaf 0 is left out/],
    [
      "a policy that decided nothing",
      () => policies((line) => [line, { ...line, revision: "sha256:1" }]),
      /decided nothing/,
    ],
  ];
  test.each(cases)("%s is refused", async (_, lines, message) => {
    expect(await refusal(sealLines(lines()))).toMatch(message);
  });

  test("with a neighbour's record, or a leaf that the range does not need, is refused", async () => {
    const wider = linesIn(await log.pack({ from: moment(1), to: moment(5) }));
    const later = linesIn(await log.pack({ from: moment(5), to: moment(6) }));
    const { opening, record } = entryOf(wider, 2);
    const policy = honest.filter(({ type }) => type === "policy");
    const others = changed(2, { opening: opening as string, record: record as string });
    const before = [others[0] as PackLine, ...policy, ...others.slice(1).filter(({ type }) => type !== "policy")];
    expect(await refusal(sealLines(before))).toBe("line 3: the record of leaf 2 is not of the range");
    const more = [...honest.slice(0, at(9)), entryOf(later, 7), entryOf(later, 9)];
    expect(await refusal(sealLines(more))).toBe("line 8: leaf 7 is not of the range");
  });

  test("of another tenant's log is refused under this one's key, and so is a missing key", async () => {
    const text = await stranger.pack(selection);
    expect(await refusal(text)).toMatch(/^line 1: The note is not signed/);
    expect(await refusal(text, [])).toBe("line 1: There is no trusted key.");
    expect(await refusal(text, [log.verifier(), stranger.verifier()])).toBe("accepted");
  });

  test("in another encoding is refused", async () => {
    const text = sealLines(honest);
    expect(await refusal(text.replace('"entries":6', '"entries":7'))).toBe("line 9: there are 6 entries, not 7");
    expect(await refusal(`${text}\n`)).toMatch(/^line 10: comes after the end$/);
    expect(await refusal(text + text)).toMatch(/^line 10: comes after the end$/);
    expect(await refusal(text.replace("{", "{ "))).toBe("line 1: the header is not canonical JSON");
    expect(await refusal(text.replace('"made_at"', '"made_at":"","made_at"'))).toBe(
      "line 1: the header is not canonical JSON",
    );
    expect(await refusal(text.replace('"type":"header"', '"type":"header","x":1'))).toBe(
      "line 1: the header has an unknown member",
    );
    expect(await refusal(text.replace("evidence-pack/v1", "evidence-pack/v2"))).toMatch(
      "format is missing or malformed",
    );
    expect(await refusal("[]\n")).toBe("line 1: is not a JSON object");
    expect(await refusal('{"type":"__proto__"}\n')).toBe("line 1: is not a line of a pack");
    expect(await refusal(`{"type":"policy","revision":${"[".repeat(100_000)}\n`)).toBe("line 1: is not a JSON object");
    expect(await refusal(Buffer.from([0xff, 0x0a]))).toBe("line 1: is not UTF-8");
    expect(await refusal(`\ufeff${text}`)).toBe("line 1: is not a JSON object");
    expect(await refusal("")).toBe("the pack is cut off: it has no end");
  });

  test("with an endless line is refused before memory is used", async () => {
    async function* endless() {
      for (;;) yield Buffer.alloc(1 << 20, 0x20);
    }
    await expect(verifyPack(endless(), [log.verifier()])).rejects.toThrow("line 1: is too long");
  });
});
