/** Traces of a whole deployment, as a receiver of OTLP gets them. */
import { join } from "node:path";
import { createClient } from "@connectrpc/connect";
import { createConnectTransport, createGrpcTransport } from "@connectrpc/connect-node";
import { afterAll, afterEach, beforeAll, describe, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { BulkStreamService } from "../../gen/platform/bulk/v1/streams_pb.ts";
import { readKeyFile } from "../../src/stores/files/key-file.ts";
import { wireClients } from "../harness/clients.ts";
import { type Gateway, metricSum, rest, startGateway } from "../harness/gateway.ts";
import { forTest } from "../harness/lifetimes.ts";
import { methodOn, requestFromRest } from "../harness/methods.ts";
import { type OtlpReceiver, type ReceivedSpan, startOtlpReceiver, tracedBy } from "../harness/otlp.ts";
import { startWitness } from "../harness/witness.ts";

const plan = methodOn("/v1/sdk/protection-plan");
const planCall = sampleCalls().find(({ route }) => route === plan.restPath)?.body as Record<string, unknown>;
const traceId = "0af7651916cd43dd8448eb211c80319c";
const parentId = "b7ad6b7169203331";
const sampled = `00-${traceId}-${parentId}-01`;

let receiver: OtlpReceiver;
let gateway: Gateway;
let token: string;
let isRunning = false;

async function start(env: Record<string, string> = {}, settings: Record<string, string> = {}): Promise<void> {
  receiver = await startOtlpReceiver();
  gateway = await startGateway({
    ...tracedBy({ OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url, ...env }),
    ...{ env: settings },
  });
  isRunning = true;
  token = await gateway.token();
}

async function stopGateway(): Promise<void> {
  if (isRunning) await gateway.stop();
  isRunning = false;
}

async function stop(): Promise<void> {
  await stopGateway();
  await receiver?.stop();
}

const ofTrace = (id: string) => receiver.spans.filter((span) => span.traceId === id);
/** The span of the call in the trace, once it is there: it is exported after its parts. */
async function serverSpan(id: string): Promise<ReceivedSpan> {
  const found = () => ofTrace(id).find(({ kind }) => kind === "SPAN_KIND_SERVER");
  await expect.poll(found).toBeDefined();
  return found() as ReceivedSpan;
}
let traces = 0;
/** A trace context of its own, sampled unless said otherwise. */
function context(flags = "01"): { id: string; traceparent: string } {
  traces += 1;
  const id = `${"c".repeat(24)}${traces.toString(16).padStart(8, "0")}`;
  return { id, traceparent: `00-${id}-${parentId}-${flags}` };
}

const connectOverHttp2: typeof createGrpcTransport = (options) =>
  createConnectTransport({ ...options, httpVersion: "2" });

describe("with the defaults", () => {
  beforeAll(() => start({}, { SVC_BULK: "on" }));
  afterAll(stop);

  const expected: Record<string, object> = {
    REST: { "http.request.method": "POST", "http.route": plan.restPath, "http.response.status_code": 200 },
    "Connect JSON": { "rpc.system.name": "connectrpc" },
    "Connect binary": { "rpc.system.name": "connectrpc" },
    "gRPC-Web": { "rpc.system.name": "grpc", "rpc.status_code": "OK" },
    gRPC: { "rpc.system.name": "grpc", "rpc.status_code": "OK" },
    "gRPC of grpc-js": { "rpc.system.name": "grpc", "rpc.status_code": "OK" },
  };

  test("a call on every protocol is a span of the caller's trace, with its parts", async () => {
    for (const client of wireClients(gateway.url)) {
      const { id, traceparent } = context();
      const headers = { authorization: `Bearer ${token}`, traceparent, tracestate: "vendor=value" };
      const outcome = await client.call(plan, requestFromRest(plan, planCall), headers);
      expect(outcome, client.name).toHaveProperty("answer");
      const server = await serverSpan(id);
      const isRest = client.name === "REST";
      expect(server, client.name).toMatchObject({
        name: isRest ? `POST ${plan.restPath}` : plan.rpcPath.slice(1),
        parentSpanId: parentId,
        traceState: "vendor=value",
        status: { code: "STATUS_CODE_UNSET" },
        attributes: {
          ...(expected[client.name] ?? expected["gRPC of grpc-js"]),
          ...(!isRest && { "rpc.method": plan.rpcPath.slice(1) }),
          "svc.rpc": "ProtectionService/PlanProtection",
          "svc.tenant.id": "tenant-a",
          "network.peer.address": "127.0.0.1",
        },
        resource: { "service.name": "svc-platform-api", "telemetry.sdk.language": "nodejs" },
      });
      const parts = ofTrace(id).filter((span) => span !== server);
      expect(parts.map(({ name }) => name)).toEqual(["authenticate", "policy.decide", "ledger.append"]);
      for (const part of parts) {
        expect(part.parentSpanId).toBe(server.spanId);
        expect(part.startNs >= server.startNs && part.endNs <= server.endNs && part.startNs <= part.endNs).toBe(true);
      }
      const append = parts[2] as ReceivedSpan;
      const commit = receiver.spans.find(({ name, links }) => name === "ledger.commit" && links[0]?.traceId === id);
      expect(commit).toMatchObject({ parentSpanId: "", attributes: { "svc.commit.records": 1 } });
      expect(append.links).toEqual([{ traceId: commit?.traceId, spanId: commit?.spanId }]);
    }
  });

  test("streams are spans with the names of their methods, refused ones too", async () => {
    for (const make of [createGrpcTransport, connectOverHttp2]) {
      for (const authorization of [`Bearer ${token}`, "Bearer none"]) {
        const { id, traceparent } = context();
        const client = createClient(BulkStreamService, make({ baseUrl: gateway.url }));
        const ended = (async () => {
          const answers = client.streamEvents((async function* () {})(), { headers: { authorization, traceparent } });
          for await (const _ of answers);
        })();
        await ended.catch(() => {});
        const name = "platform.bulk.v1.BulkStreamService/StreamEvents";
        expect(await serverSpan(id)).toMatchObject({ name, attributes: { "rpc.method": name } });
      }
    }
  });

  test("the log line of a call names its trace, and the decision's span its record", async () => {
    const { id, traceparent } = context();
    const answer = await rest(gateway.url + plan.restPath, { token, body: planCall, headers: { traceparent } });
    const server = await serverSpan(id);
    expect(server.attributes["svc.decision.id"]).toBe(answer.body.decision.receipt.record_id);
    const line = () => gateway.logged.map((text) => JSON.parse(text)).find((fields) => fields.trace_id === id);
    await expect.poll(line).toMatchObject({ message: "request", span_id: server.spanId });
  });

  test("calls that share a commit are linked with one span of it", async () => {
    const ids = await Promise.all(
      Array.from({ length: 8 }, async () => {
        const { id, traceparent } = context();
        await rest(gateway.url + plan.restPath, { token, body: planCall, headers: { traceparent } });
        return id;
      }),
    );
    await Promise.all(ids.map(serverSpan));
    const commits = receiver.spans.filter(({ name }) => name === "ledger.commit");
    for (const id of ids) {
      const [link] = ofTrace(id).find(({ name }) => name === "ledger.append")?.links ?? [];
      const commit = commits.find(({ spanId }) => spanId === link?.spanId);
      expect(commit?.links.map((one) => one.traceId)).toContain(id);
      expect(commit?.attributes["svc.commit.records"]).toBe(commit?.links.length);
    }
  });

  test("reads of cited records and of registrations have spans of their own, without the names of artifacts", async () => {
    const route = "/v1/sdk/artifact-register";
    const registration = sampleCalls().find((call) => call.route === route)?.body as Record<string, unknown>;
    const planned = await rest(gateway.url + plan.restPath, { token, body: planCall });
    const { id, traceparent } = context();
    const body = { ...registration, decision_id: planned.body.decision.receipt.record_id };
    await rest(gateway.url + route, { token, body, headers: { traceparent } });
    await serverSpan(id);
    expect(ofTrace(id).map(({ name }) => name)).toEqual(
      expect.arrayContaining(["authenticate", "ledger.find", "ledger.registrations", "ledger.append"]),
    );
    expect(receiver.bytes.join("")).not.toContain(registration.artifact_digest);
  });

  test("a call that is refused is traced on every protocol", async () => {
    const [headers, reason, status, grpc] = [{ authorization: "Bearer x" }, "invalid_token", 401, "UNAUTHENTICATED"];
    for (const client of wireClients(gateway.url)) {
      const { id, traceparent } = context();
      await client.call(plan, requestFromRest(plan, planCall), { ...headers, traceparent });
      const { attributes, status: spanStatus } = await serverSpan(id);
      expect(attributes["svc.refusal.reason"], client.name).toBe(reason);
      // A fault of the caller's is no error of the server (conventions, "Span status").
      expect(spanStatus.code).toBe("STATUS_CODE_UNSET");
      if (client.name === "REST") expect(attributes["http.response.status_code"]).toBe(status);
      else if (client.name.startsWith("Connect")) expect(attributes["rpc.status_code"]).toBe(grpc.toLowerCase());
      else expect(attributes["rpc.status_code"]).toBe(grpc);
      expect(ofTrace(id).find(({ name }) => name === "authenticate")?.status.message).toBe(reason);
    }
  });

  test("an unknown path or method is in no trace", async () => {
    const nowhere = context();
    await fetch(`${gateway.url}/somebody@example.com`, { headers: { traceparent: nowhere.traceparent } });
    expect(await serverSpan(nowhere.id)).toMatchObject({
      name: "GET",
      attributes: { "http.response.status_code": 404 },
    });
    const unknown = context();
    await fetch(`${gateway.url}/some.Secret/Method`, {
      method: "POST",
      headers: { traceparent: unknown.traceparent, "content-type": "application/grpc+proto" },
    });
    const span = await serverSpan(unknown.id);
    expect(span).toMatchObject({ name: "grpc", attributes: { "rpc.method": "_OTHER" } });
    expect(receiver.bytes.join("")).not.toMatch(/somebody@example\.com|some\.Secret/);
  });

  test("no token, label, attribute, key reference or baggage is in a trace", async () => {
    const { id, traceparent } = context();
    const body = {
      ...planCall,
      labels: ["secret-label"],
      attributes: { secretname: "secretvalue" },
      key_reference: undefined,
    };
    const headers = { traceparent, baggage: "user=secret-baggage", "x-request-id": "secret-request" };
    await rest(`${gateway.url}${plan.restPath}?secret-query`, { token, body, headers });
    await serverSpan(id);
    const all = receiver.bytes.join("");
    expect(all).not.toMatch(/secret/);
    expect(all).not.toContain(token.split(".")[2]);
    expect(receiver.requests.some((sent) => "baggage" in sent || "traceparent" in sent)).toBe(false);
  });

  test("malformed trace context is ignored, and the call is answered", async () => {
    const malformed = [
      ...[sampled.toUpperCase(), `${sampled}-more`, sampled.slice(1), sampled.slice(0, -1), `ff${sampled.slice(2)}`],
      ...[`00-${"0".repeat(32)}-${parentId}-01`, `00-${traceId}-${"0".repeat(16)}-01`, `${sampled}, ${sampled}`],
      ...[`0${sampled}`, "-", "", "x".repeat(8000)],
    ];
    const before = receiver.spans.length;
    for (const traceparent of malformed) {
      const headers = { traceparent, tracestate: "0123456789abcdef".repeat(40) };
      expect((await rest(`${gateway.url}/v1/sdk/whoami`, { token, headers })).status).toBe(200);
    }
    const isServer = ({ kind }: ReceivedSpan) => kind === "SPAN_KIND_SERVER";
    const own = () => receiver.spans.slice(before).filter(isServer);
    await expect.poll(() => own().length).toBe(malformed.length);
    for (const span of own())
      expect(span).toMatchObject({
        parentSpanId: "",
        traceState: "",
        traceId: expect.stringMatching(/^[0-9a-f]{32}$/),
      });
  });

  test("a caller that declines tracing has no trace, and health probes have none", async () => {
    const unwanted = context("00");
    await rest(`${gateway.url}/v1/sdk/whoami`, { token, headers: { traceparent: unwanted.traceparent } });
    const probe = context();
    await fetch(`${gateway.url}/grpc.health.v1.Health/Check`, {
      method: "POST",
      headers: { "content-type": "application/json", traceparent: probe.traceparent },
      body: "{}",
    });
    const { id, traceparent } = context();
    await rest(`${gateway.url}/v1/sdk/whoami`, { token, headers: { traceparent } });
    await serverSpan(id);
    expect([...ofTrace(unwanted.id), ...ofTrace(probe.id)]).toEqual([]);
  });
});

describe("with none of its own traces sampled", () => {
  beforeAll(() => start({ OTEL_TRACES_SAMPLER: "parentbased_traceidratio", OTEL_TRACES_SAMPLER_ARG: "0" }));
  afterAll(stop);

  test("a caller's sampling decision counts after authentication, and a stranger's never", async () => {
    const stranger = context();
    await rest(gateway.url + plan.restPath, { body: planCall, headers: { traceparent: stranger.traceparent } });
    const forged = context();
    await rest(gateway.url + plan.restPath, {
      ...{ token: "x.y.z", body: planCall },
      headers: { traceparent: forged.traceparent },
    });
    const unasked = rest(gateway.url + plan.restPath, { token, body: planCall });
    expect((await unasked).status).toBe(200);
    const { id, traceparent } = context();
    await rest(gateway.url + plan.restPath, { token, body: planCall, headers: { traceparent } });
    await serverSpan(id);
    await stopGateway();
    expect(new Set(receiver.spans.map((span) => span.traceId)).size).toBe(2);
    expect(ofTrace(id).map(({ name }) => name)).toContain("ledger.append");
    // The log has ids of all of them.
    const ids = gateway.logged.map((text) => JSON.parse(text).trace_id);
    expect(ids).toEqual(expect.arrayContaining([stranger.id, forged.id, id]));
  });
});

describe("the collector", () => {
  afterEach(stop);

  const outcomes = async () => {
    const value = (result: string) => metricSum(gateway, new RegExp(`^svc_trace_spans_total\\{result="${result}"\\}`));
    return { exported: await value("exported"), dropped: await value("dropped"), failed: await value("failed") };
  };
  const whoAmI = () => rest(`${gateway.url}/v1/sdk/whoami`, { token });
  const warnings = () => gateway.logged.filter((line) => line.includes("traces cannot be exported"));

  test("refuses: calls are answered, spans are counted, and one line is logged", async () => {
    await start();
    receiver.answer = (response) => void response.writeHead(400).end("a secret of the collector's");
    for (let call = 0; call < 5; call++) expect((await whoAmI()).status).toBe(200);
    await expect.poll(async () => (await outcomes()).failed).toBe(10);
    expect(warnings()).toHaveLength(1);
    expect(JSON.parse(warnings()[0] as string)).toMatchObject({
      level: "warn",
      problem: "the collector answers 400",
    });
    receiver.answer = undefined;
    await whoAmI();
    await expect.poll(async () => (await outcomes()).exported).toBe(2);
    expect(gateway.logged.some((line) => line.includes("traces are exported again"))).toBe(true);
  });

  test("does not answer: spans beyond the queue are dropped and counted, and shutdown keeps its grace period", async () => {
    const queue = { OTEL_BSP_MAX_QUEUE_SIZE: "8", OTEL_BSP_MAX_EXPORT_BATCH_SIZE: "4" };
    await start(queue, { SVC_SHUTDOWN_GRACE_MS: "1000" });
    const held: unknown[] = [];
    receiver.answer = (response) => held.push(response);
    const answers = await Promise.all(Array.from({ length: 40 }, whoAmI));
    expect(answers.every(({ status }) => status === 200)).toBe(true);
    // One batch is under way, and the queue is full.
    await expect.poll(outcomes).toEqual({ exported: 0, dropped: 80 - 4 - 8, failed: 0 });
    await stopGateway();
    expect(held.length).toBeGreaterThan(0);
  });

  test("gets the queued spans when the service stops, compressed if configured", async () => {
    const waits = { OTEL_BSP_SCHEDULE_DELAY: "600000", OTEL_EXPORTER_OTLP_COMPRESSION: "gzip" };
    await start({
      ...waits,
      OTEL_SERVICE_NAME: "named",
      OTEL_RESOURCE_ATTRIBUTES: "deployment.environment.name=te%20st",
    });
    await whoAmI();
    expect(receiver.spans).toEqual([]);
    await stopGateway();
    expect(receiver.spans.map(({ name }) => name)).toEqual(["authenticate", "GET /v1/sdk/whoami"]);
    expect(receiver.requests[0]).toMatchObject({ "content-encoding": "gzip" });
    expect(receiver.spans[0]?.resource).toMatchObject({
      ...{ "service.name": "named", "deployment.environment.name": "te st" },
      ...{ "service.version": expect.any(String), "service.instance.id": expect.any(String) },
    });
  });
});

test("exchanges with witnesses are parts of their commit's span", async () => {
  let dataDir = "";
  const logKeys = () => (readKeyFile(join(dataDir, "ledger.key")) ?? []).map(({ publicKey }) => publicKey);
  const witness = await forTest(startWitness({ logKeys }));
  receiver = await forTest(startOtlpReceiver());
  gateway = await startGateway({
    ...tracedBy({ OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url }),
    env: { SVC_WITNESSES: witness.setting, SVC_WITNESS_QUORUM: "1" },
  });
  dataDir = gateway.dataDir;
  const answer = await rest(gateway.url + plan.restPath, { token: await gateway.token(), body: planCall });
  expect(answer.status).toBe(200);
  await gateway.stop();
  const named = (wanted: string) => receiver.spans.find(({ name }) => name === wanted);
  const [commit, waiting, exchange] = ["ledger.commit", "ledger.witnesses", "witness.add_checkpoint"].map(named);
  expect(waiting).toMatchObject({ traceId: commit?.traceId, parentSpanId: commit?.spanId });
  expect(exchange).toMatchObject({
    ...{ kind: "SPAN_KIND_CLIENT", traceId: commit?.traceId, parentSpanId: waiting?.spanId },
    attributes: { "svc.witness.name": "witness.example/w1", "svc.witness.answer": "cosigned" },
  });
});
