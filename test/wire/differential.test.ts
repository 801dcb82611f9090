/**
 * gRPC over a bare stream against gRPC over fastify, on one server: `application/grpc` is taken as a stream, while
 * `Application/grpc` becomes a request. Whatever is sent, both answer the same. `stock-handlers.test.ts` compares with
 * Connect's own handlers.
 */
import type { OutgoingHttpHeaders } from "node:http2";
import { gzipSync } from "node:zlib";
import { toBinary } from "@bufbuild/protobuf";
import { afterAll, describe, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { gatewayForFile } from "../harness/gateway.ts";
import { frame, refusalInTrailers } from "../harness/grpc.ts";
import { type H2Answer, type H2Call, h2Call, h2Close, h2Connect } from "../harness/h2.ts";
import { methodOn, requestFromRest } from "../harness/methods.ts";

const maxBodyBytes = 4096;

const gateway = await gatewayForFile({
  env: { SVC_MAX_BODY_BYTES: String(maxBodyBytes) },
  overrides: { limits: { bodyTimeoutMs: 100, maxDeadlineMs: 1_000 } },
});
const session = await h2Connect(gateway.url);
const token = await gateway.token();
const weakToken = await gateway.token({ scope: "platform-api.access" });
afterAll(() => h2Close(session));

const plan = methodOn("/v1/sdk/protection-plan");
const whoami = methodOn("/v1/sdk/whoami");
const planBody = sampleCalls().find(({ route }) => route === plan.restPath)?.body;
const planBytes = Buffer.from(toBinary(plan.desc.input, requestFromRest(plan, planBody)));

/** A request to protection-plan that is good but for what the case changes. */
interface Case extends Partial<H2Call> {
  readonly name: string;
  /** `grpc-status` that both must answer. */
  readonly status: number;
  readonly reason?: string;
}

const tooLarge = Buffer.alloc(maxBodyBytes + 1);
const text = (value: string) => Buffer.from(value, "latin1");

const cases: readonly Case[] = [
  { name: "a good call", status: 0 },
  { name: "a good call with trailers", status: 0, trailers: { "x-extra": "1" } },
  { name: "a good call with +proto", status: 0, headers: { "content-type": "application/grpc+proto" } },
  { name: "a good call with metadata", status: 0, headers: { "x-own": ["a", "b"], "key-bin": "AAEC" } },
  { name: "bad base64 in binary metadata", status: 0, headers: { "key-bin": "%%%" } },
  { name: "identity encoding", status: 0, headers: { "grpc-encoding": "identity" } },
  { name: "what the caller accepts", status: 0, headers: { "grpc-accept-encoding": "gzip,br,identity" } },
  {
    name: "an unknown field in the message",
    status: 0,
    body: frame(Buffer.concat([planBytes, text("\xfa\x3f\x01x")])),
  },
  { name: "a timeout", status: 0, headers: { "grpc-timeout": "5S" } },
  { name: "a timeout of eight digits", status: 0, headers: { "grpc-timeout": "99999999H" } },
  ...["5", "S", "123456789S", "-1S", "1.5S", "5 S", "1x", "", "5S, 5S"].map((value) => ({
    name: `malformed timeout ${JSON.stringify(value)}`,
    status: 3,
    reason: "invalid_request",
    headers: { "grpc-timeout": value },
  })),
  { name: "a timeout of zero", status: 4, reason: "deadline_exceeded", headers: { "grpc-timeout": "0n" } },
  {
    name: "a timeout that passes before the body is there",
    status: 4,
    headers: { "grpc-timeout": "20m" },
    unfinished: true,
    body: frame(planBytes, 0, planBytes.length + 1),
    reason: "deadline_exceeded",
  },
  {
    name: "a body that is too slow",
    status: 4,
    unfinished: true,
    body: frame(planBytes, 0, planBytes.length + 1),
    reason: "request_timeout",
  },
  {
    name: "a body that is whole but not ended",
    status: 4,
    unfinished: true,
    body: frame(planBytes),
    reason: "request_timeout",
  },
  { name: "no body", status: 12, body: Buffer.alloc(0), reason: "invalid_request" },
  { name: "an empty message", status: 3, body: frame(Buffer.alloc(0)), reason: "invalid_request" },
  {
    name: "two messages",
    status: 12,
    body: Buffer.concat([frame(planBytes), frame(planBytes)]),
    reason: "invalid_request",
  },
  {
    name: "a message and half a header",
    status: 3,
    body: Buffer.concat([frame(planBytes), text("\0\0")]),
    reason: "invalid_request",
  },
  {
    name: "a message and an incomplete one",
    status: 3,
    body: Buffer.concat([frame(planBytes), frame(planBytes, 0, 4000)]),
    reason: "invalid_request",
  },
  { name: "half a header", status: 3, body: text("\0\0\0"), reason: "invalid_request" },
  {
    name: "a length beyond the body",
    status: 3,
    body: frame(planBytes, 0, planBytes.length + 1),
    reason: "invalid_request",
  },
  {
    name: "a length short of the body",
    status: 3,
    body: frame(planBytes, 0, planBytes.length - 1),
    reason: "invalid_request",
  },
  { name: "a length of 4 GiB", status: 8, body: frame(planBytes, 0, 0xffffffff), reason: "body_too_large" },
  { name: "a message over the limit", status: 8, body: frame(tooLarge), reason: "body_too_large" },
  { name: "a message at the limit", status: 3, body: frame(tooLarge.subarray(1)), reason: "invalid_request" },
  {
    name: "two messages of which the first is malformed",
    status: 3,
    body: Buffer.concat([frame(text("\x0f")), frame(planBytes)]),
    reason: "invalid_request",
  },
  {
    name: "two messages of which the second is malformed",
    status: 3,
    body: Buffer.concat([frame(planBytes), frame(text("\x0f"))]),
    reason: "invalid_request",
  },
  {
    name: "two messages of which the second is too large",
    status: 8,
    body: Buffer.concat([frame(planBytes), frame(planBytes, 0, 9999)]),
    reason: "body_too_large",
  },
  {
    name: "the compressed flag without an encoding",
    status: 13,
    body: frame(gzipSync(planBytes), 1),
    reason: "invalid_request",
  },
  {
    name: "the compressed flag with identity as the encoding",
    status: 13,
    headers: { "grpc-encoding": "identity" },
    body: frame(gzipSync(planBytes), 1),
    reason: "invalid_request",
  },
  {
    name: "the compressed flag on an empty message",
    status: 13,
    body: frame(Buffer.alloc(0), 1),
    reason: "invalid_request",
  },
  {
    name: "two messages of which the second is compressed",
    status: 13,
    body: Buffer.concat([frame(planBytes), frame(gzipSync(planBytes), 1)]),
    reason: "invalid_request",
  },
  {
    name: "three messages",
    status: 12,
    body: Buffer.concat([frame(planBytes), frame(planBytes), frame(planBytes)]),
    reason: "invalid_request",
  },
  {
    name: "the compressed flag on a short frame",
    status: 3,
    body: frame(planBytes, 1, planBytes.length + 1),
    reason: "invalid_request",
  },
  ...[2, 4, 128, 254].map((flags) => ({
    name: `reserved frame flags ${flags}`,
    status: 0,
    body: frame(planBytes, flags),
  })),
  { name: "all frame flags", status: 13, body: frame(planBytes, 255), reason: "invalid_request" },
  { name: "a truncated field", status: 3, body: frame(planBytes.subarray(0, -1)), reason: "invalid_request" },
  { name: "a field number of zero", status: 3, body: frame(text("\x00\x01")), reason: "invalid_request" },
  { name: "wire type 7", status: 3, body: frame(text("\x0f\x01")), reason: "invalid_request" },
  { name: "an overlong varint", status: 3, body: frame(Buffer.alloc(11, 0xff)), reason: "invalid_request" },
  {
    name: "a length of 2 GiB in a field",
    status: 3,
    body: frame(text("\x12\xff\xff\xff\xff\x07")),
    reason: "invalid_request",
  },
  {
    name: "a string that is not UTF-8",
    status: 3,
    body: frame(text("\x2a\x03\xff\xfe\xfd")),
    reason: "invalid_request",
  },
  { name: "a group that does not end", status: 3, body: frame(text("\xfb\x3f\x08\x01")), reason: "invalid_request" },
  { name: "a group that ends nothing", status: 3, body: frame(text("\xfc\x3f")), reason: "invalid_request" },
  { name: "an unknown group", status: 0, body: frame(Buffer.concat([planBytes, text("\xfb\x3f\x08\x01\xfc\x3f")])) },
  { name: "a broken rule", status: 3, body: frame(text("\x08\x63")), reason: "invalid_request" },
  { name: "no credentials", status: 16, headers: { authorization: undefined }, reason: "missing_token" },
  { name: "bad credentials", status: 16, headers: { authorization: "Bearer x" }, reason: "invalid_token" },
  {
    name: "no credentials and a malformed timeout",
    status: 16,
    headers: { authorization: "Bearer x", "grpc-timeout": "x" },
    reason: "invalid_token",
  },
  {
    name: "no credentials and no body",
    status: 16,
    headers: { authorization: "Bearer x" },
    body: Buffer.alloc(0),
    reason: "invalid_token",
  },
  {
    name: "no credentials and an endless body",
    status: 16,
    headers: { authorization: "Bearer x" },
    unfinished: true,
    reason: "invalid_token",
  },
  { name: "another tenant's header", status: 7, headers: { "x-svc-tenant-id": "tenant-b" }, reason: "tenant_mismatch" },
];

describe("a bare stream and a request", () => {
  test.each(cases)("answer the same: $name", async ({ status, reason, name: _, ...call }) => {
    const [bare, routed] = await both(call);
    const refusal = refusalInTrailers(bare.trailers);
    expect({ status: bare.trailers["grpc-status"], reason: refusal?.reason }).toEqual({
      status: String(status),
      reason,
    });
    expect(normal(bare)).toEqual(normal(routed));
  });

  test("answer the same: a missing scope", async () => {
    const [bare, routed] = await both({ headers: { authorization: `Bearer ${weakToken}` } });
    expect(refusalInTrailers(bare.trailers)).toMatchObject({
      reason: "missing_scope",
      missingScopes: "policy.read",
    });
    expect(normal(bare)).toEqual(normal(routed));
  });

  test("answer discovery byte for byte", async () => {
    const [bare, routed] = await both({ path: whoami.rpcPath, body: frame(Buffer.alloc(0)) });
    expect(bare.body.length).toBeGreaterThan(5);
    expect({ ...bare, headers: normal(bare).headers }).toEqual({ ...routed, headers: normal(routed).headers });
  });

  test("answer the same: no such method", async () => {
    const [bare, routed] = await both({ path: "/platform.sdk.v1.ProtectionService/Nothing" });
    expect(refusalInTrailers(bare.trailers)).toMatchObject({ code: "unimplemented", reason: "no_route" });
    expect(normal(bare)).toEqual(normal(routed));
  });

  test("answer the same where several messages exceed the limit of one together: neither reads further", async () => {
    const [bare, routed] = await both({ body: Buffer.concat([frame(planBytes), frame(Buffer.alloc(maxBodyBytes))]) });
    expect(refusalInTrailers(bare.trailers)).toMatchObject({ reason: "body_too_large" });
    expect(refusalInTrailers(routed.trailers)).toMatchObject({ reason: "body_too_large" });
  });
});

async function both(call: Partial<H2Call>): Promise<[H2Answer, H2Answer]> {
  const type = String(call.headers?.["content-type"] ?? "application/grpc");
  return [await send(call, type), await send(call, type.replace("application", "Application"))];
}

function send({ headers, ...call }: Partial<H2Call>, type: string): Promise<H2Answer> {
  const all: OutgoingHttpHeaders = {
    te: "trailers",
    authorization: `Bearer ${token}`,
    "x-request-id": "same-for-both",
    // Each record has a receipt of its own.
    "x-svc-receipt": "none",
    ...headers,
    "content-type": type,
  };
  for (const name of Object.keys(all)) if (all[name] === undefined) delete all[name];
  return h2Call(session, { path: plan.rpcPath, body: frame(planBytes), ...call, headers: all });
}

/** An answer without what may differ between two calls: the time, and the id of the decision. */
function normal({ headers, body, ...rest }: H2Answer) {
  const { date: _, ...others } = headers;
  const id = /[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/g;
  return { ...rest, headers: others, body: body.toString("latin1").replace(id, "ID") };
}
