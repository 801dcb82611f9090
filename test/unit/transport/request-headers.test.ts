/** What handlers and call options see of the headers of a request that our own adapters carry. */
import { createContextValues, type Interceptor, type UnaryRequest } from "@connectrpc/connect";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { DiscoveryService } from "../../../gen/platform/sdk/v1/discovery_pb.ts";
import type { RequestId } from "../../../src/base/ids.ts";
import { type Call, kCall } from "../../../src/transport/calls/call.ts";
import { CallContext, type UnarySpec } from "../../../src/transport/calls/context.ts";
import { unaryInvoker } from "../../../src/transport/calls/unary-invoker.ts";
import { readCallOptions } from "../../../src/transport/gate/interceptors.ts";
import { headerValues } from "../../../src/transport/http/inbound-request.ts";

const names = ["host", "Content-Type", "x-own", "X-Own", "cookie", "set-cookie", "Idempotency-Key", "key-bin"];
const values = fc.oneof(
  fc.constantFrom("", "a", " b\t", "a, b", "c; d"),
  fc.string({ unit: fc.integer({ min: 0x20, max: 0x7e }).map((code) => String.fromCharCode(code)), maxLength: 8 }),
  fc.constant("caf\u00e9"),
);
const rawHeaders = fc
  .array(fc.tuple(fc.constantFrom(...names), values), { maxLength: 8 })
  .map((pairs) => [":path", "/", ":authority", "h", ...pairs.flat()]);

function asHeaders(raw: readonly string[]): Headers {
  const headers = new Headers();
  for (let i = 4; i < raw.length; i += 2) headers.append(raw[i] as string, raw[i + 1] as string);
  return headers;
}

function callOf(raw: readonly string[]): Call {
  return { requestId: "r" as RequestId, receivedAtMs: 0, headerValues: (name) => headerValues(raw, name) };
}

function contextOf(rawHeaders: readonly string[], impl: UnarySpec["impl"] = () => ({})) {
  const spec = { kind: "unary", method: DiscoveryService.method.whoAmI, impl } as unknown as UnarySpec;
  const deadline = { signal: new AbortController().signal, timeoutMs: () => undefined, end() {}, cancel() {} };
  const shared = { protocolName: "grpc", requestMethod: "POST", url: "/rpc" };
  return { spec, context: new CallContext({ ...shared, spec, call: callOf(rawHeaders), deadline, rawHeaders }) };
}

describe("headers of a request", () => {
  test("are what was sent, in order, without pseudo-headers; the same ones at every look", () => {
    fc.assert(
      fc.property(rawHeaders, (raw) => {
        const { context } = contextOf(raw);
        expect([...context.requestHeader]).toEqual([...asHeaders(raw)]);
        expect(context.requestHeader).toBe(context.requestHeader);
      }),
    );
  });

  test("are not made for a call that nobody looks at", async () => {
    // A name that no Headers takes.
    const { spec, context } = contextOf(["no name", ""]);
    const idle: Interceptor = (next) => (request) => next(request);
    await expect(unaryInvoker(spec, [idle])(context, {} as never)).resolves.toBeDefined();
    expect(() => context.requestHeader).toThrow(TypeError);
  });

  test("which an interceptor looks at, copies or changes reach the handler", async () => {
    const seen: (string | null)[] = [];
    const { spec, context } = contextOf(["x-own", "given"], (_request, { requestHeader }) => {
      seen.push(requestHeader.get("x-own"));
      return {};
    });
    const look: Interceptor = (next) => (request) => {
      seen.push(request.header.get("x-own"));
      return next(request);
    };
    const change: Interceptor = (next) => (request) => {
      request.header.set("x-own", "changed");
      return next(request);
    };
    const copy: Interceptor = (next) => (request) => next({ ...request });
    for (const interceptors of [[look], [copy, look], [change], [copy]])
      await unaryInvoker(spec, interceptors)(context, {} as never);
    expect(seen).toEqual(["given", "given", "given", "given", "changed", "changed"]);
  });
});

describe("options of a call", () => {
  const read = (raw: readonly string[]) => {
    const call = callOf(raw);
    const request = { contextValues: createContextValues().set(kCall, call) };
    void readCallOptions("x-svc-")(async () => ({}) as never)(request as unknown as UnaryRequest);
    return call;
  };

  test("are read as Headers joins them", () => {
    const options = fc.array(fc.tuple(fc.constantFrom("idempotency-key", "Idempotency-Key", "other"), values));
    fc.assert(
      fc.property(options, (pairs) => {
        const raw = [":path", "/", ":authority", "h", ...pairs.flat()];
        const key = asHeaders(raw).get("idempotency-key");
        if (key !== null && !/^[\x21-\x7e]{1,128}$/.test(key))
          expect(() => read(raw)).toThrow("header idempotency-key must be 1 to 128 visible characters");
        else expect(read(raw).idempotencyKey).toBe(key ?? undefined);
      }),
    );
  });

  test.each([
    [["X-SVC-Receipt", "brief"], "brief"],
    [["x-svc-receipt", " none\t"], "none"],
    [[], undefined],
  ])("receipt: %j", (raw, detail) => expect(read(raw).receiptDetail).toBe(detail));

  test.each([
    [["x-svc-receipt", "all"]],
    [["x-svc-receipt", "full", "X-Svc-Receipt", "full"]],
    [["x-svc-receipt", ""]],
  ])("receipt, refused: %j", (raw) =>
    expect(() => read(raw)).toThrow("header x-svc-receipt must be full, brief or none"),
  );
});
