/** Commands on keys and logs, on a store that a service has written. */
import { existsSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { runCommandLine } from "../../../src/cli/run.ts";
import { openCheckpoint } from "../../../src/ledger/tlog/checkpoint.ts";
import { parseVerifierKey } from "../../../src/ledger/tlog/note-keys.ts";
import { manualClock, storeIn } from "../../contract/ledger-records.ts";
import {
  directory,
  eachWithStore,
  erasing,
  execute,
  fileOf,
  makeRecord,
  openLedger,
  refused,
  removeDatabase,
  run,
  served,
} from "./surroundings.ts";
import { captureTerminal } from "./terminal.ts";

const clock = manualClock();
eachWithStore();

/** What a service does between two starts. */
const serve = (...tenants: readonly string[]) => served(tenants, clock);

describe("keys", () => {
  test("generate creates a private file once", async () => {
    const { keyPath } = storeIn(directory);
    expect(await run("keys", "generate")).toMatchObject({ code: 0, out: expect.stringContaining("public key ") });
    expect(statSync(keyPath).mode & 0o777).toBe(0o600);
    const key = readFileSync(keyPath);
    await refused(run("keys", "generate"), "exists already");
    expect(readFileSync(keyPath)).toEqual(key);
    await serve("alice"); // It is the one that is used.
    expect(readFileSync(keyPath)).toEqual(key);
  });

  test("show prints one line for each log, or for one tenant's", async () => {
    await serve("alice", "bob");
    const all = await run("keys", "show");
    const lines = all.out.trim().split("\n");
    expect(lines).toHaveLength(2);
    for (const line of lines) expect(parseVerifierKey(line)?.name).toMatch(/^ledger\.example\/[0-9a-f]{32}$/);
    expect((await run("keys", "show", "--tenant", "bob")).out.trim()).toBe(lines[1]);
    await refused(run("keys", "show", "--tenant", "carol"), "there is no such log\n");
  });

  test.each([
    ["of another store", (path: string) => rmSync(path)],
    ["from before a rotation", undefined],
  ])("nothing is signed or shown with a key %s", async (_, change) => {
    await serve("alice");
    const { keyPath } = storeIn(directory);
    const old = readFileSync(keyPath);
    if (change === undefined) {
      await run("keys", "rotate", ...erasing);
      await serve("alice");
      writeFileSync(keyPath, old);
    } else {
      change(keyPath);
      await run("keys", "generate");
    }
    const refused = { code: 1, out: "", err: `${keyPath} does not have the key that signs the logs of this store.\n` };
    const alice = ["--tenant", "alice"];
    const [pack, log] = [join(directory, "pack"), join(directory, "log")];
    expect(await run("keys", "show")).toEqual(refused);
    expect(await run("ledger", "pack", ...alice, "--to", "2030-01-01T00:00:00Z", "--out", pack)).toEqual(refused);
    expect(await run("ledger", "export", ...alice, "--out", log)).toEqual(refused);
    expect([pack, join(log, "checkpoint")].filter(existsSync)).toEqual([]);
  });

  test("nothing is signed beside the new anchor that a refused start leaves", async () => {
    const [recorded] = await serve("alice");
    removeDatabase(storeIn(directory).anchorPath);
    await expect(serve("alice")).rejects.toThrow("is new, but this store had an anchor");
    await refused(run("ledger", "receipt", recorded?.recordId ?? ""), `${storeIn(directory).anchorPath} is new\n`);
    await refused(run("ledger", "verify"), `${storeIn(directory).anchorPath} is new\n`);
  });

  test("rotate changes to a new key, with an overlap", async () => {
    await serve("alice");
    const [before] = (await run("keys", "show")).out.split("\n");
    expect((await run("keys", "rotate", "--finish", "--yes")).err).toContain("no rotation to finish");
    expect((await run("keys", "rotate", ...erasing)).code).toBe(0);
    expect((await run("keys", "rotate", ...erasing)).err).toContain("under way");
    expect((await run("keys", "rotate", "--finish", "--yes")).err).toContain("start the service with it first");
    await serve("alice");
    const during = (await run("keys", "show")).out.trim().split("\n");
    expect(during).toEqual([expect.any(String), before]);
    expect((await run("keys", "rotate", "--finish", "--yes")).code).toBe(0);
    await serve("alice");
    expect((await run("keys", "show")).out.trim()).toBe(during[0]);
    expect(await run("ledger", "verify")).toMatchObject({ code: 0, out: expect.stringContaining("5 leaves") });
  });

  test("a key that no service has taken yet signs nothing, and the one that signs is shown beside it", async () => {
    const [recorded] = await serve("alice");
    const [before = ""] = (await run("keys", "show")).out.split("\n");
    await run("keys", "rotate", ...erasing);
    const keys = (await run("keys", "show", "--retired")).out.trim().split("\n");
    expect(keys).toEqual([expect.not.stringContaining(before), before]);
    const { out } = await run("ledger", "receipt", recorded?.recordId ?? "", "--cose");
    const { cose, proof } = JSON.parse(out);
    const keyIds = keys.map((vkey) => Buffer.from(vkey.split("+")[1] ?? "", "hex"));
    expect(keyIds.map((keyId) => Buffer.from(cose, "base64").includes(keyId))).toEqual([false, true]);
    expect(proof.match(/^\u2014 /gm)).toHaveLength(1);
    const both = keys.flatMap((vkey) => ["--key", vkey]);
    expect((await run("ledger", "receipt", "verify", fileOf("receipt.json", out), ...both)).code).toBe(0);
    await serve("alice");
    const after = (await run("keys", "show", "--retired")).out.trim().split("\n");
    expect(after).toEqual([keys[0], `${before}@2`]);
  });

  test("a file without such a key is refused", async () => {
    await serve("alice");
    writeFileSync(storeIn(directory).keyPath, "not a key");
    await refused(run("keys", "show"), "holds no private key");
    rmSync(storeIn(directory).keyPath);
    await refused(run("keys", "rotate", ...erasing), "is missing");
  });
});

describe("ledger", () => {
  test("verify reports what it found, and what is wrong", async () => {
    await serve("alice", "alice", "bob");
    const { out, code } = await run("ledger", "verify");
    expect(code).toBe(0);
    expect(out).toMatch(
      /^ok ledger\.example\/\S+ \(tenant alice\): 3 leaves, 0 erased, root \S+=\nok .*bob.*: 2 leaves/,
    );
    await refused(run("ledger", "verify", "--tenant", "carol"), "tenant carol has no log\n");
    rmSync(storeIn(directory).anchorPath);
    await refused(run("ledger", "verify"), "is missing");
  });

  test("verify shows its progress on a terminal, and clears it at the end", async () => {
    const ledger = await openLedger(clock);
    await Promise.all(Array.from({ length: 1_024 }, () => ledger.append(makeRecord("alice"))));
    await ledger.close();
    const { terminal, written } = captureTerminal();
    await runCommandLine(["ledger", "verify"], { ...terminal, isWatched: true });
    expect(written.err).toBe("\r\u001b[2Klog 1 of 1: 1024 of 1025\r\u001b[2K");
  });

  test("export writes a signed checkpoint and its tiles, and never over a file", async () => {
    await serve("alice", "alice");
    const out = join(directory, "out");
    expect(await run("ledger", "export", "--tenant", "alice", "--out", out)).toMatchObject({ code: 0 });
    const verifier = parseVerifierKey(readFileSync(join(out, "vkey"), "utf8").trim());
    if (verifier === undefined) throw new Error("no key");
    expect(openCheckpoint(readFileSync(join(out, "checkpoint"), "utf8"), verifier).size).toBe(3);
    expect(statSync(join(out, "tile/0/000.p/3")).size).toBe(96);
    expect(existsSync(join(out, "tile/entries/000.p/3"))).toBe(true);
    await refused(run("ledger", "export", "--tenant", "alice", "--out", out), `${out} is not empty\n`);
  });

  // Node's own `recursive` never comes back from /proc.
  test.skipIf(!existsSync("/proc/self")).each(["/proc/none/log", "/dev/null", "/dev/null/log", ""])(
    "export says that %j is no place to write to",
    async (out) => {
      await serve("alice");
      await refused(
        run("ledger", "export", "--tenant", "alice", "--out", out),
        /^--out: ".*" cannot be a directory to write to \(E[A-Z]+\)\n$/,
      );
    },
  );

  test("export and pack sign nothing that the anchor does not go along with", async () => {
    await serve("alice", "alice");
    rmSync(storeIn(directory).anchorPath);
    const [out, pack] = [join(directory, "out"), join(directory, "pack")];
    expect(await run("ledger", "export", "--tenant", "alice", "--out", out)).toMatchObject({ code: 1 });
    expect(await run("ledger", "pack", "--to", "2030-01-01T00:00:00Z", "--out", pack)).toMatchObject({ code: 1 });
    expect([pack, join(out, "checkpoint")].filter(existsSync)).toEqual([]);
  });

  test.each([
    ["no file", undefined, /cannot be read \(ENOENT\)/],
    ["no JSON", "{", /it is not JSON/],
    ["no receipt", "{}", /holds no receipt/],
  ])("receipt verify: %s", async (_, content, message) => {
    const file = content === undefined ? join(directory, "none") : fileOf("receipt.json", content);
    const key = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k";
    await refused(run("ledger", "receipt", "verify", file, "--key", key), message);
    expect((await run("ledger", "receipt", "verify", file)).err).toContain("--key");
  });
});

describe("if a later log fails", () => {
  const faults = { entries: "INSERT", search_segments: "INSERT", openings: "DELETE" };

  test.each([
    ["clock accept", erasing, { logs: [{ tenant_id: "alice" }] }, "not all times are accepted"],
    ["reindex", [], { logs: [{ tenant_id: "alice" }] }, "not all logs are indexed"],
    ["reapply-erasures", erasing, { reapplied: [{ tenant_id: "alice" }] }, "not all that came back are erased again"],
  ])("%s reports what is done, and that not all is", async (command, options, done, problem) => {
    const recorded = await served(["alice", "bob"], manualClock(Date.now() + 1_800_000));
    execute("CREATE TABLE kept AS SELECT * FROM openings");
    for (const [at, tenant] of ["alice", "bob"].entries())
      await run("ledger", "erase", "--tenant", tenant, "--record", recorded[at]?.recordId ?? "", ...erasing);
    execute("INSERT OR REPLACE INTO openings SELECT * FROM kept; DROP TABLE kept");
    for (const [table, verb] of Object.entries(faults))
      execute(`CREATE TRIGGER fault_${table} BEFORE ${verb} ON ${table}
        WHEN ${verb === "DELETE" ? "OLD" : "NEW"}.tenant_id = 'bob' BEGIN SELECT RAISE(ABORT, 'disk I/O error'); END`);
    const words = ["ledger", ...command.split(" "), ...options];
    const { code, out } = await run(...words, "--json");
    const problems = [expect.stringContaining("disk I/O error"), `${problem}: give the command again`];
    expect([code, JSON.parse(out)]).toMatchObject([1, { ok: false, ...done, problems }]);
    for (const table of Object.keys(faults)) execute(`DROP TRIGGER fault_${table}`);
    expect(await run(...words)).toMatchObject({ code: 0, out: expect.stringContaining("bob") });
  });
});

/** A record of the store with its proof, as the service would have answered it now. */
describe("ledger receipt", () => {
  async function receiptOf(recordId: string, ...options: string[]) {
    const { code, out } = await run("ledger", "receipt", recordId, ...options);
    expect(code).toBe(0);
    return JSON.parse(out);
  }

  /** Verifies a receipt by the keys that the store signs with. */
  async function verifyReceipt(receipt: object) {
    const [{ keys }] = JSON.parse((await run("keys", "show", "--tenant", "alice", "--json")).out).logs;
    const file = fileOf("receipt.json", JSON.stringify(receipt));
    return run("ledger", "receipt", "verify", file, ...keys.flatMap((key: string) => ["--key", key]), "--json");
  }

  test("--cose adds a COSE receipt that verifies too, and that of another record is refused", async () => {
    const [first, second] = await served(["alice", "alice"]);
    const receipt = await receiptOf(first?.recordId ?? "", "--cose");
    expect(await verifyReceipt(receipt)).toMatchObject({ code: 0 });
    const { cose } = await receiptOf(second?.recordId ?? "", "--cose");
    expect(await verifyReceipt({ ...receipt, cose })).toMatchObject({
      code: 1,
      out: expect.stringContaining("The COSE receipt is not of this leaf and tree."),
    });
  });

  test("a COSE receipt with a wrong signature by any of the trusted keys is refused, in any order of the keys", async () => {
    const [recorded] = await serve("alice");
    await run("keys", "rotate", ...erasing);
    await serve("alice");
    const keys = (await run("keys", "show")).out.trim().split("\n");
    const receipt = await receiptOf(recorded?.recordId ?? "", "--cose");
    const changed = Buffer.from(receipt.cose, "base64");
    changed[changed.length - 40] = (changed.at(-40) as number) ^ 1;
    const wrong = { ...receipt, cose: changed.toString("base64") };
    const verify = (given: object, order: readonly string[]) => {
      const options = order.flatMap((key) => ["--key", key]);
      return run("ledger", "receipt", "verify", fileOf("receipt.json", JSON.stringify(given)), ...options);
    };
    for (const order of [keys, keys.toReversed()]) {
      expect(await verify(receipt, order)).toMatchObject({ code: 0 });
      await refused(verify(wrong, order), "The COSE receipt has a wrong signature by the trusted key.");
    }
  });

  test("an erased, foreign or unknown record has no receipt", async () => {
    const [first, second] = await served(["alice", "bob"]);
    await run("ledger", "erase", "--tenant", "alice", "--record", first?.recordId ?? "", ...erasing);
    const receipt = (recordId: string) => ["ledger", "receipt", recordId, "--tenant", "alice"];
    await refused(run(...receipt(first?.recordId ?? "")), "the record was erased");
    await refused(run(...receipt(second?.recordId ?? "")), "the log of tenant alice has no such record");
    await refused(run(...receipt("7")), "<record>: is not a record id");
  });
});
