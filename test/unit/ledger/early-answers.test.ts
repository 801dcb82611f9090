import { expect, test } from "vitest";
import { Appender } from "../../../src/ledger/append/appender.ts";
import { defaultAppenderLimits } from "../../../src/ledger/append/limits.ts";
import type { SharedAnchor } from "../../../src/ledger/ports/anchor.ts";
import type {
  BatchOutcome,
  BatchResult,
  BatchWriter,
  OnUncommitted,
  TenantBatch,
} from "../../../src/ledger/ports/store.ts";
import type { Checkpoint } from "../../../src/ledger/tlog/checkpoint.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "../../contract/ledger-records.ts";

const makeRecord = recordMaker(manualClock(), seededRandom("early"));
const alice = tenant("alice");

/** A signer whose checkpoints say which tree they are of, and that can be out of order. */
function signerOfTest() {
  const signed: string[] = [];
  const state = { isBroken: false };
  return {
    signed,
    state,
    sign({ size, root }: Checkpoint): string {
      if (state.isBroken) throw new Error("no key");
      signed.push(`${size}:${root[0]}`);
      return `checkpoint ${size}:${root[0]}\n`;
    },
    signRoot({ size, root }: Checkpoint) {
      signed.push(`root ${size}:${root[0]}`);
      return { protectedHeader: Buffer.of(0xa0), signature: Buffer.alloc(64) };
    },
    verifierKeys: () => [],
  };
}

/** One write at a time, which ends when the test says so. */
class HeldWriter implements BatchWriter {
  #began = Promise.withResolvers<void>();
  #held: PromiseWithResolvers<readonly BatchOutcome[]> | undefined;
  batches: readonly TenantBatch[] = [];
  onUncommitted: OnUncommitted | undefined;

  write(batches: readonly TenantBatch[], onUncommitted?: OnUncommitted): Promise<readonly BatchOutcome[]> {
    this.#held = Promise.withResolvers();
    this.batches = batches;
    this.onUncommitted = onUncommitted;
    this.#began.resolve();
    return this.#held.promise;
  }

  async began(): Promise<PromiseWithResolvers<readonly BatchOutcome[]>> {
    await this.#began.promise;
    this.#began = Promise.withResolvers();
    return this.#held as PromiseWithResolvers<readonly BatchOutcome[]>;
  }

  /** What a store would make of the write: a tree of one leaf each, whose root begins with this byte. */
  result(root: number): BatchResult {
    const tree = { size: 1, root: new Uint8Array(32).fill(root) };
    const rest = { leafIndex: 0, recordedAt: "2026-01-02T03:04:05.006Z", leafHash: "", path: "" };
    const { records } = this.batches[0] as TenantBatch;
    return { log: "o/alice", results: records.map(({ recordId }) => ({ ...rest, recordId, tree })) };
  }
}

function setup(anchor?: SharedAnchor) {
  const [writer, signer] = [new HeldWriter(), signerOfTest()];
  return { writer, signer, appender: new Appender(writer, signer, defaultAppenderLimits, anchor) };
}

test("a receipt is signed beside the commit, and given when that is done", async () => {
  const { writer, signer, appender } = setup();
  const answers: unknown[] = [];
  const appending = appender.append(makeRecord(alice)).then((answer) => void answers.push(answer.receipt.proof));
  const held = await writer.began();
  const result = writer.result(7);
  writer.onUncommitted?.(result);
  expect(signer.signed).toEqual(["1:7"]);
  await new Promise(setImmediate);
  expect(answers).toEqual([]);
  held.resolve([result]);
  await appending;
  expect(answers).toEqual([expect.stringContaining("checkpoint 1:7")]);
  expect(signer.signed).toEqual(["1:7"]);
});

test("a commit's root is signed for COSE receipts once, and only when one of its receipts is asked for it", async () => {
  const { writer, signer, appender } = setup();
  const appending = [appender.append(makeRecord(alice)), appender.append(makeRecord(alice))];
  const held = await writer.began();
  held.resolve([writer.result(7)]);
  const [first, second] = await Promise.all(appending);
  expect(signer.signed).toEqual(["1:7"]);
  for (const appended of [first, second, first]) expect(appended?.receipt.cose()[0]).toBe(0xd2);
  expect(signer.signed).toEqual(["1:7", "root 1:7"]);
});

test("of a commit that failed nothing that was signed leaves, and the next tree of its size is another", async () => {
  const { writer, signer, appender } = setup();
  const failing = appender.append(makeRecord(alice));
  const first = await writer.began();
  writer.onUncommitted?.(writer.result(7));
  first.reject(new Error("the disk is full"));
  await expect(failing).rejects.toMatchObject({ reason: "store_unavailable" });
  const appending = appender.append(makeRecord(alice));
  const second = await writer.began();
  const result = writer.result(8);
  writer.onUncommitted?.(result);
  second.resolve([result]);
  const { receipt } = await appending;
  expect(receipt.proof).toContain("checkpoint 1:8");
  expect(signer.signed).toEqual(["1:7", "1:8"]);
});

test("a committed result that differs from the uncommitted one is signed, and the other is dropped", async () => {
  const { writer, appender } = setup();
  const appending = appender.append(makeRecord(alice));
  const held = await writer.began();
  writer.onUncommitted?.(writer.result(7));
  held.resolve([writer.result(8)]);
  expect((await appending).receipt.proof).toContain("checkpoint 1:8");
});

test("what could not be signed beside the commit is signed after it, or refused then", async () => {
  const { writer, signer, appender } = setup();
  for (const isBroken of [false, true]) {
    const appending = appender.append(makeRecord(alice));
    const held = await writer.began();
    const result = writer.result(7);
    signer.state.isBroken = true;
    writer.onUncommitted?.(result);
    signer.state.isBroken = isBroken;
    held.resolve([result]);
    if (isBroken) await expect(appending).rejects.toMatchObject({ reason: "store_unavailable" });
    else expect((await appending).receipt.proof).toContain("checkpoint 1:7");
  }
});

test("what another anchor has to confirm first is not signed before that", async () => {
  const { promise, resolve } = Promise.withResolvers<void>();
  const anchor = { refusal: () => undefined, anchored: () => undefined, appended: () => promise };
  const { writer, signer, appender } = setup(anchor as unknown as SharedAnchor);
  const appending = appender.append(makeRecord(alice));
  const held = await writer.began();
  expect(writer.onUncommitted).toBeUndefined();
  held.resolve([writer.result(7)]);
  await new Promise(setImmediate);
  expect(signer.signed).toEqual([]);
  resolve();
  await appending;
  expect(signer.signed).toEqual(["1:7"]);
});
