/**
 * What has no handler on an RPC path is refused in the terms of the caller's protocol: a method, a verb or a type that
 * is not there, with the reason in the details.
 */
import { endStreamFromJson } from "@connectrpc/connect/protocol-connect";
import { describe, expect, test } from "vitest";
import { gatewayForFile, rest } from "../harness/gateway.ts";
import { refusalInConnect, refusalInTrailers, refusalInWeb, refusalOf, type WireRefusal } from "../harness/grpc.ts";
import { h1Exchange, h1Request } from "../harness/h1.ts";
import { type H2Answer, h2Call, h2Connect } from "../harness/h2.ts";

const gateway = await gatewayForFile();
const session = await h2Connect(gateway.url);
const token = await gateway.token();

const whoAmI = "/platform.sdk.v1.DiscoveryService/WhoAmI";
const check = "/grpc.health.v1.Health/Check";
const watch = "/grpc.health.v1.Health/Watch";

/** A call that nothing serves. */
interface Misdirected {
  readonly path: string;
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Expected. */
  readonly code: string;
  readonly reason: string;
  /** HTTP status on Connect. */
  readonly status: number;
  readonly allow?: string;
}

const noRoute = { code: "unimplemented", reason: "no_route", status: 404 };
const notAllowed = { code: "unimplemented", reason: "method_not_allowed", status: 405 };
const badHost = { code: "invalid_argument", reason: "invalid_request", status: 400 };

const cases: readonly (readonly [string, Misdirected])[] = [
  ["an unknown method", { path: "/platform.sdk.v1.DiscoveryService/Nothing", ...noRoute }],
  ["an unknown service", { path: "/platform.sdk.v9.NoService/Nothing", ...noRoute }],
  ["a service that is off", { path: "/platform.sdk.v1.SessionService/CreateSession", ...noRoute }],
  ["an unknown method of health", { path: "/grpc.health.v1.Health/Nothing", ...noRoute }],
  ["PUT", { path: whoAmI, method: "PUT", ...notAllowed }],
  ["an unknown verb", { path: whoAmI, method: "FROBNICATE", ...notAllowed }],
  ["DELETE on health", { path: check, method: "DELETE", ...notAllowed, allow: "POST" }],
  ["GET on a stream", { path: watch, method: "GET", ...notAllowed, allow: "POST" }],
  ["an authority that is none", { path: whoAmI, headers: { ":authority": "localhost", host: "another" }, ...badHost }],
  ["an unknown expectation", { path: check, headers: { expect: "200-ok" }, ...badHost, status: 417 }],
];

const types = {
  connect: ["application/proto", "application/json", "text/plain", undefined],
  connectStream: ["application/connect+proto", "application/connect+json"],
  grpc: [
    "application/grpc",
    "application/grpc+proto",
    "application/grpc+json",
    "Application/gRPC",
    "application/grpc+x",
  ],
  grpcWeb: [
    "application/grpc-web",
    "application/grpc-web+proto",
    "application/grpc-web+json",
    "application/grpc-web+x",
  ],
  grpcWebText: ["application/grpc-web-text", "application/grpc-web-text+proto"],
};
const typed = Object.entries(types).flatMap(([protocol, list]) => list.map((type) => ({ protocol, type })));

describe.each(typed)("$protocol as $type", ({ protocol, type }) => {
  test.each(cases)("%s", async (_name, { path, method = "POST", headers, code, reason, status, allow }) => {
    const answer = await h2Call(session, {
      path,
      method,
      headers: { ...headers, ...(type !== undefined && { "content-type": type }) },
    });
    expect(answer.status).toBe(protocol === "connect" ? status : 200);
    const refusal = refusalIn(protocol, answer);
    expect(refusal).toMatchObject({ code, reason });
    expect(refusal.requestId).toBe(answer.headers["x-request-id"]);
    if (allow !== undefined) expect(answer.headers.allow).toBe(allow);
  });
});

function refusalIn(protocol: string, { body, headers, trailers }: H2Answer): WireRefusal {
  const type = String(headers["content-type"]);
  switch (protocol) {
    case "grpc":
      expect(type).toMatch(/^application\/grpc\+(proto|json)$/);
      return refusalInTrailers(trailers) as WireRefusal;
    case "grpcWeb":
      expect(type).toMatch(/^application\/grpc-web\+(proto|json)$/);
      return refusalInWeb(body) as WireRefusal;
    case "grpcWebText":
      expect(type).toBe("application/grpc-web-text+proto");
      return refusalInWeb(Buffer.from(body.toString("latin1"), "base64")) as WireRefusal;
    case "connectStream": {
      expect(type).toMatch(/^application\/connect\+(proto|json)$/);
      expect(body[0]).toBe(2);
      const { error } = endStreamFromJson(body.subarray(5));
      if (error === undefined) throw new Error("not refused");
      return refusalOf(error);
    }
    default:
      expect(type).toBe("application/json");
      return refusalInConnect(body.toString());
  }
}

describe("an unknown content type", () => {
  const asked = [
    ["Connect", "text/plain", "connect", 415],
    ["Connect", "/", "connect", 415],
    ["Connect", "application/json, text/plain", "connect", 415],
    ["Connect", "application/grpcx", "connect", 415],
    ["gRPC", "application/grpc+thrift", "grpc", 200],
    ["gRPC-Web", "application/grpc-web+thrift", "grpcWeb", 200],
    ["gRPC-Web", "application/grpc-web-text", "grpcWebText", 200],
  ] as const;
  test.each(asked)("on %s: %s", async (_protocol, type, carried, status) => {
    const refused = { code: "invalid_argument", reason: "unsupported_media_type" };
    const send = (path: string, bearer?: string) =>
      h2Call(session, {
        path,
        headers: { "content-type": type, ...(bearer !== undefined && { authorization: `Bearer ${bearer}` }) },
      });
    for (const answer of [await send(check), await send(watch), await send(whoAmI, token)]) {
      expect(answer.status).toBe(status);
      expect(refusalIn(carried, answer)).toMatchObject(refused);
    }
    // Credentials come before the type.
    expect(refusalIn(carried, await send(whoAmI))).toMatchObject({ reason: "missing_token" });
  });

  test("gRPC accepts POST only, and Connect GET too", async () => {
    const headers = { "content-type": "application/grpc", authorization: `Bearer ${token}` };
    const answer = await h2Call(session, { path: whoAmI, method: "GET", headers });
    expect(refusalIn("grpc", answer)).toMatchObject({ code: "unimplemented", reason: "method_not_allowed" });
    expect(answer.headers.allow).toBe("POST");
  });
});

test("a conversation over HTTP/1.1 gets the answer that it needs HTTP/2", async () => {
  const path = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo";
  const headers = ["Content-Type: application/connect+json", "Content-Length: 0"];
  const answer = await h1Exchange(gateway.url, h1Request(`POST ${path}`, headers));
  expect(answer?.headers.get("connection")).toBe("close");
  const { error } = endStreamFromJson(Buffer.from(answer?.text ?? "").subarray(5));
  expect(error?.rawMessage).toBe("this method needs HTTP/2");
});

test("the JSON routes keep their error envelope for any content type", async () => {
  const types = ["application/grpc", "application/grpc-web", "application/connect+proto"];
  for (const type of [...types, "/", "application/json, text/plain", "application/json,"]) {
    const headers = { "content-type": type };
    const typed = { method: "POST", headers, token };
    expect((await rest(`${gateway.url}/v1/sdk/evidence`, typed)).body.error.reason).toBe("unsupported_media_type");
    const missing = await rest(`${gateway.url}/v1/sdk/nothing`, { method: "POST", headers });
    expect([missing.status, missing.body.error.reason]).toEqual([404, "no_route"]);
    const put = await rest(`${gateway.url}/v1/sdk/whoami`, { method: "PUT", headers });
    expect([put.status, put.headers.get("allow"), put.body.error.reason]).toEqual([
      405,
      "GET, HEAD",
      "method_not_allowed",
    ]);
  }
});
