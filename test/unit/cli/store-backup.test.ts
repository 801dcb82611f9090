/** `store backup` and what is restored from one; `store compact`. */
import { spawn } from "node:child_process";
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  readdirSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterEach, describe, expect, test } from "vitest";
import { inStore } from "../../../src/cli/frame/store.ts";
import type { ServiceLedger } from "../../../src/ledger/append/ledger.ts";
import { verifyReceipt } from "../../../src/ledger/record/receipt.ts";
import { parseTrustedKey } from "../../../src/ledger/tlog/trusted-key.ts";
import { givenOf, storeIn } from "../../contract/ledger-records.ts";
import { runProgram, watch } from "../../harness/process.ts";
import {
  directory,
  eachWithStore,
  erasing,
  fileOf,
  makeRecord,
  openLedger,
  refused,
  removeDatabase,
  run,
} from "./surroundings.ts";

const program = join(import.meta.dirname, "../../../src/cli/cli.ts");
let ledger: ServiceLedger | undefined;

const append = (count = 1) => Promise.all(Array.from({ length: count }, () => ledger?.append(makeRecord("alice"))));
const target = () => join(directory, "backup.db");
const backUp = (...options: string[]) => run("store", "backup", "--to", target(), ...options);

async function serve(count: number): Promise<string> {
  ledger = await openLedger();
  const [first] = await append(count);
  await ledger.close();
  return first?.recordId ?? "";
}

/** As the runbook says: the service is stopped, the newest files are kept, the copy takes the store's name. */
function restore(): void {
  const { path } = storeIn(directory);
  removeDatabase(path);
  copyFileSync(target(), path);
}

eachWithStore();
afterEach(async () => {
  await ledger?.close();
  ledger = undefined;
});

test("a copy made under load is a whole store, readable by its owner only, with every receipt from before it", async () => {
  ledger = await openLedger();
  const before = (await append(20)).flatMap((one) => one ?? []);
  let isOver = false;
  const load = (async () => {
    while (!isOver) await append(4);
  })();
  // In a process of its own, as an operator makes it: this one goes on to write.
  const made = await runProgram(process.execPath, [program, "store", "backup", "--to", target(), "--json"]);
  isOver = true;
  await load;
  await ledger.close();
  const { ok, size_bytes, logs } = JSON.parse(made);
  const { mode, size } = statSync(target());
  expect([ok, size_bytes, mode & 0o777]).toEqual([true, size, 0o600]);
  expect(logs[0].tree_size).toBeGreaterThanOrEqual(21);
  expect(existsSync(`${target()}.partial`)).toBe(false);
  // Beside its anchor it is known for what it is: an older copy, and by how much.
  restore();
  await refused(run("ledger", "verify"), /has \d+ leaves, and had \d+: the store is an older copy/);
  await expect(openLedger()).rejects.toThrow("nothing may be signed");
  const key = parseTrustedKey((await run("keys", "show")).out.trim());
  if (key === undefined) throw new Error("no key");
  for (const { receipt } of before) expect(verifyReceipt(givenOf(receipt), key).record).toBeDefined();
});

test("an older copy does not show what was erased since; without its anchor, it lists what to erase again", async () => {
  const recordId = await serve(3);
  const { anchorPath } = storeIn(directory);
  await backUp();
  const erase = ["ledger", "erase", "--tenant", "alice", "--record", recordId, ...erasing];
  expect((await run(...erase)).code).toBe(0);
  restore();
  const search = ["ledger", "search", "--tenant", "alice", "--record", recordId];
  expect((await run(...search, "--records")).out).toContain("ERASED");
  const verified = await run("ledger", "verify");
  expect(verified).toMatchObject({ code: 1, err: expect.stringContaining("has 4 leaves, and had 5") });
  expect(verified.err).toContain("the anchor notes the erasure of 1 record");
  // Nothing is appended to an older copy, an erasure neither.
  expect((await run("ledger", "reapply-erasures", ...erasing)).err).toContain("is an older copy");
  const dry = JSON.parse((await run("ledger", "reapply-erasures", "--dry-run", "--json")).out);
  expect(dry.would_reapply).toMatchObject([{ tenant_id: "alice", record_id: recordId }]);
  // On the operator's word alone, with the list of the old anchor at hand.
  removeDatabase(anchorPath);
  expect((await run("ledger", "anchor", "adopt", "--accept-unproven-state", ...erasing)).code).toBe(0);
  expect((await run(...search)).out).not.toContain("ERASED");
  expect((await run(...erase)).code).toBe(0);
  expect((await run(...search)).out).toContain("ERASED");
  expect((await run("ledger", "verify")).code).toBe(0);
});

describe("a failed backup replaces nothing, and leaves nothing", () => {
  const store = () => storeIn(directory).path;
  test.each([
    ["the store itself", store, "exists already"],
    ["a link to it", () => link(store()), "exists already"],
    ["the anchor", () => storeIn(directory).anchorPath, "exists already"],
    ["an older backup", () => fileOf("older.db", ""), "exists already"],
    ["a directory", () => folder("d"), "exists already"],
    ["a name of SQLite's beside the store", () => `${store()}-journal`, "is the place of a file of the store itself"],
    ["the same by a link to the folder", () => `${linkedFolder()}/platform.db-journal`, "is the place of a file"],
    ["in no folder", () => join(directory, "nowhere", "b.db"), "is missing"],
    ["beside a backup that is under way", () => fileOf("b.db.partial", "").replace(".partial", ""), "is under way"],
  ])("%s", async (_, place, problem) => {
    await serve(1);
    const to = place();
    const files = () => readdirSync(directory).filter((name) => !/-(wal|shm)$/.test(name));
    const before = files();
    await refused(run("store", "backup", "--to", to), RegExp(`^--to: .*${problem}`));
    expect(files()).toEqual(before);
    expect(await run("ledger", "verify")).toMatchObject({ code: 0 });
  });

  test.runIf(process.platform === "linux")("on a full disk", async () => {
    await serve(20);
    // A limit of the process stands in for the disk's: what is beyond is not written.
    const limited = `trap '' XFSZ; ulimit -f 64; exec "$0" "$@"`;
    const child = spawn("sh", ["-c", limited, process.execPath, program, "store", "backup", "--to", target()]);
    const { ended, errors } = watch(child);
    expect((await ended).code).toBe(1);
    expect(errors()).toContain(`cannot be copied to ${target()}.partial`);
    expect(readdirSync(directory).filter((name) => name.startsWith("backup"))).toEqual([]);
  });

  const folder = (name: string) => {
    mkdirSync(join(directory, name));
    return join(directory, name);
  };
  const link = (to: string) => {
    symlinkSync(to, join(directory, "link"));
    return join(directory, "link");
  };
  const linkedFolder = () => link(directory);
});

test.each([
  ["missing", (path: string) => rmSync(path), "is missing"],
  ["no database", (path: string) => writeFileSync(path, "x".repeat(4_096)), "file is not a database"],
])("a store that is %s is not copied", async (_, change, problem) => {
  await serve(1);
  change(storeIn(directory).path);
  await refused(backUp(), RegExp(`^SVC_STORE: .*${problem}`));
  expect(existsSync(target())).toBe(false);
});

test("expired rows of every tenant are removed, others stay, and the store gets smaller", async () => {
  await serve(200);
  const { path } = storeIn(directory);
  const database = new DatabaseSync(path);
  const [expired, current] = [Date.now() - 25 * 60 * 60_000, Date.now() + 60_000];
  const insert = database.prepare("INSERT INTO proof_uses (tenant_id, proof, expires_at_ms) VALUES (?, ?, ?)");
  database.exec("BEGIN");
  for (let i = 0; i < 2_500; i++) insert.run("gone", `${i}`.padEnd(200, "x"), expired);
  insert.run("here", "proof", current);
  database
    .prepare("INSERT INTO attempts (tenant_id, counter, taken, window_ends_at_ms) VALUES (?, ?, 1, ?), (?, ?, 1, ?)")
    .run("gone", "a", expired, "here", "b", current);
  const answers = database.prepare(
    "INSERT INTO kept_answers (tenant_id, scope, leaf_index, tree_size, kept_at_ms, sealed) VALUES ('alice', ?, 0, 1, ?, x'00')",
  );
  answers.run(Buffer.alloc(32, 1), expired);
  answers.run(Buffer.alloc(32, 2), Date.now());
  database.exec("COMMIT");
  const kept = () => database.prepare("SELECT count(*) AS count FROM kept_answers").get()?.count;
  ledger = await openLedger();
  const beside = await run("store", "compact", "--json");
  expect(JSON.parse(beside.out)).toMatchObject({
    ok: true,
    removed: { kept_answers: 1, proof_uses: 2_500, attempts: 1 },
  });
  expect([kept(), database.prepare("SELECT count(*) AS count FROM proof_uses").get()?.count]).toEqual([1, 1]);
  database.close();
  await append(1);
  await ledger.close();
  const before = statSync(path).size;
  const rewritten = JSON.parse((await run("store", "compact", "--rewrite", "--json")).out);
  expect(rewritten).toMatchObject({ ok: true, is_log_empty: true, after_bytes: statSync(path).size });
  expect(statSync(path).size).toBeLessThan(before);
  await serve(1);
});

test("compaction fails beside a reader of an older state, until the reader has ended", async () => {
  await serve(1);
  const reader = new DatabaseSync(storeIn(directory).path, { readOnly: true });
  reader.exec("BEGIN");
  reader.prepare("SELECT count(*) FROM entries").get();
  await serve(1);
  const { code, out } = await run("store", "compact", "--json");
  expect([code, JSON.parse(out)]).toMatchObject([1, { ok: false, removed: {}, is_log_empty: false }]);
  expect(JSON.parse(out).problems).toEqual([expect.stringContaining("run this again when it has ended")]);
  reader.close();
  expect((await run("store", "compact")).code).toBe(0);
});

test("the refusal of a locked store says what to do", async () => {
  const locked = () => Promise.reject(new Error("database is locked"));
  await expect(inStore(locked)).rejects.toThrow(
    "SVC_STORE: database is locked. Another process writes to it: try again",
  );
});
