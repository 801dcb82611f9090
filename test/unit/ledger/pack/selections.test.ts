/** Packs about one thing: what belongs to them, and that nothing else does. */
import { beforeEach, describe, expect, test } from "vitest";
import type { RecordId } from "../../../../src/base/ids.ts";
import { LineageCollector } from "../../../../src/domain/lineage/lineage.ts";
import { packReport } from "../../../../src/domain/lineage/report.ts";
import { type PackLine, parseSelection, selectionMembers } from "../../../../src/ledger/pack/format.ts";
import { type MemoryLog, memoryLog, moment } from "./memory-log.ts";
import { leafAlone, linesIn, sealLines, verifyText } from "./packs.ts";
import { decision, evidence, registration } from "./records.ts";

let log: MemoryLog;
let protect: RecordId;

/** 0 genesis, 1 decision, 2 registration, 3 and 4 events, 5 and 6 of another artifact, 7 a denial that 8 ignores. */
beforeEach(() => {
  log = memoryLog();
  protect = log.append(decision(true));
  log.append(registration({ digest: "sha256:a", cid: "cid-a", decision: protect }));
  log.append(evidence("protect", { cid: "cid-a", decision: protect }));
  log.append(evidence("access", { digest: "sha256:a" }));
  log.append(evidence("protect", { digest: "sha256:b", decision: protect, citation: "expired" }));
  log.append(registration({ digest: "sha256:b" }));
  const denied = log.append(decision(false, "access"));
  log.append(evidence("access", { digest: "sha256:c", decision: denied, citation: "denied" }));
  log.append({
    ...decision(true),
    caller: { principal_id: "p2", subject: "s2", auth_source: "bearer_token" } as never,
  });
});

async function report(text: string) {
  const lineage = new LineageCollector();
  const shares = { records: 0, erased: 0, leavesOnly: 0 };
  const indices: number[] = [];
  const pack = await verifyText(text, [log.verifier()], (entry) => {
    lineage.add(entry);
    if (entry.record !== undefined) shares.records += 1;
    indices.push(entry.leafIndex);
  });
  return { ...packReport(pack, shares, lineage.report(pack.range)), indices };
}

test("a pack about a subject of enforcement points has every decision about it, and about no other", async () => {
  const about = (type: string, id: string) => {
    const plain = decision(true);
    return log.append({ ...plain, request: { ...plain.request, on_behalf_of: { type, id } } });
  };
  const first = about("user", "alice");
  about("user", "bob");
  // One that would be called the same, if types had slashes as they are.
  about("user/alice", "x");
  about("user", "alice/x");
  about("user", "alice");
  const packed = async (value: string) => (await report(await log.pack({ field: "on_behalf_of", value }))).indices;
  expect(await packed("user/alice")).toEqual([10, 14]);
  expect(await packed("user~1alice/x")).toEqual([12, 14]);
  expect(await packed("user/alice/x")).toEqual([13, 14]);
  log.erase(first);
  expect(await packed("user/alice")).toEqual([14, 15]);
});

describe("a pack of", () => {
  test.each([
    ["artifact digest and decisions behind it", { field: "artifact_digest", value: "sha256:a" }, [1, 2, 3, 4, 5, 9]],
    ["a CID", { field: "cid", value: "cid-a" }, [1, 2, 3, 5, 9]],
    ["an artifact without decision", { field: "artifact_digest", value: "sha256:c" }, [7, 8, 9]],
    ["a principal, and nothing that is linked", { field: "principal", value: "p2" }, [9]],
  ] as const)("%s", async (_, selection, indices) => {
    const text = await log.pack(selection);
    const { complete, not_proven, ...others } = await report(text);
    expect(others.indices).toEqual(indices);
    expect(complete).toBe(false);
    expect(not_proven[0]).toMatch(/^that nothing of the selection is left out/);
  });

  test("a decision", async () => {
    const { indices } = await report(await log.pack({ field: "decision_id", value: protect }));
    expect(indices).toEqual([1, 2, 3, 5, 9]);
  });

  test("a pack of an unknown thing is not made", async () => {
    await expect(log.pack({ field: "cid", value: "no" })).rejects.toThrow("nothing is found");
  });

  test("an artifact whose decision was erased shows the decision's leaf and its erasure", async () => {
    log.erase(protect);
    for (const selection of [
      { field: "cid", value: "cid-a" },
      { field: "decision_id", value: protect },
    ] as const) {
      const { indices, lineages = [] } = await report(await log.pack(selection));
      expect(indices).toEqual([1, 2, 3, 5, 10]);
      expect(lineages[0]?.steps[0]).toMatchObject({ leaf_index: 1, kind: "decision", erased: true });
      expect(lineages[0]?.remarks.map(({ code, leaf_index }) => [code, leaf_index])).toEqual([
        ["decision_erased", 2],
        ["decision_erased", 3],
      ]);
    }
  });
});

describe("a pack of one thing in a period", () => {
  test.each([
    ["in the middle", { from: moment(2), to: moment(5) }, [2, 3, 4, 5, 6, 9], { first_leaf_index: 3, leaves: 3 }],
    ["from the beginning", { to: moment(3) }, [1, 2, 3, 4, 5, 9], { first_leaf_index: 0, leaves: 4 }],
    ["to the end", { from: moment(3) }, [3, 4, 9], { first_leaf_index: 4, leaves: 6 }],
  ])("%s shows the leaves at the ends of the period", async (_, times, indices, part) => {
    const packed = await report(await log.pack({ field: "artifact_digest", value: "sha256:a", ...times }));
    expect(packed).toMatchObject({ indices, part, complete: false });
    expect(packed.not_proven[0]).toMatch(/^that nothing of the selection is left out: each leaf of the time range/);
  });

  test("contains the decisions that its records cite, of any time, and all records that cite those", async () => {
    const packed = await report(await log.pack({ field: "cid", value: "cid-a", from: moment(2), to: moment(3) }));
    expect(packed.indices).toEqual([1, 2, 3, 4, 5, 9]);
    expect(packed.part).toEqual({ first_leaf_index: 3, leaves: 1, shown: 1, closed: true });
    expect(packed.not_proven[0]).toBe("that nothing is left out that is linked to the selection at other times");
  });

  test("does not claim completeness if a record of it is left out: the count tells", async () => {
    const selection = { field: "principal", value: "principal-1", from: moment(2), to: moment(7) } as const;
    const whole = await log.pack(selection);
    expect(await report(whole)).toMatchObject({ part: { leaves: 5, shown: 5 } });
    // What an operator can make who hides leaf 5: a tool of theirs that does not find it.
    const { search } = log.source;
    log.source.search = async (query) => {
      const page = await search(query);
      return query.terms.length === 0
        ? page
        : { ...page, found: page.found.filter(({ leafIndex }) => leafIndex !== 5) };
    };
    const hiding = await report(await log.pack(selection));
    log.source.search = search;
    expect(hiding).toMatchObject({ complete: false, part: { leaves: 5, shown: 4 } });
    expect(hiding.proven.at(-1)).toBe("the time range is leaf 3 to leaf 7, 5 in all: 4 of them shown or erased");
    expect(hiding.not_proven[0]).toContain("each leaf of the time range that is not shown (1) may be of it");
    expect((await report(whole)).not_proven[0]).toMatch(/^that the records tell the truth/);
  });

  test("counts erased records, which may have been of the thing", async () => {
    log.erase(protect);
    const packed = await report(await log.pack({ field: "principal", value: "principal-1", to: moment(3) }));
    expect(packed).toMatchObject({ indices: [0, 2, 3, 4, 10], part: { leaves: 4, shown: 3 } });
  });

  test("without any record is not made, and is refused if another program makes it", async () => {
    const selection = { field: "principal", value: "p2", from: moment(9) } as const;
    await expect(log.pack(selection)).rejects.toThrow("nothing is found");
    const lines = linesIn(await log.pack({ field: "principal", value: "p2" })).flatMap((line): PackLine[] => {
      if (line.type === "header") return [{ ...line, selection: { principal: "p2", from: moment(9) } }];
      return line.type === "entry" ? [leafAlone(line)] : [];
    });
    const { part, proven } = await report(sealLines(lines));
    expect(part).toEqual({ leaves: 0, shown: 0, closed: false });
    expect(proven.at(-1)).toMatch(/^the time range has no leaf; it reaches beyond the newest of the 10 leaves/);
  });

  test("is refused if a leaf at an end is missing, a record is of another time, or a leaf shows nothing", async () => {
    const value = { principal: "principal-1" };
    const text = await log.pack({ field: "principal", value: value.principal, from: moment(3), to: moment(5) });
    const lines = linesIn(text);
    const refusal = (changed: string) => expect(verifyText(changed, [log.verifier()])).rejects;
    const selected = (selection: Record<string, string>, of = lines) =>
      sealLines(of.map((line) => (line.type === "header" ? { ...line, selection } : line)));
    const without = (leafIndex: number) =>
      sealLines(lines.filter((line) => line.type !== "entry" || line.leaf_index !== leafIndex));
    await refusal(selected({ ...value, from: moment(1), to: moment(5) })).toThrow("begin or end before leaf 3");
    await refusal(selected({ ...value, from: moment(3), to: moment(7) })).toThrow("begin or end before leaf 9");
    await refusal(selected({ ...value, to: moment(5) })).toThrow("leaf 3 shows nothing");
    await refusal(selected({ ...value, from: moment(4), to: moment(5) })).toThrow("leaf 3 shows nothing");
    await refusal(without(3)).toThrow("begin or end before leaf 4");
    await refusal(without(6)).toThrow("begin or end before leaf 9");
    const ofAllTime = linesIn(await log.pack({ field: "principal", value: value.principal }));
    const early = selected({ ...value, from: moment(2), to: moment(5) }, ofAllTime);
    await refusal(early).toThrow("the record of leaf 0 is not of the selection");
    const other = selected({ principal: "p2", from: moment(3), to: moment(5) });
    await refusal(other).toThrow("the record of leaf 4 is not of the selection");
    await refusal(selected({ decision_id: protect, to: moment(6) })).toThrow("selection is missing or malformed");
  });
});

test("a pack that shows no record does not prove the log's tenant", async () => {
  const ofBob = (text: string) => text.replace('"tenant_id":"alice"', '"tenant_id":"bob"');
  const unproven = "whose log it is: leaves name no tenant, and no record is shown";
  const empty = linesIn(ofBob(await log.pack({ from: moment(100) })));
  expect((await report(sealLines(empty))).not_proven).toContain(unproven);
  const shown = await log.pack({ from: moment(7) });
  expect((await report(shown)).not_proven).not.toContain(unproven);
  await expect(report(sealLines(linesIn(ofBob(shown))))).rejects.toThrow("is of another tenant");
});

test("a record unrelated to the selection is refused, and so is a leaf that shows nothing", async () => {
  const lines = linesIn(await log.pack({ field: "artifact_digest", value: "sha256:a" }));
  const relabelled = (selection: Record<string, string>) =>
    sealLines(lines.map((line) => (line.type === "header" ? { ...line, selection } : line)));
  const refusal = (text: string) => expect(verifyText(text, [log.verifier()])).rejects;
  await refusal(relabelled({ artifact_digest: "sha256:c" })).toThrow(
    "line 3: the record of leaf 1 is not of the selection",
  );
  await refusal(relabelled({ principal: "p2" })).toThrow("the record of leaf 1 is not of the selection");
  const bare = lines.map((line) => (line.type === "entry" && line.leaf_index === 4 ? leafAlone(line) : line));
  await refusal(sealLines(bare)).toThrow("leaf 4 shows nothing");
});

describe("a report", () => {
  test("marks a decision outside of the range", async () => {
    const { lineages = [] } = await report(await log.pack({ from: moment(1), to: moment(3) }));
    expect(lineages.flatMap(({ remarks }) => remarks.map(({ code }) => code))).toEqual([
      "decision_not_shown",
      "decision_not_shown",
    ]);
  });

  test("says of an open range that more may come", async () => {
    const { proven } = await report(await log.pack({ from: moment(1), to: moment(300) }));
    expect(proven.at(-1)).toContain("when it had 10 leaves");
    expect((await report(await log.pack({ to: moment(2) }))).proven.at(-1)).toBe(
      "nothing that the log holds of the time range is left out",
    );
  });
});

test("more records than a lineage may have are verified without one", async () => {
  const lineages = [new LineageCollector(9), new LineageCollector(10)];
  await verifyText(await log.pack({ to: moment(100) }), [log.verifier()], (entry) => {
    for (const lineage of lineages) lineage.add(entry);
  });
  expect(lineages.map((lineage) => lineage.report(undefined)?.lineages.length)).toEqual([undefined, 4]);
});

describe("a selection", () => {
  test.each([
    [{ cid: "x" }],
    [{ from: moment(0) }],
    [{ from: moment(0), to: moment(1) }],
    [{ label: "x", to: moment(1) }],
  ])("%j is read as it was written", (members) => {
    const selection = parseSelection(members);
    expect(selection && selectionMembers(selection)).toEqual(members);
  });

  test.each([
    [{}],
    [null],
    [["cid"]],
    [{ cid: "" }],
    [{ cid: 1 }],
    [{ cid: "x", principal: "y" }],
    [{ decision_id: "x", to: moment(0) }],
    [{ cid: "x", to: "2026" }],
    [{ from: "2026-01-02" }],
    [{ from: "2026-02-30T00:00:00.000Z" }],
    [{ subject: "x" }],
    [{ record_id: "x" }],
  ])("%j is no selection", (members) => {
    expect(parseSelection(members)).toBeUndefined();
  });
});
