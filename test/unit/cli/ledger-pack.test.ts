/** Packs as an operator makes them and an outside auditor verifies them, from a store that a service has written. */
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test, vi } from "vitest";
import type { RecordId } from "../../../src/base/ids.ts";
import { contentAddress } from "../../../src/base/text-forms.ts";
import type { PolicyBundle } from "../../../src/policy/load/bundle.ts";
import { manualClock, storeIn } from "../../contract/ledger-records.ts";
import { decision, evidence, registration } from "../ledger/pack/records.ts";
import { bundleContent } from "../policy/harness.ts";
import {
  type Change,
  directory,
  eachWithStore,
  erasing,
  execute,
  fileOf,
  refused,
  run,
  servedTo,
} from "./surroundings.ts";

const startMs = Date.UTC(2026, 0, 2);
let clock = manualClock(startMs);

eachWithStore();
beforeEach(() => {
  clock = manualClock(startMs);
});

/** What a service does between two starts, a second a record. Resolves with the ids of the records. */
async function serve(changes: readonly Change[], policy?: string, name = "alice"): Promise<readonly RecordId[]> {
  const records = await servedTo(name, changes, { clock, ...(policy !== undefined && { policy }) });
  return records.map(({ recordId }) => recordId);
}

const out = (name = "pack") => join(directory, name);
const makePack = (...options: string[]) => run("ledger", "pack", "--tenant", "alice", "--out", out(), ...options);

async function verify(file = out()) {
  const keys = (await run("keys", "show", "--tenant", "alice")).out.trim().split("\n");
  const trusted = keys.flatMap((key) => ["--key", key]);
  // Offline: no store is in reach.
  vi.stubEnv("SVC_STORE", "sqlite:/nowhere/at/all.db");
  const ran = await run("ledger", "pack", "verify", file, ...trusted, "--json");
  const text = await run("ledger", "pack", "verify", file, ...trusted);
  vi.stubEnv("SVC_STORE", `sqlite:${storeIn(directory).path}`);
  return { code: ran.code, text: text.out, err: text.err, report: JSON.parse(ran.out) };
}

const policyText = (tenants: Readonly<Record<string, string>>, hasEntities = false, policies = {}) =>
  bundleContent({
    engine: "cedar",
    schema: "entity A;",
    manifest: { platform: "a", tenants },
    keyReferences: [],
    sets: { a: policies },
    ...(hasEntities && { entities: { files: {} } }),
  } as unknown as PolicyBundle);

/** Records a decision under the policy text. */
async function serveUnder(content: string) {
  const revision = contentAddress(content);
  const outcome = { allow: true, policy_revision: revision };
  const [first = ""] = await serve([() => ({ ...decision(true), policyRevision: revision, outcome })], content);
  return { first, revision };
}

const lineage = [
  () => decision(true),
  ([id]: readonly RecordId[]) => registration({ digest: "sha256:a", cid: "cid-a", decision: id as string }),
  ([id]: readonly RecordId[]) => evidence("protect", { cid: "cid-a", decision: id as string }),
];

describe("pack and pack verify", () => {
  test("show the lineage of an artifact", async () => {
    const [first] = await serve([...lineage, () => evidence("access", { digest: "sha256:a" })]);
    expect(await makePack("--artifact-digest", "sha256:a")).toMatchObject({
      code: 0,
      out: expect.stringMatching(
        /pack: 4 entries of ledger\.example\/\S+, proven in its 5 leaves\n {2}without the text of policy revision sha256:0123: the store does not have it\n$/,
      ),
    });
    expect(statSync(out()).mode & 0o777).toBe(0o600);
    const { code, text, report } = await verify();
    expect(code).toBe(0);
    const lines = text.split("\n");
    expect(lines[0]).toMatch(/^verified: 4 records of ledger\.example\/[0-9a-f]{32}$/);
    const begin = lines.indexOf("artifact sha256:a, CID cid-a");
    expect(lines.slice(begin + 1, begin + 6)).toEqual([
      `  2026-01-02T00:00:00.000Z  leaf 1  decision protect allowed  by principal-1 (subject-1)  ${first}  evidence expected, evidenced`,
      expect.stringMatching(
        /^ {2}2026-01-02T00:00:01\.000Z {2}leaf 2 {2}registration protect accepted .* cites \S+: matched$/,
      ),
      expect.stringMatching(
        /^ {2}2026-01-02T00:00:02\.000Z {2}leaf 3 {2}evidence protect completed .* cites \S+: matched$/,
      ),
      expect.stringMatching(/^ {2}2026-01-02T00:00:03\.000Z {2}leaf 4 {2}evidence access completed/),
      "      ! cites no decision",
    ]);
    expect(text).toContain("  + every record is exactly the one that its leaf commits to, of this tenant and log");
    expect(text).toContain("  - that nothing of the selection is left out");
    expect(report).toMatchObject({
      ok: true,
      tenant_id: "alice",
      tree_size: 5,
      complete: false,
      selection: { artifact_digest: "sha256:a" },
      lineages: [{ cids: ["cid-a"], steps: [{ leaf_index: 1 }, {}, {}, {}] }],
    });
  });

  test.each([
    [
      ["--principal", "principal-1"],
      [0, 1, 2, 3],
    ],
    [["--from", "2026-01-02T01:00:01+01:00", "--to", "2026-01-02T00:00:02Z"], [2]],
    [
      ["--last", "9999d"],
      [0, 1, 2, 3],
    ],
  ])("%j", async (options, records) => {
    await serve(lineage);
    await serve([() => decision(true)], undefined, "bob");
    expect(await makePack(...options)).toMatchObject({ code: 0 });
    const { report, code } = await verify();
    expect(code).toBe(0);
    const steps = [...report.lineages.flatMap((each: { steps: unknown[] }) => each.steps), ...report.others];
    expect(steps.map(({ leaf_index }) => leaf_index).sort()).toEqual(records);
    expect(report.complete).toBe(["--from", "--to", "--last"].includes(options[0] ?? ""));
  });

  test("are not made of the beginning of an id, which no verifier would find in them", async () => {
    const [first = ""] = await serve(lineage);
    expect(await makePack("--decision", first.slice(0, 20))).toEqual({
      code: 2,
      out: "",
      err: "--decision: must be a whole id\n",
    });
    expect(existsSync(out())).toBe(false);
  });

  test("contain no policy text about other tenants, unless all are requested", async () => {
    const content = policyText({ "*": "a", bob: "b" });
    const { first, revision } = await serveUnder(content);
    expect((await makePack("--decision", first)).out).toContain(`${revision}: it names other tenants too`);
    expect((await verify()).report).toMatchObject({ ok: true, policies: [{ revision, shown: false }] });
    expect(readFileSync(out(), "utf8")).not.toContain("bob");
    rmSync(out());
    await makePack("--decision", first, "--all-policies");
    expect((await verify()).report).toMatchObject({ ok: true, policies: [{ revision, shown: true }] });
  });

  test.each([
    ['permit (principal == Principal::"alice/a", action, resource);', [], true],
    ['permit (principal == Principal::"carol/a", action, resource);', [], false],
    ['forbid (principal, action, resource) when { principal.tenant == "bob" };', ["bob"], false],
  ])("contain the policy %j only if it names no other tenant", async (policy, others, isShown) => {
    const { first, revision } = await serveUnder(policyText({ "*": "a" }, false, { "a.cedar": policy }));
    for (const other of others) await serve([() => decision(true)], undefined, other);
    const { out: said } = await makePack("--decision", first);
    expect((await verify()).report).toMatchObject({ ok: true, policies: [{ revision, shown: isShown }] });
    expect(said.includes(`${revision}: it names other tenants too`)).toBe(!isShown);
  });

  test.each<[string, Readonly<Record<string, string>>, readonly string[], boolean]>([
    ["the only tenant", { "*": "a" }, [], true],
    ["the only tenant that it names", { alice: "a" }, ["bob"], true],
    ["one tenant of several", { "*": "a" }, ["bob"], false],
    ["one tenant of those that it names", { alice: "a", bob: "a" }, [], false],
  ])(
    "contain a policy text with entities for %s, or leave it out with a true reason",
    async (_, tenants, others, isShown) => {
      const content = policyText(tenants, true);
      const { first, revision } = await serveUnder(content);
      for (const other of others) await serve([() => decision(true)], undefined, other);
      const { out: said } = await makePack("--decision", first);
      expect((await verify()).report).toMatchObject({ ok: true, policies: [{ revision, shown: isShown }] });
      const reason = tenants["*"] === undefined ? "it names other tenants too" : "it has the entities of all tenants";
      if (isShown) expect(said).not.toContain("without the text");
      else expect(said).toContain(`${revision}: ${reason}`);
    },
  );

  test("show prints the policy texts of a pack, and refuses one that does not match its revision", async () => {
    const content = policyText({ "*": "a" });
    const { first, revision } = await serveUnder(content);
    await makePack("--decision", first);
    const shown = await run("ledger", "pack", "show", out(), "--policies");
    expect(shown.out).toContain(`policy revision ${revision}\n// manifest: {"platform":"a","tenants":{"*":"a"}}`);
    const { policies } = JSON.parse((await run("ledger", "pack", "show", out(), "--policies", "--json")).out);
    expect(policies).toEqual([{ revision, shown: true, bundle: JSON.parse(content) }]);
    writeFileSync(out(), readFileSync(out(), "utf8").replace("entity A", "entity B"));
    expect((await run("ledger", "pack", "show", out())).err).toContain(
      "line 2: the policy text is not that of revision",
    );
  });

  test("leave out a policy text that was changed in the store, and name it", async () => {
    const content = policyText({ "*": "a" });
    const { first, revision } = await serveUnder(content);
    execute("UPDATE policy_revisions SET content = replace(content, 'entity A', 'entity B')");
    for (const all of [[], ["--all-policies"]]) {
      const made = await makePack("--decision", first, ...all);
      expect(made).toMatchObject({
        code: 0,
        out: expect.stringContaining(`${revision}: the text in the store is not`),
      });
      const { report } = await verify();
      expect(report).toMatchObject({ ok: true, policies: [{ revision, shown: false }] });
      expect(report.proven.join()).not.toContain("policy text");
      rmSync(out());
    }
  });

  test("contain the leaf and the erasure of an erased record", async () => {
    const [, registered] = await serve(lineage);
    expect(
      await run("ledger", "erase", "--tenant", "alice", "--record", registered as string, ...erasing),
    ).toMatchObject({
      code: 0,
    });
    await makePack("--from", "2026-01-02T00:00:01Z", "--to", "2026-01-02T00:00:02Z");
    const { report, text } = await verify();
    expect(report).toMatchObject({ ok: true, erased: 1, records: 1, complete: true });
    expect(text).toContain(`leaf 2  registration ERASED  ${registered}`);
    expect(readFileSync(out(), "utf8")).not.toContain("cid-a");
  });

  test("refuse a changed pack, a file that is no pack, and a missing one", async () => {
    await serve(lineage);
    await makePack("--to", "2026-01-03T00:00:00Z");
    const text = readFileSync(out(), "utf8");
    writeFileSync(out("changed"), text.replace("subject-1", "subject-2"));
    expect(await verify(out("changed"))).toMatchObject({
      code: 1,
      err: expect.stringMatching(/changed: line 2: leaf 0 does not commit to its record\n$/),
      report: { ok: false },
    });
    writeFileSync(out("cut"), text.slice(0, -1));
    expect((await verify(out("cut"))).err).toMatch(/line \d+: is cut off/);
    expect((await verify(out("none"))).err).toMatch(/none: cannot be read \(ENOENT\)/);
    expect((await run("ledger", "pack", "verify", out())).err).toContain("--key");
  });
});

describe("pack", () => {
  test.each([
    [[], /^--last, or --from and --to, say what to pack, or one of --artifact-digest, .*--label, or both$/m],
    [["--cid", "a", "--label", "b"], /or one of/],
    [["--cid", ""], /or one of/],
    [["--decision", "b", "--from", "2026-01-02T00:00:00Z"], /^--decision: is of any time/],
    [["--last", "1d", "--from", "2026-01-02T00:00:00Z"], /--last: must not be given with from/],
    [["--from", "2026-01-02T00:00:00Z", "--to", "2026-01-02T00:00:00Z"], /--to: is not after --from/],
    // The end is in the year 10000, whose text is before every time of a record.
    [["--to", "9999-12-31T23:59:59-01:00"], /^--from, --to: must be in the years 0000 to 9999, in UTC$/m],
    [["--cid", "unknown"], /nothing is found/],
    [["--artifact-digest", "9f86"], /--artifact-digest: must be a digest/, 2],
  ])("%j is refused, and leaves no file", async (options, message, code = 1) => {
    await serve(lineage);
    await refused(makePack(...options), message, code);
    expect(existsSync(out())).toBe(false);
  });

  test("needs a file, and never writes over one", async () => {
    expect((await run("ledger", "pack", "--to", "2026-01-03T00:00:00Z")).err).toBe("--out: is required\n");
    await serve(lineage);
    writeFileSync(out(), "mine");
    await refused(makePack("--to", "2026-01-03T00:00:00Z"), `${out()} exists already\n`);
    expect(readFileSync(out(), "utf8")).toBe("mine");
    expect((await run("ledger", "pack", "--tenant", "carol", "--out", out("b"), "--cid", "c")).err).toBe(
      "tenant carol has no log\n",
    );
  });

  test("reports a file that it cannot create", async () => {
    await serve(lineage);
    const file = fileOf("file", "");
    const packTo = (path: string) =>
      run("ledger", "pack", "--tenant", "alice", "--out", path, "--to", "2026-01-03T00:00:00Z");
    const missing = join(directory, "missing");
    await refused(packTo(join(missing, "x")), `--out: there is no directory ${missing}\n`);
    await refused(packTo(join(file, "x")), `--out: there is no directory ${file}\n`);
    const long = join(directory, "x".repeat(300));
    await refused(packTo(long), `--out: ${long} cannot be written (ENAMETOOLONG)\n`);
  });
});
