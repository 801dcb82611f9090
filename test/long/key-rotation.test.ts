/** The ledger's key is rotated while two gateways serve, and one of them does not have the new key yet. */
import { execFile } from "node:child_process";
import { copyFileSync, renameSync } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { findReceipt, verifyReceipt } from "../../src/ledger/record/receipt.ts";
import { parseTlogProof } from "../../src/ledger/tlog/tlog-proof.ts";
import { openWithAny, parseTrustedKey } from "../../src/ledger/tlog/trusted-key.ts";
import { startStaticIssuer } from "../harness/issuer.ts";
import { type RunningService, serviceSettings, startService } from "../harness/process.ts";
import { type Acknowledged, startRetryingLoad } from "../harness/retrying-load.ts";
import { testStores } from "../harness/stores.ts";
import { claimsOf, mintToken, newTestKey } from "../harness/tokens.ts";

const tenants = ["tenant-a", "tenant-b", "tenant-c"];
const cli = join(import.meta.dirname, "../../src/cli/cli.ts");

test.each(testStores)(
  "on %s no answer is signed by a retired key, and no caller that retries fails",
  { timeout: 180_000 },
  async (_, start) => {
    const store = await start();
    const key = newTestKey("ES256", "key-1");
    const issuer = await startStaticIssuer([key.publicJwk]);
    const services: RunningService[] = [];
    try {
      const shared = { ...serviceSettings(store.folder, issuer.url), ...store.settings };
      const ownKey = join(store.folder, "own.key");
      const settings = [shared, { ...shared, SVC_LEDGER_KEY: ownKey }] as const;
      const run = async (...given: string[]) =>
        (
          await promisify(execFile)(process.execPath, [cli, ...given], {
            env: { PATH: process.env.PATH ?? "", ...shared },
          })
        ).stdout;
      const first = await startService(store.folder, settings[0]);
      services.push(first);
      copyFileSync(shared.SVC_LEDGER_KEY, ownKey);
      const second = await startService(store.folder, settings[1]);
      services.push(second);
      const scope = "platform-api.access evidence.write";
      const tokens = tenants.map((tenant_id) => mintToken(key, claimsOf(issuer.url, Date.now(), { tenant_id, scope })));
      const urls: (string | undefined)[] = [first.url, second.url];
      const load = startRetryingLoad({ urls, tokens });
      const answersOf = (replica: number) => load.acknowledged.filter((each) => each.replica === replica).length;
      const more = async (replica: number) => {
        const before = answersOf(replica);
        await expect.poll(() => answersOf(replica), { timeout: 30_000 }).toBeGreaterThan(before + 10);
      };
      try {
        await Promise.all([more(0), more(1)]);
        // The new key is in one file, and in force from that gateway's next start.
        await run("keys", "rotate", "--reason", "yearly", "--operator", "olga", "--yes");
        first.child.kill("SIGTERM");
        await first.ended;
        urls[0] = undefined;
        await more(1);
        const restarted = await startService(store.folder, settings[0]);
        services.push(restarted);
        urls[0] = restarted.url;
        await more(0);
        // The other one has seen the rotation, cannot sign, and says so; the first answers all callers.
        const refusedBefore = load.refused[1] ?? 0;
        await expect.poll(() => load.refused[1], { timeout: 30_000 }).toBeGreaterThan(refusedBefore);
        const silent = answersOf(1);
        await more(0);
        expect(answersOf(1)).toBe(silent);
        expect((await fetch(`${second.opsUrl}/readyz`)).status).toBe(503);
        expect((await fetch(`${second.opsUrl}/livez`)).status).toBe(200);
        expect(await second.line("the ledger key was rotated: nothing is signed any more")).toContain("own.key");
        copyFileSync(shared.SVC_LEDGER_KEY, `${ownKey}.new`);
        renameSync(`${ownKey}.new`, ownKey);
        await more(1);
        await expect.poll(async () => (await fetch(`${second.opsUrl}/readyz`)).status, { timeout: 30_000 }).toBe(200);
      } finally {
        await load.stop();
      }
      expect(load.problems).toEqual([]);
      expect(await run("ledger", "verify")).toMatch(/leaves/);
      const { logs } = JSON.parse(await run("keys", "show", "--retired", "--json"));
      expectBelieved(load.acknowledged, logs);
    } finally {
      for (const { child } of services) child.kill("SIGKILL");
      await Promise.all(services.map(({ ended }) => ended));
      await issuer.stop();
      await store.stop();
    }
  },
);

interface ShownLog {
  readonly origin: string;
  readonly keys: readonly string[];
  readonly retired_keys: readonly string[];
}

/** Each receipt verifies with the new key, or with the old one up to where that counts; both sorts are there. */
function expectBelieved(acknowledged: readonly Acknowledged[], logs: readonly ShownLog[]): void {
  const trusted = new Map(logs.map((log) => [log.origin, [log.keys[0] ?? "", ...log.retired_keys]]));
  const believedOn = { new: 0, old: 0 };
  for (const { body } of acknowledged) {
    const receipt = findReceipt(body);
    if (receipt === undefined) throw new Error("an answer without a receipt");
    const keys = (trusted.get(receipt.log_origin) ?? []).flatMap((text) => parseTrustedKey(text) ?? []);
    expect(keys).toHaveLength(2);
    const { verifier } = openWithAny(parseTlogProof(receipt.proof).checkpoint, keys);
    verifyReceipt(receipt, verifier);
    believedOn[verifier.maxTreeSize === undefined ? "new" : "old"] += 1;
  }
  expect(believedOn.new).toBeGreaterThan(0);
  expect(believedOn.old).toBeGreaterThan(0);
}
