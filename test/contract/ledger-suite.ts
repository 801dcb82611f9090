/** The contract of `Ledger`, for any store. */
import fc from "fast-check";
import { beforeEach, describe, expect, test } from "vitest";
import { rootOfLeaves } from "../../clients/typescript/src/receipts/multi-proof.ts";
import { newRecordId } from "../../src/base/ids.ts";
import { proveRange } from "../../src/domain/answer.ts";
import { auditLog } from "../../src/ledger/audit/audit.ts";
import type { Appended, Ledger, PublishedLogs } from "../../src/ledger/ports/ledger.ts";
import type { Idempotency, NewRecord } from "../../src/ledger/ports/record.ts";
import { verifyReceipt } from "../../src/ledger/record/receipt.ts";
import { requestDigest } from "../../src/ledger/record/record.ts";
import { openCheckpoint } from "../../src/ledger/tlog/checkpoint.ts";
import { logNameOf } from "../../src/ledger/tlog/log-name.ts";
import { readKeyFile } from "../../src/stores/files/key-file.ts";
import { givenOf, manualClock, recordKit, recordMaker, seededRandom, tenant } from "./ledger-records.ts";
import type { StoreFixture } from "./store-fixture.ts";

const alice = tenant("alice");
const bob = tenant("bob");

/** Checks one store against the contract. */
export function ledgerSuite(name: string, makeFixture: () => Promise<StoreFixture>): void {
  describe(`ledger on ${name}`, () => {
    const { clock, random, makeRecord } = recordKit();
    let fixture: StoreFixture;
    let ledger: Ledger & PublishedLogs;

    beforeEach(async () => {
      fixture = await makeFixture();
      ledger = await fixture.open({ clock, random });
    });

    test("a record is found as it was appended, with the ledger's members", async () => {
      const record = makeRecord(alice);
      const appended = await ledger.append(record);
      expect(appended).toEqual({
        recordId: record.recordId,
        log: expect.stringMatching(/^ledger\.example\/logs\/[0-9a-f]{32}$/),
        leafIndex: 1,
        recordedAt: "2026-01-02T03:04:05.006Z",
        receipt: expect.objectContaining({ recordId: record.recordId, leafIndex: 1, treeSize: 2 }),
      });
      expect(await ledger.find(alice, record.recordId)).toEqual({
        kind: "decision",
        record_id: record.recordId,
        log: appended.log,
        tenant_id: "alice",
        recorded_at: "2026-01-02T03:04:05.006Z",
        request_id: "request-1",
        caller: { principal_id: "principal-1", subject: "subject-1", auth_source: "bearer_token" },
        route: "/v1/sdk/protection-plan",
        request: record.request,
        request_digest: requestDigest(record.request),
        outcome: record.outcome,
      });
    });

    test("a log begins with a genesis leaf, and its leaves contain no identity", async () => {
      const record = makeRecord(alice);
      await ledger.append(record);
      await ledger.append(makeRecord(alice, { kind: "evidence", policyRevision: undefined as never }));
      const leaves = (await fixture.rows("alice")).map(({ leaf }) => JSON.parse(leaf));
      const common = {
        v: 1,
        record_id: expect.any(String),
        recorded_at: "2026-01-02T03:04:05.006Z",
        commitment: expect.stringMatching(/^hmac-sha256:[0-9a-f]{64}$/),
      };
      expect(leaves).toEqual([
        { ...common, kind: "genesis" },
        { ...common, kind: "decision", record_id: record.recordId, policy_revision: "sha256:0123" },
        { ...common, kind: "evidence" },
      ]);
      const genesis = await ledger.find(alice, leaves[0].record_id);
      expect(genesis).toMatchObject({
        kind: "genesis",
        tenant_id: "alice",
        request: {},
        // The key that signs from here on.
        outcome: { public_key: Buffer.from(readKeyFile(fixture.keyPath)?.[0].publicKey ?? []).toString("base64") },
      });
    });

    test("another tenant's record is unknown, as is one that does not exist", async () => {
      const { recordId, log } = await ledger.append(makeRecord(alice));
      expect((await ledger.append(makeRecord(bob))).log).not.toBe(log);
      expect(await ledger.find(bob, recordId)).toBe("unknown");
      expect(await ledger.find(alice, newRecordId(clock, random))).toBe("unknown");
    });

    test("two tenants may use one record id", async () => {
      const record = makeRecord(alice);
      await ledger.append(record);
      await ledger.append({ ...record, tenantId: bob });
      expect(await ledger.find(bob, record.recordId)).toMatchObject({ tenant_id: "bob" });
    });

    test("time within a log does not go back if the clock does", async () => {
      await ledger.append(makeRecord(alice));
      clock.nowMs -= 60_000;
      const again = await ledger.append(makeRecord(alice));
      const other = await ledger.append(makeRecord(bob));
      clock.nowMs += 60_000;
      expect(again.recordedAt).toBe("2026-01-02T03:04:05.006Z");
      expect(other.recordedAt).toBe("2026-01-02T03:03:05.006Z");
    });

    test("a start is refused if the clock is more than five minutes behind a log", async () => {
      await ledger.append(makeRecord(alice));
      await ledger.close();
      const behindBy = (ms: number) => ({ ...manualClock(), now: () => clock.nowMs - ms });
      await expect(fixture.open({ clock: behindBy(300_001), random })).rejects.toMatchObject({
        name: "IncompatibleStoreError",
        message: expect.stringContaining("set the clock right"),
      });
      ledger = await fixture.open({ clock: behindBy(300_000), random });
    });

    test("another origin is refused once a log exists, and its own is served again", async () => {
      const elsewhere = { clock, random, originPrefix: "elsewhere.example" };
      await ledger.close();
      await (await fixture.open(elsewhere)).close();
      ledger = await fixture.open({ clock, random });
      await ledger.append(makeRecord(alice));
      await ledger.close();
      await expect(fixture.open(elsewhere)).rejects.toMatchObject({
        name: "IncompatibleStoreError",
        setting: "SVC_LEDGER_ORIGIN",
        message: expect.stringContaining("prefix ledger.example/logs"),
      });
      ledger = await fixture.open({ clock, random });
      await ledger.append(makeRecord(alice));
    });

    test("any record has a receipt in the newest tree, unless it is erased", async () => {
      const appended: Appended[] = [];
      for (let count = 0; count < 5; count++) appended.push(await ledger.append(makeRecord(alice)));
      const other = await ledger.append(makeRecord(bob));
      const [first] = appended as [Appended];
      const name = logNameOf(first.log);
      const verifier = await fixture.verifier(first.log);
      for (const { recordId, leafIndex } of appended) {
        const receipt = await ledger.receipt(name, recordId);
        if (typeof receipt === "string") throw new Error(receipt);
        const proven = verifyReceipt(givenOf(receipt), verifier);
        expect(proven).toMatchObject({ leafIndex, treeSize: 6, record: { record_id: recordId } });
      }
      expect(await ledger.receipt(name, other.recordId)).toBe("unknown");
      expect(await ledger.receipt("0".repeat(32), first.recordId)).toBe("unknown");
      expect(await ledger.receipt("no name", first.recordId)).toBe("unknown");
      await fixture.deleteOpening(alice, first.recordId);
      expect(await ledger.receipt(name, first.recordId)).toBe("erased");
    });

    test("a record that was changed behind the ledger is not returned", async () => {
      const { recordId } = await ledger.append(makeRecord(alice));
      await fixture.damage("alice", recordId);
      await expect(ledger.find(alice, recordId)).rejects.toMatchObject({ reason: "internal" });
    });

    test("a record id that is taken is refused alone; the rest of its batch is stored, in order", async () => {
      const taken = makeRecord(alice);
      await ledger.append(taken);
      const records = [makeRecord(alice), makeRecord(bob), { ...taken }, makeRecord(alice), makeRecord(bob)];
      const results = await Promise.allSettled(records.map((record) => ledger.append(record)));
      expect(results.map(({ status }) => status)).toEqual([
        "fulfilled",
        "fulfilled",
        "rejected",
        "fulfilled",
        "fulfilled",
      ]);
      expect(results[2]).toMatchObject({ reason: { reason: "internal" } });
      expect(indices(results)).toEqual([2, 1, undefined, 3, 2]);
      await expectGapless(fixture, "alice", 4);
    });

    test.each([
      ["text with a lone surrogate", { request: { purpose: "\ud800" } }],
      ["text with U+0000", { request: { purpose: "a\0b" } }],
      ["a member name with a lone surrogate", { request: { attributes: { "\udc00": "x" } } }],
      ["a number that is not finite", { outcome: { size: Number.NaN } }],
      ["a value that is no JSON", { outcome: { size: 1n as never } }],
      ["an object that is not plain", { outcome: { at: new Date(0) as never } }],
      ["a record over the limit", { request: { purpose: "x".repeat(1024 * 1024) } }],
    ] satisfies [string, Partial<NewRecord>][])("%s is refused alone", async (_, changes) => {
      const [bad, good] = await Promise.allSettled([
        ledger.append(makeRecord(alice, changes)),
        ledger.append(makeRecord(alice)),
      ]);
      expect(bad).toMatchObject({ status: "rejected", reason: { reason: "invalid_request" } });
      expect(good).toMatchObject({ status: "fulfilled", value: { leafIndex: 1 } });
    });

    test("a leaf that is too large is refused alone", async () => {
      const results = await Promise.allSettled([
        ledger.append(makeRecord(alice)),
        ledger.append(makeRecord(alice, { policyRevision: "r".repeat(65_535) })),
        ledger.append(makeRecord(alice)),
      ]);
      expect(indices(results)).toEqual([1, undefined, 2]);
      expect(results[1]).toMatchObject({ status: "rejected", reason: { reason: "internal" } });
    });

    test("any text is read back unchanged, whatever its alphabet", async () => {
      await fc.assert(
        fc.asyncProperty(fc.dictionary(cleanText, cleanText, { noNullPrototype: true }), async (attributes) => {
          const record = makeRecord(alice, { request: { attributes } });
          await ledger.append(record);
          const found = await ledger.find(alice, record.recordId);
          expect(found).toMatchObject({ request_digest: requestDigest({ attributes }) });
          expect(typeof found === "object" && found.request).toEqual({ attributes });
        }),
        { numRuns: 50 },
      );
    });

    test("concurrent appends of any tenants get every index once, in the order of the calls", async () => {
      let round = 0;
      await fc.assert(
        fc.asyncProperty(fc.array(fc.integer({ min: 0, max: 4 }), { maxLength: 60 }), async (tenants) => {
          const prefix = `round-${round++}-`;
          const appended = await Promise.all(
            tenants.map((number) => ledger.append(makeRecord(tenant(`${prefix}${number}`)))),
          );
          for (const number of new Set(tenants)) {
            const own = appended.filter((_, call) => tenants[call] === number);
            expect(own.map(({ leafIndex }) => leafIndex)).toEqual(own.map((_, order) => order + 1));
            const rows = await fixture.rows(`${prefix}${number}`);
            expect(rows.slice(1).map(({ recordId }) => recordId)).toEqual(own.map(({ recordId }) => recordId));
          }
        }),
        { numRuns: 20 },
      );
    });

    test("a full queue refuses with a retry time, and accepts again once it has drained", async () => {
      await ledger.close();
      ledger = await fixture.open({ clock, random, limits: { maxQueuedPerTenant: 3 } });
      const results = await Promise.allSettled(Array.from({ length: 5 }, () => ledger.append(makeRecord(alice))));
      expect(indices(results)).toEqual([1, 2, 3, undefined, undefined]);
      expect(results[4]).toMatchObject({
        reason: { reason: "overloaded", details: { retryAfterSeconds: 1 } },
      });
      expect(await ledger.append(makeRecord(alice))).toMatchObject({ leafIndex: 4 });
    });

    test("records of several commits, scattered or adjacent, are proven together in the largest of their trees", async () => {
      const appended: Appended[] = [];
      // Commits of one record and of many; the last ones lie in a second tile.
      for (const count of [1, 7, 1, 250, 1, 20])
        appended.push(...(await Promise.all(Array.from({ length: count }, () => ledger.append(makeRecord(alice))))));
      const verifier = await fixture.verifier(appended[0]?.log ?? "");
      const rootAt = new Map(
        appended.map(({ receipt }) => [receipt.treeSize, verifyReceipt(givenOf(receipt), verifier).root]),
      );
      const some = fc.uniqueArray(fc.constantFrom(...appended), { minLength: 1, maxLength: 60 });
      await fc.assert(
        fc.asyncProperty(some, async (chosen) => {
          const receipts = chosen.map(({ receipt }) => receipt);
          const proof = await proveRange(ledger, [...receipts, ...receipts.slice(0, 2)]);
          expect(proof?.treeSize).toBe(Math.max(...receipts.map(({ treeSize }) => treeSize)));
          expect(openCheckpoint(proof?.checkpoint ?? "", verifier)).toMatchObject({ origin: proof?.logOrigin });
          const leaves = receipts
            .map(({ leafIndex, leafHash }) => ({ index: leafIndex, hash: Buffer.from(leafHash, "base64") }))
            .sort((a, b) => a.index - b.index);
          const nodes = (proof?.nodes ?? []).map((node) => Buffer.from(node, "base64"));
          const root = await rootOfLeaves(leaves, proof?.treeSize ?? 0, nodes);
          expect(Buffer.from(root ?? [])).toEqual(Buffer.from(rootAt.get(proof?.treeSize ?? 0) ?? [1]));
        }),
        { numRuns: 30 },
      );
      const { log, receipt } = appended.at(-1) as Appended;
      expect(await proveRange(ledger, [])).toBeUndefined();
      await expect(ledger.multiProof(log, receipt.treeSize + 1, [1])).rejects.toMatchObject({ reason: "internal" });
      await expect(ledger.multiProof(`${log.slice(0, -1)}${log.endsWith("0") ? 1 : 0}`, 2, [1])).rejects.toMatchObject({
        reason: "internal",
      });
    });

    test("receipts of a group show what it was begun for, beside others that show all, retries too", async () => {
      const retried = { scope: "0".repeat(64), payloadDigest: requestDigest({ a: 1 }), answer: { a: 1 } };
      const first = await ledger.append(makeRecord(alice, { idempotency: retried }));
      const groups = (["nothing", "opening", "all"] as const).map((shown) => {
        const group = ledger.group(alice, shown);
        const added = [group.add(0, makeRecord(alice)), group.add(1, makeRecord(alice, { idempotency: retried }))];
        return { shown, group, added };
      });
      const single = ledger.append(makeRecord(alice));
      await Promise.all(groups.map(({ group }) => group.commit()));
      const verifier = await fixture.verifier(first.log);
      for (const { shown, added } of groups) {
        const [fresh, retry] = (await Promise.all(added)) as [Appended, Appended];
        for (const { receipt } of [fresh, retry]) {
          // A store that has all at hand may show it.
          if (shown !== "nothing") expect(receipt.opening).toHaveLength(44);
          if (shown === "all") expect(verifyReceipt(givenOf(receipt), verifier).record).toBeDefined();
          const { leaf: _leaf, opening: _opening, record: _record, ...brief } = receipt;
          verifyReceipt(givenOf(brief), verifier);
        }
        expect([retry.leafIndex, retry.earlierAnswer]).toEqual([first.leafIndex, { a: 1 }]);
      }
      expect(verifyReceipt(givenOf((await single).receipt), verifier).record).toBeDefined();
    });

    test("no receipt has an audit path that a damaged tile makes", async () => {
      const { log, recordId } = await ledger.append(makeRecord(alice));
      const name = logNameOf(log);
      const verifier = await fixture.verifier(log);
      const receipt = await ledger.receipt(name, recordId);
      expect(typeof receipt === "object" && verifyReceipt(givenOf(receipt), verifier)).toMatchObject({ leafIndex: 1 });
      await fixture.damageTile("alice");
      const damaged = { reason: "internal", message: "The stored record is damaged." };
      await expect(ledger.receipt(name, recordId)).rejects.toMatchObject(damaged);
      await fixture.reading(async (archive) => {
        const [head] = await archive.logs(name);
        if (head === undefined) throw new Error("There is no log.");
        await expect(archive.proven(name, head, recordId)).rejects.toMatchObject(damaged);
      });
    });

    describe("a record with an idempotency scope", () => {
      const hour = 60 * 60 * 1_000;
      const idempotency = (scope: string, changes: Partial<Idempotency> = {}): Idempotency => ({
        scope: scope.repeat(64),
        payloadDigest: "sha256:1",
        answer: { accepted: true, warnings: ["é", "\n"] },
        ...changes,
      });
      const retry = (scope: string, changes?: Partial<Idempotency>) =>
        ledger.append(makeRecord(alice, { idempotency: idempotency(scope, changes) }));

      test("a retry gets no checkpoint of a tree that a damaged tile makes", async () => {
        await retry("d");
        for (let i = 0; i < 3; i++) await ledger.append(makeRecord(alice));
        await fixture.damageTile("alice");
        await expect(retry("d")).rejects.toMatchObject({ reason: "store_unavailable" });
      });

      test("is appended once; retries get its place, receipt and answer, across restarts and later records", async () => {
        const first = await retry("a");
        expect(first).not.toHaveProperty("earlierAnswer");
        await ledger.append(makeRecord(alice));
        const receipt = { ...first.receipt, cose: expect.any(Function) };
        const expected = { ...first, receipt, earlierAnswer: idempotency("a").answer };
        expect(await retry("a", { answer: { accepted: false } })).toEqual(expected);
        await ledger.close();
        ledger = await fixture.open({ clock, random });
        expect(await retry("a")).toEqual(expected);
        await expectGapless(fixture, "alice", 3);
      });

      test("is one record under concurrent retries, on two ledgers", async () => {
        const other = await fixture.open({ clock, random: seededRandom("storm") });
        const otherRecord = recordMaker(clock, seededRandom("storm ids"));
        const results = await Promise.all(
          Array.from({ length: 40 }, (_, call) =>
            call % 2 === 0 ? retry("b") : other.append(otherRecord(alice, { idempotency: idempotency("b") })),
          ),
        );
        expect(new Set(results.map(({ receipt }) => JSON.stringify(receipt))).size).toBe(1);
        expect(results.filter(({ earlierAnswer }) => earlierAnswer === undefined)).toHaveLength(1);
        await expectGapless(fixture, "alice", 2);
      });

      test("refuses another payload, in the same batch and later", async () => {
        const conflict = { status: "rejected", reason: { reason: "idempotency_conflict" } };
        const other = { payloadDigest: "sha256:2" };
        expect(await Promise.allSettled([retry("c"), retry("c", other), retry("d", other)])).toMatchObject([
          { status: "fulfilled" },
          conflict,
          { status: "fulfilled" },
        ]);
        expect(await Promise.allSettled([retry("c", other)])).toMatchObject([conflict]);
        await expectGapless(fixture, "alice", 3);
      });

      test("is reported as durable once, in the commit that it shares, before it is answered", async () => {
        await ledger.close();
        const told: (number | string)[] = [];
        const committed = (records: number) => void told.push(records);
        ledger = await fixture.open({ clock, random, events: { committed } });
        const answered = () => void told.push("answered");
        await Promise.all(
          [retry("7"), retry("7"), ledger.append(makeRecord(alice))].map((call) => call.then(answered)),
        );
        await retry("7");
        expect(told).toEqual([2, "answered", "answered", "answered"]);
      });

      test("is kept for a day by any replica's clock, and no longer", async () => {
        const differenceMs = 30_000;
        await retry("0");
        clock.nowMs += 24 * hour + differenceMs;
        await retry("1");
        expect(await retry("0")).toHaveProperty("earlierAnswer");
        clock.nowMs += 1;
        await retry("2");
        expect(await retry("0")).not.toHaveProperty("earlierAnswer");
        clock.nowMs -= 24 * hour + differenceMs + 1;
      });
    });

    test("closing writes queued records and refuses later ones", async () => {
      const queued = Array.from({ length: 10 }, () => ledger.append(makeRecord(alice)));
      const closed = ledger.close();
      await expect(ledger.append(makeRecord(alice))).rejects.toMatchObject({ reason: "store_unavailable" });
      expect((await Promise.all(queued)).map(({ leafIndex }) => leafIndex)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
      await closed;
    });

    test("a policy revision is kept as it was first, from bytes that threads share too, and the store can be checked", async () => {
      await ledger.keepPolicyRevision("sha256:1", "first é");
      await ledger.keepPolicyRevision("sha256:1", "second");
      const bytes = Buffer.from('{"größe":"\u20ac"}', "utf8");
      const shared = new Uint8Array(new SharedArrayBuffer(bytes.length));
      shared.set(bytes);
      await ledger.keepPolicyRevision("sha256:bytes", shared);
      await fixture.reading(async (archive) => {
        const kept = ["sha256:1", "sha256:bytes", "sha256:2"].map((revision) => archive.policyRevision(revision));
        expect(await Promise.all(kept)).toEqual(["first é", bytes.toString(), undefined]);
      });
      await Promise.all([ledger.check(), ledger.check()]);
    });

    test("an archive has the log as it was when it was opened: its leaves, its tiles, and records as the ledger finds them", async () => {
      const append = (records: number) =>
        Promise.all(Array.from({ length: records }, () => ledger.append(makeRecord(alice))));
      const [first, second] = await append(600);
      await fixture.reading(async (archive) => {
        const [head] = await archive.logs();
        if (head === undefined) throw new Error("There is no log.");
        await append(3);
        const audited = await auditLog(archive, head);
        expect(audited).toMatchObject({ leaves: 601, erased: 0, root: new Uint8Array(head.root), rotations: [] });
        const indices = [];
        for await (const { leafIndex } of archive.entries(head, 200, 500)) indices.push(leafIndex);
        expect(indices).toEqual(Array.from({ length: 300 }, (_, position) => 200 + position));
        expect(await archive.tile(logNameOf(head.origin), { level: 0, index: 1, width: 256 })).toHaveLength(8192);
        expect(await archive.tile(logNameOf(head.origin), { level: 0, index: 2, width: 256 })).toBeUndefined();
        const { recordId } = first as Appended;
        expect(await archive.find(alice, recordId)).toEqual(await ledger.find(alice, recordId));
        expect(await archive.find(bob, recordId)).toBe("unknown");
      });
      const { recordId, leafIndex } = second as Appended;
      await fixture.damage(alice, recordId);
      await fixture.reading(async (archive) => {
        await expect(archive.find(alice, recordId)).rejects.toMatchObject({ reason: "internal" });
      });
      expect((await fixture.audit(alice)).problem).toMatchObject({ leafIndex });
    });
  });
}

const cleanText = fc.string({ unit: "binary" }).filter((text) => !text.includes("\0") && text !== "__proto__");

/** Leaf index of each call that was answered. */
export function indices(results: readonly PromiseSettledResult<Appended>[]): readonly (number | undefined)[] {
  return results.map((result) => (result.status === "fulfilled" ? result.value.leafIndex : undefined));
}

/** The log holds exactly the indices from 0 to `size` - 1, each record once. */
export async function expectGapless(place: Pick<StoreFixture, "rows">, tenantId: string, size: number): Promise<void> {
  const rows = await place.rows(tenantId);
  expect(rows.map(({ leafIndex }) => leafIndex)).toEqual(Array.from({ length: size }, (_, index) => index));
  expect(new Set(rows.map(({ recordId }) => recordId)).size).toBe(size);
}
