/** What was acknowledged is in the store, though the process is killed under load, again and again. */
import { randomFillSync } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { systemClock } from "../../src/base/clock.ts";
import type { RecordId, TenantId } from "../../src/base/ids.ts";
import type { StoredRecord } from "../../src/ledger/ports/record.ts";
import { openSqliteLedger } from "../../src/stores/sqlite/open-ledger.ts";
import { storeIn } from "../contract/ledger-records.ts";
import { rest } from "../harness/gateway.ts";
import { type StaticIssuer, startStaticIssuer } from "../harness/issuer.ts";
import { type RunningService, serviceSettings, startService } from "../harness/process.ts";
import { claimsOf, mintToken, newTestKey } from "../harness/tokens.ts";

const rounds = 5;
const callers = 24;
const tenants = ["tenant-a", "tenant-b", "tenant-c"];
const routes = ["/v1/sdk/protection-plan", "/v1/sdk/artifact-register", "/v1/sdk/evidence"];
const scope = "platform-api.access policy.read artifacts.write evidence.write";

const key = newTestKey("ES256", "key-1");
let issuer: StaticIssuer;
let directory: string;
let service: RunningService | undefined;

beforeAll(async () => {
  issuer = await startStaticIssuer([key.publicJwk]);
});
afterAll(() => issuer.stop());
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "svc-kill-"));
});
afterEach(async () => {
  service?.child.kill("SIGKILL");
  await service?.ended;
  rmSync(directory, { recursive: true });
});

/** What the service said that it has done. */
interface Acknowledged {
  readonly tenant: string;
  readonly route: string;
  /** Sent with the call, and part of the record. */
  readonly requestId: string;
  readonly decisionId?: string;
}

test("kill -9 under load, again and again", { timeout: 240_000 }, async () => {
  const acknowledged: Acknowledged[] = [];
  for (let round = 0; round < rounds; round++) {
    service = await startService(directory, serviceSettings(directory, issuer.url));
    const before = acknowledged.length;
    const running = service;
    // Each round dies at another point of its life.
    const killAfter = 5 + round * 23;
    await loadUntilDead(running, round, (call) => {
      acknowledged.push(call);
      if (acknowledged.length === before + killAfter) running.child.kill("SIGKILL");
    });
    expect(await running.ended).toEqual({ code: null, signal: "SIGKILL" });
    expect(acknowledged.length - before).toBeGreaterThanOrEqual(killAfter);
  }
  const stored = await storedRecords();
  const missing = acknowledged.filter(({ requestId, tenant, route, decisionId }) => {
    const record = stored.get(requestId);
    return (
      record === undefined ||
      record.tenant_id !== tenant ||
      record.route !== route ||
      (decisionId !== undefined && record.record_id !== decisionId)
    );
  });
  expect(missing).toEqual([]);
  for (const route of routes) expect(acknowledged.some((call) => call.route === route)).toBe(true);
});

/** Callers that call one after the other, each until its connection is gone. */
async function loadUntilDead(
  { url }: RunningService,
  round: number,
  onAcknowledged: (call: Acknowledged) => void,
): Promise<void> {
  const bodies = new Map(sampleCalls().map(({ route, body }) => [route, body]));
  await Promise.all(
    Array.from({ length: callers }, async (_, caller) => {
      const tenant = tenants[caller % tenants.length] ?? "tenant-a";
      const route = routes[Math.floor(caller / tenants.length) % routes.length] ?? "/v1/sdk/evidence";
      const token = mintToken(key, claimsOf(issuer.url, Date.now(), { tenant_id: tenant, scope }));
      for (let i = 0; ; i++) {
        const requestId = `${round}-${caller}-${i}`;
        const answer = await rest(url + route, {
          token,
          body: bodies.get(route),
          headers: { "x-request-id": requestId },
        }).catch(() => undefined);
        // The connection broke: whether this one was recorded, the caller does not know.
        if (answer === undefined) return;
        expect(answer.status).toBe(200);
        onAcknowledged({ tenant, route, requestId, decisionId: answer.body.decision?.decision_id });
      }
    }),
  );
}

/** Every record of the store, as the service itself reads them, by the request that made it. */
async function storedRecords(): Promise<ReadonlyMap<string, StoredRecord>> {
  const paths = storeIn(directory);
  const database = new DatabaseSync(paths.path, { readOnly: true });
  const ids = database.prepare("SELECT tenant_id, record_id FROM entries").all();
  database.close();
  const ledger = await openSqliteLedger({
    ...paths,
    originPrefix: "localhost/test",
    clock: systemClock,
    random: (bytes) => randomFillSync(bytes),
  });
  const records = new Map<string, StoredRecord>();
  try {
    for (const { tenant_id, record_id } of ids) {
      const record = await ledger.find(tenant_id as TenantId, record_id as RecordId);
      if (typeof record === "string") throw new Error(`a record that stands in the log is ${record}`);
      if (record.kind !== "genesis") records.set(record.request_id, record);
    }
  } finally {
    await ledger.close();
  }
  return records;
}
