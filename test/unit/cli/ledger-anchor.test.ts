/** The ways on for a store that lost its anchor. */
import { copyFileSync, existsSync } from "node:fs";
import { join } from "node:path";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { systemClock } from "../../../src/base/clock.ts";
import { readKeyFile } from "../../../src/stores/files/key-file.ts";
import { storeIn } from "../../contract/ledger-records.ts";
import { forTest } from "../../harness/lifetimes.ts";
import { startWitness, type TestWitness } from "../../harness/witness.ts";
import { directory, eachWithStore, execute, openLedger, refused, removeDatabase, run, served } from "./surroundings.ts";

eachWithStore();

/** What a service does between two starts. */
const serve = (...tenants: readonly string[]) => served(tenants);

const loseAnchor = () => removeDatabase(storeIn(directory).anchorPath);

const adopt = (...more: string[]) => run("ledger", "anchor", "adopt", ...more);
const statement = ["--reason", "disk lost", "--operator", "olga"];
const accept = ["--accept-unproven-state", ...statement, "--yes"];

describe("ledger anchor adopt", () => {
  test("creates a new anchor, records it in every log, and the service continues", async () => {
    await serve("alice", "alice", "bob");
    loseAnchor();
    await expect(serve()).rejects.toThrow("see `ledger anchor adopt`");
    const looked = await adopt();
    expect(looked).toMatchObject({ code: 1, err: expect.stringContaining("contradicts them permanently") });
    expect(looked.out).toContain("(tenant alice): 3 leaves");
    await expect(serve()).rejects.toThrow("is new");
    expect(await adopt(...accept)).toMatchObject({ code: 0 });
    const kinds = execute("SELECT tenant_id, leaf FROM entries ORDER BY tenant_id, leaf_index").map(
      ({ tenant_id, leaf }) => `${tenant_id} ${JSON.parse(Buffer.from(leaf as Uint8Array).toString()).kind}`,
    );
    expect(kinds.filter((kind) => kind.endsWith("anchor_adoption"))).toEqual([
      "alice anchor_adoption",
      "bob anchor_adoption",
    ]);
    await serve("alice");
    expect(await run("ledger", "verify")).toMatchObject({ code: 0 });
  });

  test("replaces no existing anchor, of this store or another", async () => {
    await serve("alice");
    await refused(adopt(...accept), "is the anchor of this store");
    const other = join(directory, "other");
    await (await openLedger(systemClock, other)).close();
    loseAnchor();
    copyFileSync(storeIn(other).anchorPath, storeIn(directory).anchorPath);
    await refused(adopt(...accept), "of another store");
  });

  test("adopts no damaged log", async () => {
    await serve("alice", "alice");
    loseAnchor();
    execute("UPDATE entries SET leaf = CAST(replace(leaf, 'decision', 'evidence') AS BLOB) WHERE leaf_index = 1");
    await refused(adopt(...accept), "leaf 1");
    expect(existsSync(storeIn(directory).anchorPath)).toBe(false);
  });

  describe("with a witness", () => {
    let witness: TestWitness;
    beforeEach(async () => {
      const logKeys = () => (readKeyFile(storeIn(directory).keyPath) ?? []).map(({ publicKey }) => publicKey);
      witness = await forTest(startWitness({ logKeys }));
      vi.stubEnv("SVC_WITNESSES", witness.setting);
    });

    test("a store behind the witness's tree is refused, and the newest is adopted", async () => {
      await serve("alice");
      copyFileSync(storeIn(directory).path, `${directory}/older`);
      await serve("alice", "alice");
      copyFileSync(storeIn(directory).path, `${directory}/newest`);
      loseAnchor();
      expect(await adopt()).toMatchObject({ code: 1 }); // Only looks, and so tells the witness of 4 leaves.
      expect([...witness.seen.values()]).toMatchObject([{ size: 4 }]);
      copyFileSync(`${directory}/older`, storeIn(directory).path);
      const refused = await adopt(...accept);
      expect(refused.err).toContain("has 2 leaves, and witness witness.example/w1 has seen 4");
      expect(existsSync(storeIn(directory).anchorPath)).toBe(false);
      copyFileSync(`${directory}/newest`, storeIn(directory).path);
      expect(await adopt(...accept)).toMatchObject({ code: 0 });
    });

    test("a witness that does not answer does not count", async () => {
      await serve("alice");
      loseAnchor();
      witness.answer = (response) => void response.writeHead(404).end();
      await refused(adopt(...accept), "it does not know the log");
    });
  });
});
