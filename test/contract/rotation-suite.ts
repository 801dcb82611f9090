/** What several ledgers on one store do when one of them brings a new key, for any store. */
import { copyFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { beforeEach, describe, expect, test } from "vitest";
import type { Appended } from "../../src/ledger/ports/ledger.ts";
import { verifyReceipt } from "../../src/ledger/record/receipt.ts";
import { parseCheckpoint } from "../../src/ledger/tlog/checkpoint.ts";
import { logNameOf } from "../../src/ledger/tlog/log-name.ts";
import { formatVerifierKey, parseVerifierKey } from "../../src/ledger/tlog/note-keys.ts";
import { readKeyFile } from "../../src/stores/files/key-file.ts";
import { givenOf, recordKit, seededRandom, tenant } from "./ledger-records.ts";
import type { StoreFixture } from "./store-fixture.ts";

const alice = tenant("alice");
const statement = { reason: "yearly", operator: "olga" };
const bob = tenant("bob");

export function rotationSuite(name: string, makeFixture: () => Promise<StoreFixture>): void {
  describe(`a rotation on ${name}`, () => {
    const { clock, random, makeRecord } = recordKit();
    let opened = 0;
    let fixture: StoreFixture;
    /** The key file of another machine. */
    let own: string;

    beforeEach(async () => {
      fixture = await makeFixture();
      own = join(dirname(fixture.keyPath), "own.key");
    });

    const open = (keyPath = fixture.keyPath) =>
      fixture.open({ clock, random: seededRandom(String(opened++)), keyPath });
    const rotate = () => fixture.rotateKey(random, statement);
    /** Whether the receipt verifies with the key alone. */
    const isSignedBy = (key: Uint8Array, { receipt, log }: Appended) => {
      const verifier = parseVerifierKey(formatVerifierKey(log, key));
      if (verifier === undefined) throw new Error("no verifier");
      try {
        verifyReceipt(givenOf(receipt), verifier);
        return true;
      } catch {
        return false;
      }
    };
    const rotationsOf = async (tenantId: string) =>
      (await fixture.rows(tenantId)).filter(({ leaf }) => JSON.parse(leaf).kind === "key_rotation");

    test("is followed by a running ledger: it signs with the new key from then on", async () => {
      const running = await open();
      await running.append(makeRecord(alice));
      const old = readKeyFile(fixture.keyPath)?.[0].publicKey as Uint8Array;
      const current = rotate();
      await open();
      const after = await running.append(makeRecord(alice));
      const opening = await running.append(makeRecord(bob));
      expect([after, opening].map((appended) => isSignedBy(current, appended))).toEqual([true, true]);
      expect(isSignedBy(old, after)).toBe(true); // While the overlap lasts.
      await running.check();
      const checkpoint = (await running.checkpoint(logNameOf(after.log))) ?? "";
      expect(checkpoint.match(/^— /gm)).toHaveLength(2);
      for (const { verifierKeys } of await running.published()) expect(new Set(verifierKeys).size).toBe(2);
      await open(); // Not again.
      const [rotation, ...others] = await rotationsOf("alice");
      expect(others).toEqual([]);
      expect(await running.find(alice, JSON.parse(rotation?.leaf ?? "{}").record_id)).toMatchObject({
        caller: { principal_id: "olga", subject: "olga", auth_source: "operator" },
        request: { reason: "yearly" },
      });
    });

    test("stops a ledger whose file lacks the new key, until it has it", async () => {
      const first = await open();
      await first.append(makeRecord(alice));
      copyFileSync(fixture.keyPath, own);
      const running = await open(own);
      await running.append(makeRecord(alice));
      const current = rotate();
      const rotated = await open();
      const refusal = { reason: "store_unavailable", message: expect.stringContaining("key was rotated") };
      const { log } = await rotated.append(makeRecord(alice));
      await expect(running.append(makeRecord(alice))).rejects.toMatchObject(refusal);
      await expect(running.append(makeRecord(bob))).rejects.toMatchObject(refusal);
      await expect(running.checkpoint(logNameOf(log))).rejects.toMatchObject(refusal);
      await expect(running.check()).rejects.toMatchObject(refusal);
      copyFileSync(fixture.keyPath, own);
      await running.check();
      for (const tenantId of [alice, bob])
        expect(isSignedBy(current, await running.append(makeRecord(tenantId)))).toBe(true);
      const { size } = parseCheckpoint((await running.checkpoint(logNameOf(log))) ?? "");
      expect(size).toBe((await fixture.rows("alice")).length);
    });

    test("and another right behind it are followed by every kind of work of a replica", async () => {
      const running = await open();
      const { log } = await running.append(makeRecord(alice));
      for (let rotations = 0; rotations < 2; rotations++) {
        rotate();
        await open();
      }
      const current = readKeyFile(fixture.keyPath)?.[0].publicKey as Uint8Array;
      expect(await running.checkpoint(logNameOf(log))).toBeDefined();
      expect(isSignedBy(current, await running.append(makeRecord(alice)))).toBe(true);
    });

    test("counts for a log that begins after it", async () => {
      const first = await open();
      copyFileSync(fixture.keyPath, own);
      const [following, lacking] = [await open(), await open(own)];
      await first.append(makeRecord(alice));
      const current = rotate();
      await open();
      // Nothing else has told either of them.
      expect(isSignedBy(current, await following.append(makeRecord(bob)))).toBe(true);
      await expect(lacking.append(makeRecord(tenant("carol")))).rejects.toMatchObject({ reason: "store_unavailable" });
    });

    test("leaves no receipt that its key does not cover, while any replica appends", async () => {
      const running = await open();
      const names = ["alice", "bob", "carol", "dave", "erin"];
      const answers: Appended[] = [];
      await Promise.all(names.slice(0, 3).map((each) => running.append(makeRecord(tenant(each)))));
      const old = readKeyFile(fixture.keyPath)?.[0].publicKey as Uint8Array;
      const current = rotate();
      let isDone = false;
      const callers = names.map(async (each) => {
        while (!isDone) answers.push(await running.append(makeRecord(tenant(each))));
        answers.push(await running.append(makeRecord(tenant(each))));
      });
      await open();
      isDone = true;
      await Promise.all(callers);
      const bounds = new Map<string, number>();
      for (const each of names) {
        const [rotation] = await rotationsOf(each);
        bounds.set(each, rotation?.leafIndex ?? 0);
      }
      expect(answers.length).toBeGreaterThan(names.length);
      for (const answer of answers) {
        const { tenant_id } = JSON.parse(Buffer.from(answer.receipt.record ?? "", "base64").toString());
        const isCovered = isSignedBy(old, answer) && answer.receipt.treeSize <= (bounds.get(tenant_id) ?? 0);
        expect(isSignedBy(current, answer) || isCovered).toBe(true);
      }
    });
  });
}
