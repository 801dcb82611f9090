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
afterAll(() => h2Close(session));

const plan = methodOn("/v1/sdk/protection-plan");
const whoami = methodOn("/v1/sdk/whoami");
const planBody = sampleCalls().find(({ route }) => route === plan.restPath)?.body;
const planBytes = Buffer.from(toBinary(plan.desc.input, requestFromRest(plan, planBody)));

/** What is changed of a request to protection-plan that is good. */
type Change = Partial<H2Call>;
const tooLarge = Buffer.alloc(maxBodyBytes + 1);
const text = (value: string) => Buffer.from(value, "latin1");
const all = (...parts: readonly Uint8Array[]): Change => ({ body: Buffer.concat(parts) });
const one = frame(planBytes);
const malformed = frame(text("\x0f"));
const compressed = frame(gzipSync(planBytes), 1);
/** A message whose frame says that it has so many bytes more than it has. */
const framedAs = (more: number, flags = 0) => frame(planBytes, flags, planBytes.length + more);
const badToken = { authorization: "Bearer x" };

/** What is sent, with the reason and the `grpc-status` that both must answer. */
const refused: readonly (readonly [name: string, status: number, reason: string, change: Change])[] = [
  ...["5", "S", "123456789S", "-1S", "1.5S", "5 S", "1x", "", "5S, 5S"].map(
    (value) =>
      [
        `malformed timeout ${JSON.stringify(value)}`,
        3,
        "invalid_request",
        { headers: { "grpc-timeout": value } },
      ] as const,
  ),
  ["a timeout of zero", 4, "deadline_exceeded", { headers: { "grpc-timeout": "0n" } }],
  [
    "a timeout that passes before the body is there",
    4,
    "deadline_exceeded",
    { headers: { "grpc-timeout": "20m" }, unfinished: true, body: framedAs(1) },
  ],
  ["a body that is too slow", 4, "request_timeout", { unfinished: true, body: framedAs(1) }],
  ["a body that is whole but not ended", 4, "request_timeout", { unfinished: true, body: one }],
  ["no body", 12, "invalid_request", all()],
  ["an empty message", 3, "invalid_request", all(frame(Buffer.alloc(0)))],
  ["two messages", 12, "invalid_request", all(one, one)],
  ["three messages", 12, "invalid_request", all(one, one, one)],
  ["a message and half a header", 3, "invalid_request", all(one, text("\0\0"))],
  ["a message and an incomplete one", 3, "invalid_request", all(one, frame(planBytes, 0, 4000))],
  ["half a header", 3, "invalid_request", all(text("\0\0\0"))],
  ["a length beyond the body", 3, "invalid_request", all(framedAs(1))],
  ["a length short of the body", 3, "invalid_request", all(framedAs(-1))],
  ["a length of 4 GiB", 8, "body_too_large", all(frame(planBytes, 0, 0xffffffff))],
  ["a message over the limit", 8, "body_too_large", all(frame(tooLarge))],
  ["a message at the limit", 3, "invalid_request", all(frame(tooLarge.subarray(1)))],
  ["two messages of which the first is malformed", 3, "invalid_request", all(malformed, one)],
  ["two messages of which the second is malformed", 3, "invalid_request", all(one, malformed)],
  ["two messages of which the second is too large", 8, "body_too_large", all(one, frame(planBytes, 0, 9999))],
  ["the compressed flag without an encoding", 13, "invalid_request", all(compressed)],
  [
    "the compressed flag with identity as the encoding",
    13,
    "invalid_request",
    { headers: { "grpc-encoding": "identity" }, body: compressed },
  ],
  ["the compressed flag on an empty message", 13, "invalid_request", all(frame(Buffer.alloc(0), 1))],
  ["two messages of which the second is compressed", 13, "invalid_request", all(one, compressed)],
  ["the compressed flag on a short frame", 3, "invalid_request", all(framedAs(1, 1))],
  ["all frame flags", 13, "invalid_request", all(frame(planBytes, 255))],
  ["a truncated field", 3, "invalid_request", all(frame(planBytes.subarray(0, -1)))],
  ["a field number of zero", 3, "invalid_request", all(frame(text("\x00\x01")))],
  ["wire type 7", 3, "invalid_request", all(frame(text("\x0f\x01")))],
  ["an overlong varint", 3, "invalid_request", all(frame(Buffer.alloc(11, 0xff)))],
  ["a length of 2 GiB in a field", 3, "invalid_request", all(frame(text("\x12\xff\xff\xff\xff\x07")))],
  ["a string that is not UTF-8", 3, "invalid_request", all(frame(text("\x2a\x03\xff\xfe\xfd")))],
  ["a group that does not end", 3, "invalid_request", all(frame(text("\xfb\x3f\x08\x01")))],
  ["a group that ends nothing", 3, "invalid_request", all(frame(text("\xfc\x3f")))],
  ["a broken rule", 3, "invalid_request", all(frame(text("\x08\x63")))],
  ["no credentials", 16, "missing_token", { headers: { authorization: undefined } }],
  ["bad credentials", 16, "invalid_token", { headers: badToken }],
  ["bad credentials and a malformed timeout", 16, "invalid_token", { headers: { ...badToken, "grpc-timeout": "x" } }],
  ["bad credentials and no body", 16, "invalid_token", { headers: badToken, ...all() }],
  ["bad credentials and an endless body", 16, "invalid_token", { headers: badToken, unfinished: true }],
  ["another tenant's header", 7, "tenant_mismatch", { headers: { "x-svc-tenant-id": "tenant-b" } }],
];

const answered: readonly (readonly [name: string, change: Change])[] = [
  ["a good call", {}],
  ["a good call with trailers", { trailers: { "x-extra": "1" } }],
  ["a good call with +proto", { headers: { "content-type": "application/grpc+proto" } }],
  ["a good call with metadata", { headers: { "x-own": ["a", "b"], "key-bin": "AAEC" } }],
  ["bad base64 in binary metadata", { headers: { "key-bin": "%%%" } }],
  ["identity encoding", { headers: { "grpc-encoding": "identity" } }],
  ["what the caller accepts", { headers: { "grpc-accept-encoding": "gzip,br,identity" } }],
  ["an unknown field in the message", all(frame(Buffer.concat([planBytes, text("\xfa\x3f\x01x")])))],
  ["an unknown group", all(frame(Buffer.concat([planBytes, text("\xfb\x3f\x08\x01\xfc\x3f")])))],
  ["a timeout", { headers: { "grpc-timeout": "5S" } }],
  ["a timeout of eight digits", { headers: { "grpc-timeout": "99999999H" } }],
  ...[2, 4, 128, 254].map((flags) => [`reserved frame flags ${flags}`, all(frame(planBytes, flags))] as const),
];
const cases = [...answered.map(([name, change]) => [name, 0, undefined, change] as const), ...refused];

describe("a bare stream and a request", () => {
  test.each(cases)("answer the same: %s", async (_name, status, reason, change) => {
    const [bare, routed] = await both(change);
    const refusal = refusalInTrailers(bare.trailers);
    expect([bare.trailers["grpc-status"], refusal?.reason]).toEqual([String(status), reason]);
    expect(normal(bare)).toEqual(normal(routed));
  });

  test("answer discovery byte for byte", async () => {
    const [bare, routed] = await both({ path: whoami.rpcPath, body: frame(Buffer.alloc(0)) });
    expect(bare.body.length).toBeGreaterThan(5);
    expect({ ...bare, headers: normal(bare).headers }).toEqual({ ...routed, headers: normal(routed).headers });
  });

  test("answer the same if several messages exceed the limit together: neither reads further", async () => {
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
