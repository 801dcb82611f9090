/**
 * A stream of evidence is cut on each store, again and again: its client goes away, the service is killed, the store is
 * killed. Nothing that was acknowledged is lost, and nothing is recorded twice. `BULK_KILLS` is another number of cuts.
 */
import { setTimeout as delay } from "node:timers/promises";
import { createClient } from "@connectrpc/connect";
import { createGrpcTransport, Http2SessionManager } from "@connectrpc/connect-node";
import { afterAll, describe, expect, test } from "vitest";
import { BulkStreamService } from "../../gen/platform/bulk/v1/streams_pb.ts";
import { EvidenceEventType } from "../../gen/platform/sdk/v1/common_pb.ts";
import { migratePostgres } from "../../src/stores/postgres/schema.ts";
import { targetOf } from "../contract/ledger-postgres-fixture.ts";
import { seededRandom } from "../contract/ledger-records.ts";
import { folderForFile } from "../harness/folder.ts";
import { rest, restUntilServed } from "../harness/gateway.ts";
import { issuerForFile } from "../harness/issuer-for-file.ts";
import { forFile } from "../harness/lifetimes.ts";
import { startPostgres } from "../harness/postgres.ts";
import { serviceSettings, startService } from "../harness/process.ts";

/** Of every four. */
const turns = ["client", "service", "client", "store"] as const;
const newEventsATurn = 200;

/** A store that can be killed, and comes back. */
interface MortalStore {
  readonly settings: Readonly<Record<string, string>>;
  /** Absent if the store is in the service's own process: killing one kills the other. */
  readonly kill?: () => Promise<unknown>;
  restart(): Promise<unknown>;
  stop(): Promise<unknown>;
}

async function startMortalPostgres(): Promise<MortalStore> {
  const server = await startPostgres();
  const url = await server.createDatabase();
  await migratePostgres({ target: targetOf(url), random: seededRandom(url) });
  return {
    settings: { SVC_STORE: url },
    kill: () => server.kill(),
    restart: () => server.restart(),
    stop: () => server.stop(),
  };
}

/** That of `serviceSettings`. */
const startSqlite = async (): Promise<MortalStore> => ({ settings: {}, restart: async () => {}, stop: async () => {} });

const issuer = await issuerForFile();

describe.each([
  ["PostgreSQL", startMortalPostgres, 80],
  ["SQLite", startSqlite, 40],
] as const)("%s", async (_name, startStore, usualKills) => {
  const kills = Number(process.env.BULK_KILLS ?? usualKills);
  const store = await forFile<MortalStore>(startStore());
  const folder = folderForFile("bulk-kills");
  const settings = { ...serviceSettings(folder, issuer.url), ...store.settings, SVC_BULK: "on" };
  let service = await startService(folder, settings);
  afterAll(() => service.stop());
  const scope = "platform-api.access evidence.write";
  const token = issuer.token({ scope, exp: Math.floor(Date.now() / 1000) + 86_400 });

  const eventOf = (sequence: number) => ({
    sequence: BigInt(sequence),
    item: {
      idempotencyKey: `event-${sequence}`,
      event: {
        eventType: EvidenceEventType.PROTECT,
        workload: { application: "agent" },
        resource: { kind: "record", id: String(sequence) },
      },
    },
  });

  /** Where each event that was acknowledged stands in the log. */
  const acknowledged = new Map<number, bigint>();
  let made = 0;

  /** Sends all that is not acknowledged, and what is new, until the stream ends, however. `onAcknowledged` may cut it. */
  async function ship(upTo: number, onAcknowledged: (count: number, cut: () => void) => void): Promise<void> {
    const sessionManager = new Http2SessionManager(service.url);
    const client = createClient(BulkStreamService, createGrpcTransport({ baseUrl: service.url, sessionManager }));
    const pending = Array.from({ length: made }, (_, i) => i).filter((sequence) => !acknowledged.has(sequence));
    async function* events() {
      for (const sequence of pending) yield eventOf(sequence);
      while (made < upTo) yield eventOf(made++);
    }
    let count = 0;
    try {
      for await (const { items } of client.streamEvents(events(), { headers: { authorization: `Bearer ${token}` } })) {
        for (const { sequence, result } of items) {
          const leafIndex = result?.ingestion?.receipt?.leafIndex;
          if (leafIndex === undefined) throw new Error(`refused: ${result?.error?.reason}`);
          const known = acknowledged.get(Number(sequence));
          if (known !== undefined && known !== leafIndex) throw new Error(`event ${sequence} was recorded twice`);
          acknowledged.set(Number(sequence), leafIndex);
          count += 1;
        }
        onAcknowledged(count, () => sessionManager.abort());
      }
    } catch (error) {
      // A cut; whatever else it is shows in the end.
      if (error instanceof Error && /recorded twice|refused/.test(error.message)) throw error;
    } finally {
      sessionManager.abort();
    }
  }

  async function cutBy(turn: (typeof turns)[number]): Promise<void> {
    const what = turn === "store" && store.kill === undefined ? "service" : turn;
    const cutAfter = Math.floor(Math.random() * newEventsATurn);
    let cutting: Promise<unknown> | undefined;
    await ship(made + newEventsATurn, (count, cut) => {
      if (count < cutAfter || cutting !== undefined) return;
      if (what === "client") cutting = Promise.resolve(cut());
      if (what === "service") cutting = Promise.resolve(service.child.kill("SIGKILL"));
      if (what === "store") cutting = store.kill?.();
    });
    await cutting;
    if (what === "service" && cutting !== undefined) {
      await service.ended;
      expect(service.errors()).toBe("");
      service = await startService(folder, settings);
    }
    if (what === "store" && cutting !== undefined) await store.restart();
  }

  test(`${kills} cuts: nothing acknowledged is lost, nothing is recorded twice`, { timeout: 1_800_000 }, async () => {
    for (let i = 0; i < kills; i++) await cutBy(turns[i % turns.length] as (typeof turns)[number]);
    for (let tries = 0; acknowledged.size < made; tries++) {
      expect(tries, "events that are never acknowledged").toBeLessThan(100);
      await ship(made, () => {});
      await delay(100);
    }
    // Genesis, then every event once, and nothing else.
    const places = [...acknowledged.values()].sort((a, b) => Number(a - b));
    expect(places).toEqual(Array.from({ length: made }, (_, i) => BigInt(i + 1)));
    const last = await rest(`${service.url}/v1/sdk/evidence`, {
      token,
      body: { event_type: "protect", workload: { application: "agent" }, resource: { kind: "record" } },
    });
    expect(last.body.ingestion.receipt.leaf_index).toBe(made + 1);
    // What was acknowledged stands where its acknowledgement said.
    const size = 1000;
    for (let from = 0; from < made; from += size) {
      const sequences = Array.from({ length: Math.min(size, made - from) }, (_, i) => from + i);
      const items = sequences.map((sequence) => ({
        idempotency_key: `event-${sequence}`,
        event: {
          event_type: "protect",
          workload: { application: "agent" },
          resource: { kind: "record", id: String(sequence) },
        },
      }));
      const { body } = await restUntilServed(`${service.url}/v1/bulk/evidence`, { token, body: { items } });
      const found = body.items.map(
        (item: { ingestion: { receipt: { leaf_index: number } } }) => item.ingestion.receipt.leaf_index,
      );
      expect(found).toEqual(sequences.map((sequence) => Number(acknowledged.get(sequence))));
    }
  });
});
