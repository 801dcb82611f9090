/** Witnesses beside the store: what they cosign, what they find out, and what their faults cost. */
import type { ServerResponse } from "node:http";
import { parse } from "valibot";
import { beforeEach, describe, expect, test } from "vitest";
import { type Witnessing, witnessingOf } from "../../src/app/stores.ts";
import type { Timers } from "../../src/base/timers.ts";
import { witnesses as witnessSchema } from "../../src/config/values.ts";
import type { ServiceLedger } from "../../src/ledger/append/ledger.ts";
import type { Appended } from "../../src/ledger/ports/ledger.ts";
import { openCheckpoint, parseCheckpoint } from "../../src/ledger/tlog/checkpoint.ts";
import { logNameOf } from "../../src/ledger/tlog/log-name.ts";
import { parseNote } from "../../src/ledger/tlog/note.ts";
import { parseTlogProof } from "../../src/ledger/tlog/tlog-proof.ts";
import { leafHash, nodeHash } from "../../src/ledger/tlog/tree.ts";
import { findCosignature, parseCosignerKey } from "../../src/ledger/witness/cosignature.ts";
import { readKeyFile } from "../../src/stores/files/key-file.ts";
import { forTest } from "../harness/lifetimes.ts";
import { startWitness, type TestWitness } from "../harness/witness.ts";
import { recordKit, tenant } from "./ledger-records.ts";
import { type SqliteFixture, sqliteFixture } from "./ledger-sqlite-fixture.ts";

const { clock, random, makeRecord } = recordKit(undefined, Date.now());
const alice = tenant("alice");
const bob = tenant("bob");
/** What witnesses do takes a few milliseconds. */
const often = { interval: 2 };
const unavailable = { name: "ServiceError", reason: "store_unavailable" };

let fixture: SqliteFixture;
let ledger: ServiceLedger;
let witnessing: Witnessing;
let witnesses: TestWitness[];
let timers: ReturnType<typeof handTimers>;
let changes: string[];
let results: string[];

/** Timers that go off when the test says so. */
function handTimers() {
  const due = new Map<symbol, { readonly delayMs: number; readonly action: () => void }>();
  const own: Timers = {
    after(delayMs, action) {
      const id = Symbol();
      due.set(id, { delayMs, action });
      return () => due.delete(id);
    },
  };
  return {
    ...own,
    /** Lets those go off that were set for so long; resolves once there is one. */
    async fire(delayMs: number): Promise<void> {
      const found = () => [...due].filter(([, timer]) => timer.delayMs === delayMs);
      await expect.poll(found, often).not.toEqual([]);
      for (const [id, { action }] of found()) {
        due.delete(id);
        action();
      }
    },
  };
}

const exchangeTimeoutMs = 2_000;
const quorumWaitMs = 5_000;
const retryMs = 1_000;

const logKeys = () => (readKeyFile(fixture.store.keyPath) ?? []).map(({ publicKey }) => publicKey);

async function open(quorum?: number): Promise<void> {
  const note = (fields: Readonly<Record<string, unknown>>, message: string) =>
    void changes.push(`${message}: ${fields.problem ?? ""}`);
  const found = witnessingOf(
    {
      witnesses: parse(witnessSchema, Object.fromEntries(witnesses.map(({ key, url }) => [key, url]))),
      witnessQuorum: quorum,
      store: { kind: "sqlite" },
      anchor: undefined,
    },
    {
      clock,
      timers,
      fetch,
      logger: { debug: note, warn: note, error: note, info: note, fatal: note, trace: note } as never,
      metrics: { witnessAsked: (_, result) => void results.push(result) },
    },
  );
  if (found === undefined) throw new Error("There are no witnesses.");
  witnessing = found;
  ledger = await fixture.open({ clock, random, openAnchor: witnessing.open });
}

beforeEach(async () => {
  fixture = sqliteFixture();
  timers = handTimers();
  changes = [];
  results = [];
  witnesses = [await forTest(startWitness({ logKeys }))];
});

async function append(count = 1, tenantId = alice): Promise<Appended[]> {
  return Promise.all(Array.from({ length: count }, () => ledger.append(makeRecord(tenantId))));
}

const witness = () => witnesses[0] as TestWitness;
const seenSizes = () => [...witness().seen.values()].map(({ size }) => size);
async function caughtUp(...sizes: readonly number[]): Promise<void> {
  await expect.poll(seenSizes, often).toEqual(sizes);
}

/** The signed state of the only log, and the names that signed it. */
async function checkpoint() {
  const [log] = await ledger.published();
  const note = (await ledger.checkpoint(log?.name ?? "")) ?? "";
  openCheckpoint(note, await fixture.verifier(log?.origin ?? ""));
  return { note, names: parseNote(note).signatures.map(({ name }) => name), origin: log?.origin ?? "" };
}

/** Throws where the note has no good cosignature of the witness. */
function verifyCosignature(note: string, by: TestWitness): void {
  const verifier = parseCosignerKey(by.key);
  if (verifier === undefined) throw new Error("malformed key");
  const { text } = parseNote(note);
  findCosignature(note.slice(text.length + 1), text, verifier, clock.now());
}

describe("witnesses beside an anchor file", () => {
  test("appended records are cosigned soon, and the served checkpoint carries the cosignature", async () => {
    await open();
    await append(3);
    await append(2, bob);
    await caughtUp(4, 3);
    const { note, names } = await checkpoint();
    expect(names).toEqual([expect.stringContaining("ledger.example/logs/"), "witness.example/w1"]);
    verifyCosignature(note, witness());
  });

  test("a slow witness delays no answer, and gets the newest tree next", async () => {
    await open();
    const letGo = witness().hold();
    await append(1);
    await expect.poll(() => witness().requests, often).toBe(1);
    for (let count = 0; count < 5; count++) await append(1);
    letGo();
    await caughtUp(7);
    expect(witness().requests).toBe(2);
  });

  test("cosignatures are served after a restart, without the witness", async () => {
    await open();
    await append(2);
    await caughtUp(3);
    await checkpoint();
    await ledger.close();
    await witness().stop();
    await open();
    const { note } = await checkpoint();
    verifyCosignature(note, witness());
    expect(await witnessing.readiness.remark?.()).toContain("ECONNREFUSED");
    await expect(append(1)).resolves.toHaveLength(1);
  });

  test("a witness that does not answer times out", async () => {
    await open();
    witness().hold();
    await append(1);
    await timers.fire(exchangeTimeoutMs);
    await expect.poll(() => changes.at(-1), often).toContain("no answer within 2000 ms");
    expect((await checkpoint()).names).toHaveLength(1);
  });

  const say =
    (status: number, body = "", type = "text/plain", more: Record<string, string> = {}) =>
    (response: ServerResponse) =>
      void response.writeHead(status, { "content-type": type, ...more }).end(body);
  test.each([
    ["404", say(404), "does not know the log"],
    ["403", say(403), "does not trust the key"],
    ["500", say(500), "status 500"],
    ["422 at its first question", say(422), "refuses a proof from the empty tree"],
    ["a redirect", say(307, "", "text/plain", { location: "https://elsewhere.example/" }), "status 307"],
    ["garbage", say(200, "hello\n"), "malformed"],
    [
      "no cosignature of the witness itself",
      say(200, "— other.example AAAAAAAA\n"),
      "no cosignature of the witness's key",
    ],
    ["an endless answer", say(200, "x".repeat(100_000)), "longer than 16384 bytes"],
    ["a size of another type", say(409, "7\n"), "status 409"],
    ["a size that is none", say(409, "seven\n", "text/x.tlog.size"), "status 409"],
    ["no UTF-8", (response: ServerResponse) => void response.writeHead(200).end(Buffer.of(0xff)), "not valid"],
  ])("a witness that answers %s is reported, without further harm", async (_, answer, problem) => {
    await open();
    witness().answer = answer;
    await append(1);
    await expect.poll(() => changes.at(-1), often).toContain(problem);
    expect(witnessing.readiness.remark?.()).toContain(problem);
    await witnessing.readiness.check(new AbortController().signal);
    await append(1);
    expect((await checkpoint()).names).toHaveLength(1);
    witness().answer = undefined;
    await timers.fire(retryMs);
    await caughtUp(3);
  });

  test("a witness that stays down counts as failed at each request, and is logged once", async () => {
    await open();
    witness().answer = say(500);
    await append(1);
    await timers.fire(retryMs);
    await expect.poll(() => results, often).toEqual(["failed", "failed"]);
    expect(changes).toEqual([expect.stringContaining("the witness does not cosign")]);
  });

  test("a store that was restored with its anchor is detected before any append", async () => {
    await open();
    await append(2);
    await ledger.close();
    const putBack = fixture.backUp(fixture.path, fixture.store.anchorPath);
    await open();
    await append(3);
    await caughtUp(6);
    await ledger.close();
    putBack();
    await open();
    await expect(append(1)).rejects.toMatchObject({
      ...unavailable,
      message: "The log cannot be continued.",
      details: {
        cause: { message: expect.stringContaining("has 3 leaves, and witness witness.example/w1 has seen 6") },
      },
    });
    await expect(checkpoint()).rejects.toMatchObject(unavailable);
    expect(witnessing.readiness.remark?.()).toContain("older copy");
    expect(changes.at(-1)).toContain("must not be continued");
    await append(1, bob); // Others go on.
    expect(await fixture.rows("alice")).toHaveLength(3);
  });

  test.each([
    ["an earlier size", 2, undefined],
    ["the same size", 4, undefined],
    ["the same size, and names it", 4, say(409, "4\n", "text/x.tlog.size")],
  ])(
    "a rewritten log is detected and stopped, if its witness has cosigned another tree of %s",
    async (_, size, answer) => {
      await open();
      await append(2);
      const [{ origin } = { origin: "" }] = await ledger.published();
      await caughtUp(3);
      witness().seen.set(origin, { origin, size, root: new Uint8Array(32) });
      witness().answer = answer;
      await append(1);
      await expect.poll(() => changes.at(-1), often).toContain(`was rewritten before leaf ${size}`);
      await expect(append(1)).rejects.toMatchObject({ message: "The log cannot be continued." });
    },
  );
});

describe("if answers wait for a quorum", () => {
  async function startThree(): Promise<void> {
    witnesses.push(
      await forTest(startWitness({ logKeys, seed: 2, name: "witness.example/w2" })),
      await forTest(startWitness({ logKeys, seed: 3, name: "witness.example/w3" })),
    );
  }

  test("receipts carry the cosignatures of exactly their tree", async () => {
    await startThree();
    await open(3);
    const [appended] = await append(4);
    const { checkpoint } = parseTlogProof(appended?.receipt.proof ?? "");
    expect(parseCheckpoint(checkpoint).size).toBe(5);
    for (const each of witnesses) verifyCosignature(checkpoint, each);
  });

  test("one of three may be down; with two down nothing is answered, and written records are there afterwards", async () => {
    await startThree();
    await open(2);
    await witnesses[2]?.stop();
    await append(1);
    const letGo = witnesses[1]?.hold();
    const refused = append(2);
    await expect.poll(() => witnesses[1]?.requests, often).toBe(2);
    await timers.fire(quorumWaitMs);
    await expect(refused).rejects.toMatchObject({
      ...unavailable,
      message: "Not enough witnesses have cosigned the log.",
    });
    letGo?.();
    const [next] = await append(1);
    expect(next?.leafIndex).toBe(4);
    await fixture.verify();
  });

  test("replicas that send one log to a witness at the same time refuse no call", async () => {
    const replicas: (typeof ledger)[] = [];
    for (let replica = 0; replica < 3; replica++) {
      await open(1);
      replicas.push(ledger);
    }
    const appends = replicas.map(async (replica) => {
      for (let record = 0; record < 20; record++) await replica.append(makeRecord(alice));
    });
    const outcomes = await Promise.allSettled(appends);
    expect(outcomes.filter(({ status }) => status === "rejected")).toEqual([]);
    expect(seenSizes()).toEqual([61]);
  });

  test("readiness fails as soon as the quorum is lost, although an idle tenant was not checked", async () => {
    const check = () => witnessing.readiness.check(new AbortController().signal);
    await open(1);
    await append(1);
    await ledger.append(makeRecord(bob));
    await check();
    witness().answer = (response) => void response.writeHead(500).end();
    await expect(append(1)).rejects.toMatchObject(unavailable);
    await expect(check()).rejects.toMatchObject({ message: expect.stringContaining("witness.example/w1") });
    witness().answer = undefined;
    await timers.fire(retryMs);
    await expect.poll(check, often).toBeUndefined();
  });

  test("nothing is appended after a start until the quorum has confirmed the log", async () => {
    await open(1);
    await append(1);
    await ledger.close();
    witness().answer = (response) => void response.writeHead(500).end();
    await open(1);
    await expect(append(1)).rejects.toMatchObject({
      ...unavailable,
      message: "The witnesses of the log have not confirmed its state.",
    });
    expect(await fixture.rows("alice")).toHaveLength(2);
    witness().answer = undefined;
    await timers.fire(retryMs);
    await expect.poll(() => append(1), often).toHaveLength(1);
  });

  test("a store that is rolled back with its anchor while it is served gives no answers", async () => {
    await open(1);
    await append(4);
    for (const sql of [
      "DELETE FROM openings WHERE record_id IN (SELECT record_id FROM entries WHERE leaf_index >= 2)",
      "DELETE FROM entries WHERE leaf_index >= 2",
    ])
      fixture.query(sql);
    const [{ origin } = { origin: "" }] = await ledger.published();
    const proof = await ledger.consistencyProof(logNameOf(origin), 2, 5);
    expect(proof).not.toEqual([]);
    fixture.queryAnchor("DELETE FROM anchored_logs");
    const [first, second] = (await fixture.rows("alice")).map(({ leaf }) => leafHash(Buffer.from(leaf)));
    const root = Buffer.from(nodeHash(first as Uint8Array, second as Uint8Array)).toString("hex");
    fixture.query("UPDATE tiles SET hashes = CAST(substr(hashes, 1, 64) AS BLOB)");
    fixture.query(`UPDATE log_heads SET size = 2, root = unhex('${root}')`);
    await expect(append(1)).rejects.toMatchObject({
      message: "The log cannot be continued.",
      details: { cause: { message: expect.stringContaining("had 5 leaves at its witnesses") } },
    });
    await expect(append(1)).rejects.toMatchObject({ message: "The log cannot be continued." });
    expect(seenSizes()).toEqual([5]);
  });
});
