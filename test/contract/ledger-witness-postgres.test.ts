/** Replicas on one database, whose only anchor is a witness. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { witnessingOf } from "../../src/app/witnessing.ts";
import { systemTimers } from "../../src/base/timers.ts";
import { witnesses as parseWitnesses } from "../../src/config/witnesses.ts";
import { parseCheckpoint } from "../../src/ledger/tlog/checkpoint.ts";
import { parseNote } from "../../src/ledger/tlog/note.ts";
import { parseTlogProof } from "../../src/ledger/tlog/tlog-proof.ts";
import { readKeyFile } from "../../src/stores/key-file.ts";
import { createLogger } from "../../src/telemetry/logger.ts";
import { type PostgresServer, startPostgres } from "../harness/postgres.ts";
import { startWitness } from "../harness/witness.ts";
import { postgresFixture, targetOf } from "./ledger-postgres-fixture.ts";
import { manualClock, recordMaker, seededRandom, tenant } from "./ledger-records.ts";
import { expectGapless } from "./ledger-suite.ts";

const clock = manualClock(Date.now());
const random = seededRandom();
const makeRecord = recordMaker(clock, random);
const alice = tenant("alice");
let server: PostgresServer;

beforeAll(async () => {
  server = await startPostgres();
}, 60_000);
afterAll(() => server.stop());

test("every answer of two replicas is cosigned, and a database that was put back is found out", async () => {
  const fixture = await postgresFixture(server);
  const logKeys = () => (readKeyFile(fixture.keyPath) ?? []).map(({ publicKey }) => publicKey);
  const witness = await startWitness({ logKeys });
  const settings = {
    witnesses: parseWitnesses(witness.setting),
    witnessQuorum: undefined,
    store: { kind: "postgres" },
    anchor: undefined,
  } as const;
  const logger = createLogger({ level: "fatal", serviceName: "test" });
  const machine = { clock, timers: systemTimers, fetch, logger, metrics: { witnessChanged: () => {} } };
  const open = (target = fixture.target) =>
    fixture.open({ clock, random, target, openAnchor: witnessingOf(settings, machine)?.open });
  const replicas = await Promise.all([open(), open()]);
  const rounds = 5;
  for (let round = 0; round < rounds; round++) {
    const appended = await Promise.all(
      replicas.flatMap((replica) => [replica.append(makeRecord(alice)), replica.append(makeRecord(alice))]),
    );
    for (const { receipt } of appended) {
      const { checkpoint } = parseTlogProof(receipt.proof);
      // One that another replica overtook at the witness is covered by what was cosigned after it.
      expect([...witness.seen.values()][0]?.size).toBeGreaterThanOrEqual(parseCheckpoint(checkpoint).size);
      expect(parseNote(checkpoint).signatures.length).toBeLessThanOrEqual(2);
    }
  }
  await Promise.all(replicas.map((replica) => replica.close()));
  await expectGapless(fixture, "alice", 1 + rounds * 4);

  const copy = new URL(fixture.url);
  const name = copy.pathname.slice(1);
  await server.query(`CREATE DATABASE ${name}_older TEMPLATE ${name}`);
  copy.pathname = `/${name}_older`;
  const later = await open();
  await later.append(makeRecord(alice));
  await later.close();
  const older = await open(targetOf(copy.href));
  await expect(older.append(makeRecord(alice))).rejects.toMatchObject({
    reason: "store_unavailable",
    message: "The log cannot be continued.",
    details: {
      cause: { message: expect.stringContaining("has 21 leaves, and witness witness.example/w1 has seen 22") },
    },
  });
  await older.close();
  await witness.stop();
  await logger.close();
  await fixture.remove();
});
