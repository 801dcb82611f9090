/** `ledger verify` against earlier checkpoints, and of the rows beside the leaves. */
import { createHash } from "node:crypto";
import { cpSync, readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import { parseCheckpoint } from "../../../src/ledger/tlog/checkpoint.ts";
import { formatVerifierKey, signingKeyOf } from "../../../src/ledger/tlog/note-keys.ts";
import { LogSigner } from "../../../src/ledger/tlog/signer.ts";
import { readKeyFile } from "../../../src/stores/files/key-file.ts";
import { givenOf, manualClock, storeIn } from "../../contract/ledger-records.ts";
import { settle } from "../../contract/settled-search.ts";
import {
  directory,
  eachWithStore,
  execute,
  fileOf,
  refused,
  removeDatabase,
  run,
  served,
  servedTo,
} from "./surroundings.ts";

const clock = manualClock();
eachWithStore();

/** What a service does between two starts. Resolves with the receipts. */
async function serve(...tenants: readonly string[]) {
  return (await served(tenants, clock)).map(({ receipt }) => givenOf(receipt));
}

async function checkpoint(name = "alice"): Promise<string> {
  const out = join(directory, "out");
  await run("ledger", "export", "--tenant", name, "--out", out);
  const text = readFileSync(join(out, "checkpoint"), "utf8");
  rmSync(out, { recursive: true });
  return text;
}

const verify = (file: string, ...options: string[]) => run("ledger", "verify", "--against", file, ...options);

describe("verify --against", () => {
  test("a checkpoint, a receipt or an answer proves that the log only grew", async () => {
    const [receipt] = await serve("alice", "alice");
    const files = [
      fileOf("checkpoint", await checkpoint()),
      fileOf("receipt", JSON.stringify(receipt)),
      fileOf("answer", JSON.stringify({ decision: { receipt } })),
    ];
    await serve("alice", "bob", "alice");
    for (const file of files) {
      const size = file.endsWith("checkpoint") ? 3 : 2;
      const { code, out } = await verify(file);
      expect([code, out]).toEqual([0, expect.stringContaining(`5 leaves, 0 erased`)]);
      expect(out).toContain(`, only added to since ${size} leaves (${file})\n`);
    }
    const { out } = await verify(files[0] as string, "--against", files[1] as string, "--json");
    expect(JSON.parse(out).logs).toMatchObject([
      { grown_since: [{ tree_size: 3 }, { tree_size: 2 }] },
      { grown_since: [] },
    ]);
  });

  test("detects an older copy, and a changed log", async () => {
    await serve("alice", "alice");
    const old = join(directory, "old");
    const { path, anchorPath, keyPath } = storeIn(directory);
    for (const file of [path, anchorPath]) cpSync(file, `${old}-${file === path}`);
    await serve("alice");
    const newest = await checkpoint();
    const file = fileOf("newest", newest);
    for (const each of [path, anchorPath]) {
      removeDatabase(each);
      cpSync(`${old}-${each === path}`, each);
    }
    await refused(verify(file), `the log has 3 leaves, and had 4 in ${file}: it is an older copy`);
    await serve("alice");
    // Both of four leaves, and signed by the same key.
    await refused(verify(file), `the first 4 leaves are not those of ${file}`);
    const keys = readKeyFile(keyPath);
    if (keys === undefined) throw new Error("no key");
    const { origin, root } = parseCheckpoint(newest);
    const forged = fileOf("forged", new LogSigner(keys).sign({ origin, size: 2, root }));
    expect((await verify(forged)).err).toContain(`the first 2 leaves are not those of ${forged}`);
  });

  test("accepts what the trusted keys signed, of one of the logs, and nothing else", async () => {
    const [receipt] = await serve("alice", "bob");
    const good = await checkpoint();
    const { origin, size, root } = parseCheckpoint(good);
    const other = signingKeyOf(new Uint8Array(32).fill(9));
    const foreign = new LogSigner([other]).sign({ origin, size, root });
    const vkey = (await run("keys", "show", "--tenant", "alice")).out.trim();
    expect(await verify(fileOf("good", good), "--key", vkey)).toMatchObject({ code: 0 });
    for (const [file, problem, ...options] of [
      [join(directory, "none"), /cannot be read \(ENOENT\)/],
      [fileOf("text", "text"), /The note has no signatures/],
      [fileOf("json", "{}"), /The note has no signatures/],
      [fileOf("foreign", foreign), /not signed by the trusted key/],
      [fileOf("good", good), /not signed by the trusted key/, "--key", formatVerifierKey(origin, other.publicKey)],
      [fileOf("good", good), /is not one of these logs/, "--tenant", "bob"],
      [fileOf("receipt", JSON.stringify({ ...receipt, leaf_index: 0 })), /leaf_index is not what its proof shows/],
      [fileOf("good", good), /--witness: is not a verifier key/, "--witness", vkey],
    ] as const)
      await refused(verify(file, ...options), problem);
    expect((await run("ledger", "verify", "--key", vkey)).err).toContain("are about what --against names");
  });
});

describe("verify of rows beside a log", () => {
  const content = "permit(principal, action, resource);";
  const revision = `sha256:${createHash("sha256").update(content).digest("hex")}`;
  const idempotency = { scope: "ab".repeat(32), payloadDigest: `sha256:${"cd".repeat(32)}`, answer: { ok: true } };

  /** Leaf 0 the genesis, 1 a decision, 2 an event that may come again. */
  beforeEach(async () => {
    const outcome = { allow: true, policy_revision: revision };
    const decision = () => ({ policyRevision: revision, outcome });
    const event = () => ({ kind: "evidence" as const, policyRevision: undefined as never, idempotency });
    await servedTo("alice", [decision, event], { clock, policy: content });
    await settle(storeIn(directory).path);
  });

  const surplus = (bits: string) => `CAST(terms || zeroblob(16) || x'${bits}00000000000000' AS BLOB)`;
  test.each([
    ["UPDATE policy_revisions SET content = 'permit(principal, action);'", /revision sha256:[0-9a-f]{64} was changed/],
    ["DELETE FROM policy_revisions", /the text of the policy revision sha256:[0-9a-f]{64} is missing/],
    [`INSERT INTO policy_revisions VALUES ('sha256:${"0".repeat(64)}', 'x')`, /revision sha256:0{64} was changed/],
    ["UPDATE search_segments SET terms = substr(terms, 25)", /leaf \d is not found by all of its terms/],
    [`UPDATE search_segments SET terms = ${surplus("04")} WHERE first_leaf = 0`, /leaf 2 is found by terms/],
    [
      `INSERT INTO search_segments SELECT tenant_id, 77, 78, ${surplus("01")} FROM search_segments LIMIT 1`,
      /leaf 77 is found by terms/,
    ],
    ["UPDATE kept_answers SET sealed = zeroblob(99)", /what is kept for retries of leaf 2 is missing or does not open/],
    ["UPDATE kept_answers SET sealed = NULL", /leaf 2 was emptied, and the record was not erased/],
    ["UPDATE kept_answers SET leaf_index = 1", /leaf 1 is missing or does not open/],
    ["UPDATE kept_answers SET tree_size = 9", /leaf 2 refers to a tree of 9 leaves/],
    ["UPDATE kept_answers SET leaf_index = 9, tree_size = 10", /leaf 9 refers to a tree of 10 leaves/],
    ["UPDATE log_heads SET last_recorded_at_ms = last_recorded_at_ms + 1", /the head says \S+, and the last leaf \S+/],
    ["UPDATE log_heads SET key_position = 3", /the head names a signing key that the store does not have/],
    [`UPDATE log_heads SET last_recorded_at_ms = ${Date.UTC(2999, 0, 1)}`, /the log is ahead of the clock: .* 2999-/],
  ])("%s", async (statement, problem) => {
    execute(statement);
    await refused(run("ledger", "verify"), problem);
  });
});

test("a store with another key than its genesis record's is reported", async () => {
  await serve("alice");
  execute(`UPDATE signing_keys SET public_key = x'${"07".repeat(32)}'`);
  await refused(run("ledger", "verify"), "the genesis record names a key that never signed for this store");
});
