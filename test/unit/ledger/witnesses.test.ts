/** What a gateway submits to witnesses at its start. */
import { expect, test } from "vitest";
import { systemTimers } from "../../../src/base/timers.ts";
import type { LogState } from "../../../src/ledger/ports/store.ts";
import { signCheckpoint } from "../../../src/ledger/tlog/checkpoint.ts";
import { noteSigner, signingKeyOf } from "../../../src/ledger/tlog/note-keys.ts";
import { parseCosignerKey } from "../../../src/ledger/witness/cosignature.ts";
import { Witnesses } from "../../../src/ledger/witness/witnesses.ts";
import { tenant } from "../../contract/ledger-records.ts";
import { witnessCore } from "../../harness/witness.ts";
import { must } from "../domain/world.ts";

const origin = `ledger.example/${"0a".repeat(16)}`;
const key = signingKeyOf(new Uint8Array(32).fill(7));
const stateOf = (size: number): LogState => ({
  tenantId: tenant("alice"),
  origin,
  size,
  root: new Uint8Array(32).fill(size),
});

/** A store whose newest commit may be lost: only `confirmed` is durable. */
async function startWitnesses(confirmed: () => Promise<LogState | undefined>) {
  const core = witnessCore({ logKeys: () => [key.publicKey] }, Date.now);
  const verifier = must(parseCosignerKey(core.key));
  const witnesses = new Witnesses({
    quorum: 1,
    awaited: false,
    witnesses: [
      {
        verifier,
        client: {
          async addCheckpoint(body) {
            const { status, text = "" } = core.judge(body);
            if (status !== 200) throw new Error(`status ${status}`);
            return { kind: "cosigned", lines: text };
          },
        },
      },
    ],
    logs: {
      logs: async () => [stateOf(10)],
      head: confirmed,
      consistencyProof: async () => undefined,
      cosignatures: async () => [],
      storeCosignatures: async () => {},
      sign: (checkpoint) => signCheckpoint(checkpoint, [noteSigner(origin, key)]),
    },
    clock: { now: Date.now },
    timers: systemTimers,
  });
  await witnesses.start();
  return { witnesses, seen: () => core.seen.get(origin)?.size };
}

test("is the state that the store confirms, not the one that it has read", async () => {
  const { witnesses, seen } = await startWitnesses(async () => stateOf(9));
  expect(seen()).toBe(9);
  await witnesses.close();
});

test.each([
  ["the store is not available", () => Promise.reject(new Error("away"))],
  ["the log is gone", async () => undefined],
])("is nothing if %s", async (_, confirmed) => {
  const { witnesses, seen } = await startWitnesses(confirmed);
  expect(seen()).toBeUndefined();
  await witnesses.close();
});
