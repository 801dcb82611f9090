/** Streams of the TypeScript package against real gateways: that stop, that are killed, and whose tokens end. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, onTestFinished, test } from "vitest";
import { createBulkClient, type EventResult, ItemOutcome } from "../../clients/typescript/src/bulk.ts";
import {
  ArtifactKind,
  ArtifactProfile,
  EvidenceEventType,
  ProtectionOperation,
  type TokenProvider,
  workloadInterceptors,
} from "../../clients/typescript/src/index.ts";
import { createGrpcTransport } from "../../clients/typescript/src/node.ts";
import { type StaticIssuer, startStaticIssuer } from "../harness/issuer.ts";
import { type RunningService, serviceSettings, startLimitedService, startService } from "../harness/process.ts";
import { claimsOf, mintToken, newTestKey } from "../harness/tokens.ts";

const key = newTestKey("ES256", "key-1");
const scope = "platform-api.access evidence.write artifacts.write";
let issuer: StaticIssuer;
let folder: string;
let service: RunningService;
beforeEach(async () => {
  issuer = await startStaticIssuer([key.publicJwk]);
  folder = mkdtempSync(join(tmpdir(), "client-streams-"));
});
afterEach(async () => {
  service.child.kill("SIGKILL");
  await service.ended;
  await issuer.stop();
  rmSync(folder, { recursive: true });
});

const settings = () => ({ ...serviceSettings(folder, issuer.url), SVC_BULK: "on" });
const start = (more: Readonly<Record<string, string>> = {}) => startService(folder, { ...settings(), ...more });

function clientOf(url: string, tokens: TokenProvider) {
  const retry = { attempts: Number.POSITIVE_INFINITY, baseDelayMs: 20, maxDelayMs: 100 };
  const transport = createGrpcTransport({ baseUrl: url, interceptors: workloadInterceptors({ tokens, retry }) });
  onTestFinished(() => transport.close());
  return createBulkClient(transport);
}

const tokenFor = (claims: object = {}) => mintToken(key, claimsOf(issuer.url, Date.now(), { scope, ...claims }));
const lasting = (): TokenProvider => ({ token: async () => tokenFor(), refused: () => {} });

const eventOf = (i: number) => ({
  eventType: EvidenceEventType.PROTECT,
  workload: { application: "agent" },
  resource: { kind: "record", id: `record-${i}` },
});

const placeOf = ({ ingestion }: EventResult) => Number(ingestion?.receipt?.leafIndex);

test("a gateway that is stopped, killed and restarted loses no event and records none twice", {
  timeout: 120_000,
}, async () => {
  service = await start();
  const settings = { SVC_LISTEN: new URL(service.url).host };
  const client = clientOf(service.url, lasting());
  const stream = client.openEventStream();
  const results: Promise<EventResult>[] = [];
  const send = async (count: number) => {
    for (let i = 0; i < count; i++)
      results.push((await stream.send(eventOf(results.length), `key-${results.length}`)).result);
  };
  await send(500);
  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    const ended = service.ended.then(() => start(settings));
    service.child.kill(signal);
    // Held back while there is no listener.
    const sending = send(900);
    service = await ended;
    await sending;
  }
  await stream.close();
  expect(stream.unacknowledged()).toEqual([]);
  const settled = await Promise.all(results);
  expect(settled.map(({ idempotencyKey }) => idempotencyKey)).toEqual(settled.map((_, i) => `key-${i}`));
  const places = settled.map(placeOf);
  expect(new Set(places).size).toBe(2_300);
  // Nothing else was recorded among them, and nothing behind them.
  const sorted = [...places].sort((a, b) => a - b);
  expect(sorted.at(-1)).toBe((sorted[0] as number) + 2_299);
  const { items } = await client.recordEvents({ items: [{ event: eventOf(0), idempotencyKey: "one-more" }] });
  expect(items.map(placeOf)).toEqual([(sorted.at(-1) as number) + 1]);
  // The same keys again are the same records.
  const again = await client.recordEvents({
    items: [2_299, 0].map((i) => ({ event: eventOf(i), idempotencyKey: `key-${i}` })),
  });
  expect(again.items.map(placeOf)).toEqual([places[2_299], places[0]]);
});

test("a token that expires during the stream is replaced", async () => {
  service = await start();
  let made = 0;
  const refused: string[] = [];
  // Expired but for what clocks may differ: counts for two seconds more.
  const exp = Math.floor(Date.now() / 1000) - 28;
  const tokens: TokenProvider = {
    token: async () => {
      made += 1;
      return made === 1 ? tokenFor({ exp }) : tokenFor();
    },
    refused: (token) => void refused.push(token),
  };
  const stream = clientOf(service.url, tokens).openEventStream();
  const send = async (i: number) => (await stream.send(eventOf(i))).result;
  expect((await send(0)).outcome).toBe(ItemOutcome.ANSWERED);
  for (let i = 1; made < 2; i++) expect((await send(i)).outcome).toBe(ItemOutcome.ANSWERED);
  await stream.close();
  expect(refused).toHaveLength(1);
});

test("an idle stream that was closed is opened again by the next event", async () => {
  service = await startLimitedService(folder, settings(), { bulkIdleTimeoutMs: 150 });
  let opened = 0;
  const token = async () => {
    opened += 1;
    return tokenFor();
  };
  const tokens: TokenProvider = { token, refused: () => {} };
  const stream = clientOf(service.url, tokens).openRegistrationStream({ maxUnacknowledgedItems: 2 });
  const registration = {
    operation: ProtectionOperation.PROTECT,
    workload: { application: "agent" },
    resource: { kind: "record" },
    artifactKind: ArtifactKind.DATA_OBJECT,
    artifactProfile: ArtifactProfile.TDF,
    artifactDigest: `sha256:${"2c".repeat(32)}`,
  };
  const send = async () => (await (await stream.send(registration)).result).outcome;
  expect(await send()).toBe(ItemOutcome.ANSWERED);
  await service.line('"reason":"request_timeout"');
  expect([await send(), await send()]).toEqual([ItemOutcome.ANSWERED, ItemOutcome.ANSWERED]);
  await stream.close();
  // On a busy machine it may have been idle for too long again between the two.
  expect(opened).toBeGreaterThan(1);
});
