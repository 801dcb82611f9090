/**
 * Unary calls of every protocol against Connect's stock plugin for fastify, over the same implementation, gate and rules: whatever is
 * sent, both answer the same. If Connect itself refuses a message, only the code is compared, because its words differ.
 */
import { brotliCompressSync, gzipSync } from "node:zlib";
import { create, toBinary, toJsonString } from "@bufbuild/protobuf";
import type { HandlerContext } from "@connectrpc/connect";
import fastify, { type FastifyInstance } from "fastify";
import { afterAll, describe, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { DiscoveryService, WhoAmIRequestSchema } from "../../gen/platform/sdk/v1/discovery_pb.ts";
import {
  type PlanProtectionRequest,
  PlanProtectionRequestSchema,
  ProtectionService,
} from "../../gen/platform/sdk/v1/protection_pb.ts";
import { ServiceError } from "../../src/base/errors.ts";
import { inboundOf } from "../../src/http/inbound-request.ts";
import { beginCall, callerOf } from "../../src/transport/calls/call.ts";
import { bind } from "../../src/transport/calls/methods.ts";
import { createServer } from "../../src/transport/server.ts";
import { bareServer } from "../harness/bare-server.ts";
import { frame, refusalInConnect, refusalInTrailers, refusalInWeb, type WireRefusal } from "../harness/grpc.ts";
import { type H2Answer, type H2Call, h2Call, h2Close, h2Connect } from "../harness/h2.ts";
import { methodOn, requestFromRest } from "../harness/methods.ts";
import { registerStock } from "../harness/stock-plugin.ts";

const maxBodyBytes = 4096;
const requestId = "same-for-both";

const plan = methodOn("/v1/sdk/protection-plan");
const whoAmI = methodOn("/v1/sdk/whoami");
const sample = sampleCalls().find(({ route }) => route === plan.restPath)?.body ?? {};

/** Answers with what came in, in every part of an answer; fails if the purpose says so. */
const protection = {
  planProtection(request: PlanProtectionRequest, context: HandlerContext) {
    context.responseHeader.set("x-own-header", "header");
    context.responseTrailer.set("x-own-trailer", "trailer");
    if (request.purpose === "refuse")
      throw new ServiceError("store_unavailable", "the store is away", { retryAfterSeconds: 2 });
    if (request.purpose === "fail") throw new TypeError("undefined is not a function");
    return { service: `${callerOf(context).tenantId} ${request.purpose} é` };
  },
  resolvePolicy: () => ({}),
  planKeyAccess: () => ({}),
};
const discovery = {
  whoAmI: (_request: unknown, context: HandlerContext) => ({ service: callerOf(context).tenantId }),
  getCapabilities: () => ({}),
  getBootstrap: () => ({}),
};

const options = bareServer([bind(ProtectionService, protection), bind(DiscoveryService, discovery)], (authorization) =>
  authorization === "Bearer good" ? "tenant" : undefined,
);
const ours = await createServer(options);
const { port } = await ours.listen("127.0.0.1", 0);
const stock = fastify({ http2: true }) as unknown as FastifyInstance;
stock.addHook("onRequest", async (request) => {
  request.call = beginCall(inboundOf(request.raw), options);
});
registerStock(stock, options.methods, options);
const urls = [`http://127.0.0.1:${port}`, await stock.listen({ host: "127.0.0.1", port: 0 })];
const sessions = await Promise.all(urls.map((url) => h2Connect(url)));
afterAll(async () => {
  await Promise.all(sessions.map(h2Close));
  await stock.close();
  await ours.close(1_000);
});

type Codec = "proto" | "json";
type Encoding = "gzip" | "br" | undefined;

interface Form {
  readonly name: string;
  readonly type: string;
  readonly codec: Codec;
  readonly isFramed: boolean;
  readonly encoding: Encoding;
}

const squeezed = (bytes: Uint8Array, encoding: Encoding): Buffer => {
  if (encoding === "gzip") return gzipSync(bytes);
  return encoding === "br" ? brotliCompressSync(bytes) : Buffer.from(bytes);
};

const encodings: readonly Encoding[] = [undefined, "gzip", "br"];
const forms: readonly Form[] = (
  [
    ["application/grpc", "proto", true],
    ["Application/gRPC+proto", "proto", true],
    ["application/grpc+json", "json", true],
    ["application/grpc-web", "proto", true],
    ["application/grpc-web+json", "json", true],
    ["application/proto", "proto", false],
    ["application/json", "json", false],
    ["application/json; charset=utf-8", "json", false],
  ] as const
).flatMap(([type, codec, isFramed]) =>
  encodings.map((encoding) => ({ name: `${type} ${encoding ?? ""}`, type, codec, isFramed, encoding })),
);

/** The body of a request with these messages. */
function bodyOf({ isFramed, encoding }: Form, messages: readonly Uint8Array[]): Buffer {
  const parts = messages.map((message) => squeezed(message, encoding));
  return Buffer.concat(isFramed ? parts.map((part) => frame(part, encoding === undefined ? 0 : 1)) : parts);
}

function headersOf({ type, isFramed, encoding }: Form): Record<string, string> {
  const encodingHeader = isFramed ? "grpc-encoding" : "content-encoding";
  return {
    te: "trailers",
    authorization: "Bearer good",
    "x-request-id": requestId,
    // Our answers are never compressed.
    [isFramed ? "grpc-accept-encoding" : "accept-encoding"]: "identity",
    "content-type": type,
    ...(encoding !== undefined && { [encodingHeader]: encoding }),
  };
}

function messageOf(codec: Codec, members: object = {}): Buffer {
  const message = requestFromRest(plan, { ...sample, ...members });
  return codec === "json"
    ? Buffer.from(toJsonString(PlanProtectionRequestSchema, message as PlanProtectionRequest))
    : Buffer.from(toBinary(plan.desc.input, message));
}

async function both(call: H2Call): Promise<[ours: H2Answer, stock: H2Answer]> {
  const [first, second] = await Promise.all(sessions.map((session) => h2Call(session, call)));
  return [first as H2Answer, second as H2Answer];
}

/** Asks both, and expects the same answer. Returns ours. */
async function expectSame(call: H2Call): Promise<ReturnType<typeof essence>> {
  const [own, stocks] = (await both(call)).map(essence) as [ReturnType<typeof essence>, ReturnType<typeof essence>];
  if (stocks.refusal === undefined || stocks.refusal.reason !== "none") expect(own).toEqual(stocks);
  else
    expect({ status: own.status, code: own.refusal?.code }).toEqual({
      status: stocks.status,
      code: stocks.refusal.code,
    });
  return own;
}

/** What both must answer: not the date, and what only ours adds to every answer. */
function essence({ status, headers, trailers, body }: H2Answer) {
  const type = String(headers["content-type"] ?? "");
  const refusal = refusalIn(type, status, trailers, body);
  const named = Object.entries({ ...headers, ...trailers });
  const own = Object.fromEntries(named.filter(([name]) => /^(trailer-)?x-own-|www-auth|retry-/.test(name)));
  if (refusal !== undefined) return { status, type, own, refusal };
  const { "grpc-status": grpcStatus } = trailers;
  return { status, type, own, grpcStatus, body: normalBody(type, body) };
}

/** Trailers of gRPC-Web have no order. */
function normalBody(type: string, body: Buffer): string {
  const text = body.toString("latin1");
  if (!type.startsWith("application/grpc-web")) return text;
  const end = 5 + body.readUInt32BE(1);
  return (
    text.slice(0, end) +
    text
      .slice(end + 5)
      .split("\r\n")
      .sort()
      .join("\r\n")
  );
}

function refusalIn(
  type: string,
  status: number,
  trailers: H2Answer["trailers"],
  body: Buffer,
): WireRefusal | undefined {
  if (type.startsWith("application/grpc-web")) return refusalInWeb(body);
  if (type.startsWith("application/grpc")) return refusalInTrailers(trailers);
  return status === 200 ? undefined : refusalInConnect(body.toString());
}

describe.each(forms)("$name", (form) => {
  const { codec, isFramed } = form;
  const ask = (messages: readonly Uint8Array[], headers: object = {}, method = "POST") =>
    expectSame({
      path: plan.rpcPath,
      method,
      headers: { ...headersOf(form), ...headers },
      body: bodyOf(form, messages),
    });
  const good = messageOf(codec);
  const nothingJson = Buffer.from("{}");

  test("answers a valid call the same", async () => {
    const { refusal, own } = await ask([good]);
    expect(refusal).toBeUndefined();
    expect(own).toMatchObject({ "x-own-header": "header" });
  });

  test("refuses an invalid message, and an empty one, the same", async () => {
    expect(await ask([messageOf(codec, { workload: { application: "" } })])).toMatchObject({
      refusal: { code: "invalid_argument", reason: "invalid_request" },
    });
    await ask([codec === "json" ? nothingJson : Buffer.alloc(0)]);
  });

  test("reports a refusal and a defect of the handler the same", async () => {
    expect(await ask([messageOf(codec, { purpose: "refuse" })])).toMatchObject({
      refusal: { reason: "store_unavailable", retryAfterSeconds: 2 },
    });
    expect(await ask([messageOf(codec, { purpose: "fail" })])).toMatchObject({ refusal: { reason: "internal" } });
  });

  test("refuses credentials and headers the same", async () => {
    expect(await ask([good], { authorization: "Bearer bad" })).toMatchObject({ refusal: { reason: "invalid_token" } });
    expect(await ask([good], { "x-svc-receipt": "some" })).toMatchObject({ refusal: { reason: "invalid_request" } });
    await ask([Buffer.from("\x0f\x01")], { authorization: "Bearer bad" });
  });

  test("enforces time limits the same", async () => {
    const name = isFramed ? "grpc-timeout" : "connect-timeout-ms";
    for (const value of [isFramed ? "5S" : "5000", "x", "-1", "", "12345678901", "1e3", "29987.336"])
      await ask([good], { [name]: value });
  });

  test("refuses unsupported encodings the same", async () => {
    const name = isFramed ? "grpc-encoding" : "content-encoding";
    for (const value of ["deflate", "identity, gzip", "GZIP"])
      expect(await ask([good], { [name]: value })).toMatchObject({ refusal: { code: "unimplemented" } });
  });

  test("refuses messages over the limit, as sent or decompressed, the same", async () => {
    expect(await ask([Buffer.alloc(maxBodyBytes + 1, "a")])).toMatchObject({ refusal: { code: "resource_exhausted" } });
  });

  test("refuses other counts of messages than one the same", async () => {
    await ask([]);
    if (!isFramed) return;
    expect(await ask([good, good])).toMatchObject({ refusal: { code: "unimplemented" } });
    await expectSame({ path: plan.rpcPath, headers: headersOf(form), body: frame(good, 0, good.byteLength + 1) });
    await expectSame({ path: plan.rpcPath, headers: headersOf(form), body: Buffer.from("\0\0\0") });
    await expectSame({ path: plan.rpcPath, headers: headersOf(form), body: frame(good) });
    if (form.encoding === undefined)
      await expectSame({ path: plan.rpcPath, headers: headersOf(form), body: frame(gzipSync(good), 1) });
  });

  test("refuses bytes that are no message the same", async () => {
    for (const text of codec === "json"
      ? ["{", "[]", '{"nothing":1}', '{"purpose":1}', "\xff"]
      : ["\x0f\x01", "\x2a\x03\xff\xfe"]) {
      const body = bodyOf(form, [Buffer.from(text, "latin1")]);
      const [own] = await both({ path: plan.rpcPath, headers: headersOf(form), body });
      // Connect reports malformed binary as internal.
      expect(essence(own).refusal).toMatchObject({ code: "invalid_argument", reason: "invalid_request" });
    }
    if (form.encoding !== undefined) {
      const body = isFramed ? frame(good, 1) : good;
      const [own, stocks] = (await both({ path: plan.rpcPath, headers: headersOf(form), body })).map(essence);
      expect(own?.refusal).toMatchObject({ code: "invalid_argument" });
      // Connect reports bytes that end early as internal.
      expect(["invalid_argument", "internal"]).toContain(stocks?.refusal?.code);
    }
  });
});

const text = (value: string) => Buffer.from(value, "latin1");
const planBytes = messageOf("proto");
const one = frame(planBytes);
const malformed = frame(text("\x0f"));
const zipped = frame(gzipSync(planBytes), 1);
const tooLarge = Buffer.alloc(maxBodyBytes + 1);
/** A message whose frame says that it has so many bytes more than it has. */
const framedAs = (more: number, flags = 0) => frame(planBytes, flags, planBytes.length + more);
const invalid = { code: "invalid_argument", reason: "invalid_request" };
const unimplemented = { code: "unimplemented", reason: "invalid_request" };
const large = { code: "resource_exhausted", reason: "body_too_large" };
const internal = { code: "internal", reason: "invalid_request" };

/** What is sent over gRPC, and the refusal. */
const sent: [name: string, refusal: object | undefined, parts: Uint8Array[], headers?: H2Call["headers"]][] = [
  ["an unknown field in the message", undefined, [frame(Buffer.concat([planBytes, text("\xfa\x3f\x01x")]))]],
  ["an unknown group", undefined, [frame(Buffer.concat([planBytes, text("\xfb\x3f\x08\x01\xfc\x3f")]))]],
  ["identity encoding", undefined, [one], { "grpc-encoding": "identity" }],
  ["metadata, some of it bad base64", undefined, [one], { "x-own": ["a", "b"], "key-bin": "%%%" }],
  ["three messages", unimplemented, [one, one, one]],
  ["a message and half a header", invalid, [one, text("\0\0")]],
  ["a message and an incomplete one", invalid, [one, frame(planBytes, 0, 4000)]],
  ["a length short of the body", invalid, [framedAs(-1)]],
  ["a length of 4 GiB", large, [frame(planBytes, 0, 0xffffffff)]],
  ["a message at the limit", invalid, [frame(tooLarge.subarray(1))]],
  ["two messages of which the first is malformed", invalid, [malformed, one]],
  ["two messages of which the second is malformed", invalid, [one, malformed]],
  ["two messages of which the second is too large", large, [one, frame(planBytes, 0, 9999)]],
  ["several messages that exceed the limit together", large, [one, frame(Buffer.alloc(maxBodyBytes))]],
  ["the compressed flag with identity as the encoding", internal, [zipped], { "grpc-encoding": "identity" }],
  ["the compressed flag on an empty message", internal, [frame(Buffer.alloc(0), 1)]],
  ["two messages of which the second is compressed", internal, [one, zipped]],
  ["the compressed flag on a short frame", invalid, [framedAs(1, 1)]],
  ["reserved frame flags", undefined, [frame(planBytes, 2)]],
  ["the highest frame flag", undefined, [frame(planBytes, 128)]],
  ["all frame flags", internal, [frame(planBytes, 255)]],
  ["a truncated field", invalid, [frame(planBytes.subarray(0, -1))]],
  ["a field number of zero", invalid, [frame(text("\x00\x01"))]],
  ["an overlong varint", invalid, [frame(Buffer.alloc(11, 0xff))]],
  ["a length of 2 GiB in a field", invalid, [frame(text("\x12\xff\xff\xff\xff\x07"))]],
  ["a group that does not end", invalid, [frame(text("\xfb\x3f\x08\x01"))]],
  ["a group that ends nothing", invalid, [frame(text("\xfc\x3f"))]],
];

/** The first is taken as a bare stream, the second as a request of fastify's. */
describe.each(["application/grpc", "Application/grpc"])("as %s", (type) => {
  test.each(sent)("%s is answered as Connect answers it", async (_name, refusal, parts, headers = {}) => {
    const form: Form = { name: type, type, codec: "proto", isFramed: true, encoding: undefined };
    const call = { path: plan.rpcPath, headers: { ...headersOf(form), ...headers }, body: Buffer.concat(parts) };
    const [own, stocks] = (await both(call)).map(essence);
    if (refusal === undefined) expect(own).toEqual({ ...stocks, refusal: undefined });
    else expect(own).toMatchObject({ refusal });
    // Connect reports malformed binary as internal.
    if (stocks?.refusal?.code !== "internal") expect(own?.refusal?.code).toBe(stocks?.refusal?.code);
  });
});

test("trailers that a gRPC-Web request carries among its messages are not decompressed", async () => {
  const form: Form = { name: "", type: "application/grpc-web", codec: "proto", isFramed: true, encoding: "gzip" };
  const expanding = frame(gzipSync(Buffer.alloc(maxBodyBytes + 1)), 129);
  const body = Buffer.concat([expanding, expanding, bodyOf(form, [planBytes])]);
  const [own] = await both({ path: plan.rpcPath, headers: headersOf(form), body });
  expect(refusalInWeb(own.body)).toBeUndefined();
});

describe("GET on Connect", () => {
  const headers = { authorization: "Bearer good", "x-request-id": requestId, "accept-encoding": "identity" };
  const ask = (query: Record<string, string>, others: object = {}) =>
    expectSame({
      path: `${whoAmI.rpcPath}?${new URLSearchParams(query)}`,
      method: "GET",
      headers: { ...headers, ...others },
    });
  const binary = toBinary(whoAmI.desc.input, create(WhoAmIRequestSchema));

  test("answers messages in JSON and binary, in base64 and compressed, the same", async () => {
    const asked = [
      { encoding: "json", message: "{}" },
      { encoding: "json", message: Buffer.from("{}").toString("base64url"), base64: "1" },
      { encoding: "proto", message: "" },
      { encoding: "proto", message: Buffer.from(binary).toString("base64url"), base64: "1" },
      { encoding: "json", message: gzipSync("{}").toString("base64url"), base64: "1", compression: "gzip" },
      { encoding: "json", message: brotliCompressSync("{}").toString("base64url"), base64: "1", compression: "br" },
      { encoding: "json", message: "{}", compression: "identity", connect: "v1" },
    ];
    for (const query of asked) expect((await ask(query as Record<string, string>)).refusal).toBeUndefined();
  });

  test("refuses the same", async () => {
    expect(await ask({ encoding: "json", message: "{}" }, { authorization: "Bearer bad" })).toMatchObject({
      refusal: { reason: "invalid_token" },
    });
    await ask({ encoding: "json", message: '{"token":1}' });
    await ask({ encoding: "json", message: "{}", compression: "deflate" });
    await ask({ encoding: "json", message: "{}" }, { "connect-timeout-ms": "x" });
    await ask({ encoding: "json", message: "" });
  });
});
