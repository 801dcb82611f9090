/** Bulk calls of the TypeScript package against a real gateway, whose receipts it verifies. */
import { describe, expect, onTestFinished, test } from "vitest";
import { type BulkClient, createBulkClient, ItemOutcome } from "../../clients/typescript/src/bulk.ts";
import {
  ArtifactKind,
  ArtifactProfile,
  createRestTransport,
  EvidenceEventType,
  KeyAccessOperation,
  PlatformError,
  ProtectionOperation,
  requireAllow,
  type WorkloadOptions,
  workloadInterceptors,
} from "../../clients/typescript/src/index.ts";
import { createGrpcTransport, createHttpClient } from "../../clients/typescript/src/node.ts";
import { verifyItem, verifyItems, verifyRange } from "../../clients/typescript/src/receipts.ts";
import { gatewayForFile } from "../harness/gateway.ts";
import { logKeyOf } from "../harness/ledger.ts";

const gateway = await gatewayForFile({ env: { SVC_BULK: "on" } });

function options(receipts: WorkloadOptions["receipts"]): WorkloadOptions {
  const tokens = { token: () => gateway.token(), refused: () => {} };
  return { tokens, ...(receipts !== undefined && { receipts }), understoodObligations: ["log-use"] };
}

function overGrpc(receipts?: WorkloadOptions["receipts"]): BulkClient {
  const interceptors = workloadInterceptors(options(receipts));
  const transport = createGrpcTransport({ baseUrl: gateway.url, interceptors });
  onTestFinished(() => transport.close());
  return createBulkClient(transport);
}

function overRest(receipts?: WorkloadOptions["receipts"]): BulkClient {
  const interceptors = workloadInterceptors(options(receipts));
  return createBulkClient(createRestTransport({ baseUrl: gateway.url, http: createHttpClient(), interceptors }));
}

const workload = { application: "payroll-export", environment: "test" };
/** One of them without what may be left out. */
const resources = [{ kind: "customer-record", id: "cust-8841" }, { kind: "report" }];
const protections = resources.map((resource) => ({ operation: ProtectionOperation.PROTECT, workload, resource }));
const accesses = resources.map((resource) => ({ operation: ProtectionOperation.ACCESS, workload, resource }));
const keyAccesses = resources.map((resource) => ({
  operation: KeyAccessOperation.WRAP,
  workload,
  resource,
  keyReference: "kms://tenant-a/keys/42",
}));
const events = resources.map((resource) => ({
  eventType: EvidenceEventType.PROTECT,
  workload,
  resource,
  artifactDigest: `sha256:${"2C".repeat(32)}`,
}));
const registrations = resources.map((resource) => ({
  operation: ProtectionOperation.PROTECT,
  workload,
  resource,
  artifactKind: ArtifactKind.DATA_OBJECT,
  artifactProfile: ArtifactProfile.TDF,
  artifactDigest: `sha256:${"2C".repeat(32)}`,
}));

const keyOf = (origin?: string) => logKeyOf(`${gateway.dataDir}/ledger.key`, origin);

describe.each([
  ["gRPC", overGrpc],
  ["JSON", overRest],
])("over %s", (_name, connect) => {
  test.each(["brief", "whole"] as const)("receipts of items verify, each for its own item: %s", async (receipts) => {
    const client = connect(receipts);
    const decided = [
      [await client.planProtections({ items: protections }), protections],
      [await client.resolvePolicies({ items: accesses }), accesses],
      [await client.planKeyAccesses({ items: keyAccesses }), keyAccesses],
    ] as const;
    for (const [answer, asked] of decided) {
      const [first, second] = answer.items;
      requireAllow(first?.decision, ["log-use"]);
      const key = keyOf(first?.decision?.receipt?.logOrigin);
      const verified = await verifyItems(answer as never, asked as never, key);
      expect(verified.map((one) => one?.record?.record_id)).toEqual(
        answer.items.map(({ decision }) => (receipts === "whole" ? decision?.decisionId : undefined)),
      );
      // One in the other's place is not its own.
      const swapped = { ...answer, items: [second, first] } as never;
      if (receipts === "whole") await expect(verifyItems(swapped, asked as never, key)).rejects.toThrow(/resource/);
    }
    const recorded = await client.recordEvents({ items: events.map((event) => ({ event })) });
    const registered = await client.registerArtifacts({
      items: registrations.map((registration) => ({ registration })),
    });
    const key = keyOf(recorded.items[0]?.ingestion?.receipt?.logOrigin);
    expect(await verifyItems(recorded, events, key)).toHaveLength(2);
    expect(await verifyItems(registered, registrations, key)).toHaveLength(2);
    const keys = [...recorded.items, ...registered.items].map(({ idempotencyKey }) => idempotencyKey);
    expect(new Set(keys).size).toBe(4);
    await expect(verifyItems(recorded, events.slice(1), key)).rejects.toThrow(/as many/);
  });

  test("one receipt covers the whole call if requested", async () => {
    const headers = { "x-svc-receipt": "range" };
    const answer = await connect("whole").recordEvents({ items: events.map((event) => ({ event })) }, { headers });
    const places = await verifyRange(answer, keyOf(answer.receipt?.logOrigin));
    expect(places.map((place) => place?.treeSize)).toEqual(
      [answer.receipt, answer.receipt].map((r) => Number(r?.treeSize)),
    );
  });

  test("a refused item is part of the answer; a refused call is an error", async () => {
    const client = connect("brief");
    const { items } = await client.recordEvents({
      items: [{ event: events[0] as (typeof events)[0] }, { event: { workload } }],
    });
    expect(items.map(({ outcome }) => outcome)).toEqual([ItemOutcome.ANSWERED, ItemOutcome.REFUSED]);
    expect(items[1]?.error).toMatchObject({ reason: "invalid_request" });
    const empty = await client.planProtections({ items: [] }).catch((error: unknown) => error);
    expect(empty).toBeInstanceOf(PlatformError);
    expect(empty).toMatchObject({ reason: "invalid_request", violations: [{ field: "items" }] });
  });
});

test("receipts of acknowledged events verify, each for its own event", async () => {
  const stream = overGrpc("whole").openRegistrationStream();
  const sent = [];
  for (const registration of registrations) sent.push(await stream.send(registration));
  await stream.close();
  const [first, second] = await Promise.all(sent.map(({ result }) => result));
  const key = keyOf(first?.registration?.receipt?.logOrigin);
  for (const [i, result] of [first, second].entries())
    expect(await verifyItem(result as never, registrations[i] as never, key)).toHaveProperty(
      "record.kind",
      "registration",
    );
  await expect(verifyItem(first as never, registrations[1] as never, key)).rejects.toThrow(/resource/);
});
