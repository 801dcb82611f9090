/** Every metric of the service's own moves once what it counts has happened to a whole deployment. */
import { once } from "node:events";
import { cp, rm } from "node:fs/promises";
import { Agent, type IncomingMessage, request } from "node:http";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { afterAll, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { readKeyFile } from "../../src/stores/files/key-file.ts";
import { createMetrics } from "../../src/telemetry/metrics.ts";
import { folderForFile, replaceFile } from "../harness/folder.ts";
import { gatewayForFile, lockStore, rest } from "../harness/gateway.ts";
import { type H1Connection, h1Connect, h1Request } from "../harness/h1.ts";
import { forFile } from "../harness/lifetimes.ts";
import { tracedBy } from "../harness/otlp.ts";
import { startWitness } from "../harness/witness.ts";

/** Address of this machine from which the gateway's ingress calls. All other callers are on 127.0.0.1. */
const ingress = "127.0.0.2";
const identity = {
  "x-svc-tenant-id": "tenant-a",
  "x-svc-user-id": "payroll-service",
  "x-svc-subject": "client-1",
  "x-svc-scopes": "platform-api.access policy.read evidence.write",
};
const bodies = new Map(sampleCalls().map(({ route, body }) => [route, body]));
/** A collector that is not there, and is tried once. */
const nowhere = { OTEL_EXPORTER_OTLP_ENDPOINT: "http://127.0.0.1:9", OTEL_EXPORTER_OTLP_TIMEOUT: "1" };
const patience = { timeout: 45_000 };

const directory = folderForFile("metrics");
await cp(join(import.meta.dirname, "../../policies"), join(directory, "active"), { recursive: true });
const told = '@id("told") @alert("told") permit (principal, action == Action::"protect", resource);';
replaceFile(join(directory, "active/default/told.cedar"), told);
const ledgerKey = join(directory, "ledger.key");
const logKeys = () => (readKeyFile(ledgerKey) ?? []).map(({ publicKey }) => publicKey);
const witness = await forFile(startWitness({ logKeys }));
const agent = new Agent({ keepAlive: true, maxSockets: 8 });
const gateway = await gatewayForFile({
  dataDir: directory,
  env: {
    SVC_AUTH_MODE: "bearer_token_or_trusted_headers",
    SVC_TRUSTED_PROXIES: ingress,
    SVC_PROOF_OF_POSSESSION: "mtls",
    SVC_POLICY_DIR: join(directory, "active"),
    SVC_WITNESSES: witness.setting,
    SVC_MAX_BODY_BYTES: "131072",
    SVC_MAX_ARTIFACT_BODY_BYTES: "131072",
  },
  // No collector takes the traces.
  overrides: { limits: { bodyBudgetBytes: 262_144 }, ...tracedBy(nowhere).overrides },
});
afterAll(() => agent.destroy());

test("every metric changes, and each has a value", { timeout: 150_000 }, async () => {
  const route = "/v1/sdk/protection-plan";
  const unfinished: H1Connection[] = [];

  expect(await callFromIngress(route)).toBe(200);

  // Credentials: of no client, of one that is not the ingress, with a certificate that is not the ingress' to forward.
  await refused(route, {});
  await refused(route, identity);
  await refused(route, { authorization: `Bearer ${await gateway.token()}`, "x-svc-mtls-client-certificate": "AAAA" });

  // A retry: answered, and nothing appended.
  const evidence = "/v1/sdk/evidence";
  for (const _ of [1, 2]) expect(await callFromIngress(evidence, { "idempotency-key": "once" })).toBe(200);

  // A body for which its sender's share of the memory has no room.
  const health = ["Content-Type: application/json", "Content-Length: 4000", "Expect: 100-continue"];
  for (const status of [100, 100, 503]) {
    const connection = await h1Connect(gateway.url);
    connection.write(h1Request("POST /grpc.health.v1.Health/Check", health));
    expect(await connection.next()).toMatchObject({ status });
    unfinished.push(connection);
  }
  for (const connection of unfinished) connection.destroy();

  // A store that another process has locked.
  {
    using _ = lockStore(gateway);
    expect(await callFromIngress(route)).toBe(503);
  }

  // Policy, bad and good.
  replaceFile(join(directory, "active/default/more.cedar"), "permit (");
  await gateway.app.reload();
  await rm(join(directory, "active/default/more.cedar"));
  await gateway.app.reload();

  await expect.poll(unmoved, patience).toEqual([]);
  const lines = (await scrape()).split("\n");
  for (const line of [
    `svc_decisions_total{action="protect",allow="true"} 1`,
    `svc_append_batch_records_sum 2`,
    "svc_append_failures_total 1",
    'svc_bodies_refused_total{share="anonymous"} 1',
    "svc_identity_headers_ignored_total 1",
    "svc_forwarded_certificates_ignored_total 1",
    'svc_credentials_refused_total{reason="missing_token"} 2',
    'svc_credentials_refused_total{reason="proof_of_possession_failed"} 1',
    'svc_policy_loads_total{result="refused"} 1',
    "svc_policy_stale 0",
  ]) {
    expect(lines).toContain(line);
  }
});

/**
 * They need certificates, quotas, traces, several issuers and many denials: `monitoring.test.ts`, `quotas.test.ts`,
 * `traces.test.ts`, `issuers.test.ts`, `keycloak.test.ts` and `obligations.test.ts` have those.
 */
const isFedElsewhere =
  /^svc_(?:(?:certificate|quota|trace)_|(?:issuer_overreaches|introspections|tenant_denial_spikes)_)/;

/** Gauges that are 0 while all is well; their last values are compared below. */
const isZeroWhenWell = /^svc_policy_(?:stale|sets_disagreeing)$/;

/** Names of the service's own metrics that are listed as if nothing had ever happened. */
async function unmoved(): Promise<readonly string[]> {
  const untouched = createMetrics({ process: false });
  const [initial, current] = [samplesOf((await untouched.expose()).body), samplesOf(await scrape())];
  expect(current.size).toBeGreaterThan(0);
  return [...current]
    .filter(
      ([name, samples]) => samples === initial.get(name) && !isFedElsewhere.test(name) && !isZeroWhenWell.test(name),
    )
    .map(([name]) => name);
}

/** The samples of each of the service's own metrics, by its name, which stands on a `# HELP` line above them. */
function samplesOf(exposed: string): ReadonlyMap<string, string> {
  const metrics = exposed.split(/^# HELP /m).map((metric) => metric.split("\n"));
  const named = metrics.map(
    ([help = "", _type, ...samples]) => [help.split(" ", 1).join(), samples.join("\n").trim()] as const,
  );
  return new Map(named.filter(([name]) => name.startsWith("svc_")));
}

async function scrape(): Promise<string> {
  return (await fetch(`${gateway.opsUrl}/metrics`)).text();
}

/** Status of a call of a route's sample for the caller whom the ingress names. */
async function callFromIngress(route: string, headers: Record<string, string> = {}): Promise<number | undefined> {
  const outgoing = request(gateway.url + route, {
    method: "POST",
    agent,
    localAddress: ingress,
    headers: { ...identity, "content-type": "application/json", ...headers },
  });
  outgoing.end(JSON.stringify(bodies.get(route)));
  const [response] = (await once(outgoing, "response")) as [IncomingMessage];
  await text(response);
  return response.statusCode;
}

async function refused(route: string, headers: Record<string, string>): Promise<void> {
  expect((await rest(gateway.url + route, { body: bodies.get(route), headers })).status).toBe(401);
}
