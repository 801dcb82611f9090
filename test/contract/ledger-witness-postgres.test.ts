/** Replicas on one database, whose only anchor is a witness. */
import { parse } from "valibot";
import { expect, test, vi } from "vitest";
import { witnessingOf } from "../../src/app/stores.ts";
import { systemTimers, type Timers } from "../../src/base/timers.ts";
import { witnesses as witnessSchema } from "../../src/config/values.ts";
import { parseCheckpoint } from "../../src/ledger/tlog/checkpoint.ts";
import { logNameOf } from "../../src/ledger/tlog/log-name.ts";
import { parseTlogProof } from "../../src/ledger/tlog/tlog-proof.ts";
import { verifyConsistency } from "../../src/ledger/tlog/tree-verify.ts";
import { readKeyFile } from "../../src/stores/files/key-file.ts";
import { createLogger } from "../../src/telemetry/logger.ts";
import { forFile, forTest } from "../harness/lifetimes.ts";
import { startPostgres } from "../harness/postgres.ts";
import { startStandby } from "../harness/postgres-standby.ts";
import { startTcpProxy } from "../harness/tcp-proxy.ts";
import { startWitness } from "../harness/witness.ts";
import { refused, run, settingsForTest } from "../unit/cli/surroundings.ts";
import { postgresFixture } from "./ledger-postgres-fixture.ts";
import { recordKit, tenant } from "./ledger-records.ts";

const { clock, random, makeRecord } = recordKit(undefined, Date.now());
const alice = tenant("alice");
const retryMs = 1_000;

const server = await forFile(startPostgres());

/** Starts three, with what a setting says of them. */
async function startWitnesses({ keyPath }: { readonly keyPath: string }) {
  const logKeys = () => (readKeyFile(keyPath) ?? []).map(({ publicKey }) => publicKey);
  const named = (seed: number) => forTest(startWitness({ logKeys, seed, name: `witness.example/w${seed}` }));
  const witnesses = [await named(1), await named(2), await named(3)] as const;
  return { witnesses, setting: Object.fromEntries(witnesses.map(({ key, url }) => [key, url])) };
}

test("after a failover to a standby that lacks it, no record is acknowledged by a cosignature of another history", {
  timeout: 60_000,
}, async () => {
  const primary = await forTest(startPostgres({ settings: { wal_keep_size: "128MB" } }));
  const fixture = await postgresFixture(primary);
  const [link, address] = [await forTest(startTcpProxy(primary.port)), await forTest(startTcpProxy(primary.port))];
  const standby = await forTest(startStandby(primary, { name: "standby", primaryPort: link.port }));
  const { witnesses, setting } = await startWitnesses(fixture);
  const settings = {
    witnesses: parse(witnessSchema, setting),
    witnessQuorum: 2,
    store: { kind: "postgres" },
    anchor: undefined,
  } as const;
  const logger = createLogger({ level: "fatal", serviceName: "test" });
  let gate = Promise.withResolvers<void>();
  gate.resolve();
  const asked: string[] = [];
  const held: typeof fetch = async (url, init) => {
    asked.push(String(url));
    await gate.promise;
    return fetch(url, init);
  };
  /** No exchange is given up; witnesses that found fault are asked again. */
  const patient: Timers = {
    after: (delayMs, action) => (delayMs === retryMs ? systemTimers.after(delayMs, action) : () => {}),
  };
  const open = (exchange: typeof fetch, timers: Timers) =>
    fixture.open({
      ...{ clock, random, target: { ...fixture.target, port: address.port } },
      openAnchor: witnessingOf(settings, {
        ...{ clock, timers, fetch: exchange, logger, metrics: { witnessAsked: () => {} } },
      })?.open,
    });
  const first = await open(held, patient);
  const acknowledged = [await first.append(makeRecord(alice))];
  const position = "SELECT pg_current_wal_lsn() AS at";
  const [{ at }] = (await primary.query(position)) as [{ at: string }];
  await vi.waitFor(async () =>
    expect(await standby.query(`SELECT pg_last_wal_replay_lsn() >= '${at}' AS is_there`)).toEqual([{ is_there: true }]),
  );
  link.moveTo(undefined);

  gate = Promise.withResolvers();
  const before = asked.length;
  const lost = makeRecord(alice);
  const ended = Promise.allSettled([first.append(lost)]);
  await vi.waitFor(() => expect(asked.length).toBe(before + witnesses.length));
  await standby.query("SELECT pg_promote()");
  address.moveTo(standby.port);
  const second = await open(fetch, systemTimers);
  for (let count = 0; count < 2; count++) acknowledged.push(await second.append(makeRecord(alice)));
  gate.resolve();
  expect(await ended).toMatchObject([{ status: "rejected", reason: { reason: "store_unavailable" } }]);
  expect(await second.find(alice, lost.recordId)).toBe("unknown");

  // The first goes on with the history that the witnesses have seen.
  await vi.waitFor(async () => acknowledged.push(await first.append(makeRecord(alice))), { timeout: 40_000 });
  for (const { recordId } of acknowledged) expect(await second.find(alice, recordId)).not.toBe("unknown");
  const trees = acknowledged.map(({ receipt }) => parseCheckpoint(parseTlogProof(receipt.proof).checkpoint));
  expect(trees.map(({ size }) => size)).toEqual([2, 3, 4, 5]);
  const later = trees.slice(1).map(async (tree, i) => {
    const earlier = trees[i] as (typeof trees)[number];
    const proof = await second.consistencyProof(logNameOf(tree.origin), earlier.size, tree.size);
    expect(verifyConsistency(earlier, tree, proof as Uint8Array[])).toBe(true);
  });
  await Promise.all(later);
});

test("without an anchor file a command signs only what more than half of the witnesses know as the newest state", async () => {
  const fixture = await postgresFixture(server);
  const { witnesses, setting } = await startWitnesses(fixture);
  const [first, second, third] = witnesses;
  const SVC_WITNESSES = JSON.stringify(setting);
  settingsForTest({ SVC_STORE: fixture.url, SVC_LEDGER_KEY: fixture.keyPath, SVC_WITNESSES });
  const ledger = await fixture.open({ clock, random });
  const { log, recordId } = await ledger.append(makeRecord(alice));
  const receipt = () => run("ledger", "receipt", recordId);
  expect(await receipt()).toMatchObject({ code: 0 });
  await ledger.append(makeRecord(alice));
  await third.stop();
  expect(await receipt()).toMatchObject({ code: 0 });
  expect([first, second].map(({ seen }) => seen.get(log)?.size)).toEqual([3, 3]);

  // As though the database had been restored from a backup.
  const newest = first.seen.get(log);
  first.seen.set(log, { origin: log, size: 9, root: new Uint8Array(32) });
  await refused(receipt(), "has 3 leaves, and witness witness.example/w1 has seen 9: the store is an older copy");
  first.seen.set(log, { origin: log, size: 3, root: new Uint8Array(32) });
  await refused(
    receipt(),
    `log ${log} was rewritten before leaf 3: witness witness.example/w1 has seen another tree\n`,
  );
  if (newest !== undefined) first.seen.set(log, newest);
  await second.stop();
  await refused(receipt(), /witness witness.example\/w2 says nothing of/);
});
