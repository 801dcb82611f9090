/** Request bodies have a budget of memory on every protocol: what has no room is refused before it is read. */
import { brotliCompressSync, gzipSync } from "node:zlib";
import { toBinary, toJson } from "@bufbuild/protobuf";
import { afterEach, describe, expect, test } from "vitest";
import { gatewayForFile, metricSum, rest } from "../harness/gateway.ts";
import { frame, refusalInTrailers } from "../harness/grpc.ts";
import { h1Connect, h1Request } from "../harness/h1.ts";
import { h2Call, h2Connect } from "../harness/h2.ts";
import { methodOn, requestFromRest } from "../harness/methods.ts";

const register = methodOn("/v1/sdk/artifact-register");
const budgetBytes = 131_072;
const tenantBytes = budgetBytes / 2;

/** A registration with an object of so many characters. */
function registration(objectCharacters: number) {
  return {
    operation: "protect",
    workload: { application: "payroll-export" },
    resource: { kind: "customer-record" },
    artifact_profile: "tdf",
    artifact_digest: "own:1",
    artifact_object_b64: "A".repeat(objectCharacters & ~3),
  };
}

const gateway = await gatewayForFile({
  env: {
    SVC_MAX_BODY_BYTES: String(tenantBytes),
    SVC_MAX_ARTIFACT_BODY_BYTES: String(tenantBytes),
  },
  overrides: { limits: { bodyBudgetBytes: budgetBytes } },
});
const token = await gateway.token();

/** Bytes of the budget that are taken, as the operator sees it. */
const inFlight = () => metricSum(gateway, /^svc_body_bytes_in_flight /);

// However the calls of a test ended, nothing of theirs is left.
afterEach(async () => {
  await expect.poll(inFlight).toBe(0);
});

const authorized = (extra: readonly string[] = [], type = "application/json") => [
  `Authorization: Bearer ${token}`,
  `Content-Type: ${type}`,
  ...extra,
];

/** Takes so many bytes of the tenant's share, with a body that does not come. Returns how to let go. */
async function hold(bytes: number): Promise<() => void> {
  // What was answered just now is given back a moment later, and by another worker perhaps.
  await expect.poll(inFlight).toBe(0);
  const connection = await h1Connect(gateway.url);
  connection.write(h1Request(`POST ${register.restPath}`, authorized([`Content-Length: ${bytes}`]), "{"));
  await expect.poll(inFlight).toBeGreaterThanOrEqual(bytes);
  return connection.destroy;
}

test("a body without room is refused from its headers, with a retry time", async () => {
  const letGo = await hold(tenantBytes);
  const connection = await h1Connect(gateway.url);
  // The body is not asked for.
  const headers = authorized(["Content-Length: 1000", "Expect: 100-continue"]);
  connection.write(h1Request(`POST ${register.restPath}`, headers));
  const refused = await connection.next();
  expect(refused).toMatchObject({ status: 503 });
  expect(refused?.headers.get("retry-after")).toBe("1");
  expect(JSON.parse(refused?.text ?? "").error).toMatchObject({
    code: "unavailable",
    reason: "overloaded",
    retry_after_seconds: 1,
  });
  connection.destroy();
  // What has no body needs no room.
  expect((await rest(`${gateway.url}/v1/sdk/whoami`, { token })).status).toBe(200);
  letGo();
  await expect.poll(inFlight).toBe(0);
  const answer = await rest(gateway.url + register.restPath, { token, body: registration(40_000) });
  expect(answer.status).toBe(200);
});

describe("on every protocol", () => {
  const message = () => requestFromRest(register, registration(40_000));
  const json = () => Buffer.from(JSON.stringify(toJson(register.desc.input, message())));
  const binary = () => Buffer.from(toBinary(register.desc.input, message()));
  const compressed = (bytes: Buffer) => {
    const framed = frame(gzipSync(bytes));
    framed[0] = 1;
    return framed;
  };

  const overHttp1: [name: string, path: string, type: string, headers: string[], body: () => Buffer][] = [
    ["REST", register.restPath, "application/json", [], () => Buffer.from(JSON.stringify(registration(40_000)))],
    ["Connect in JSON", register.rpcPath, "application/json", [], json],
    ["Connect in binary", register.rpcPath, "application/proto", [], binary],
    ["Connect with gzip", register.rpcPath, "application/json", ["Content-Encoding: gzip"], () => gzipSync(json())],
    [
      "Connect with brotli",
      register.rpcPath,
      "application/proto",
      ["Content-Encoding: br"],
      () => brotliCompressSync(binary()),
    ],
    ["gRPC-Web", register.rpcPath, "application/grpc-web+proto", [], () => frame(binary())],
    [
      "gRPC-Web with gzip",
      register.rpcPath,
      "application/grpc-web+proto",
      ["Grpc-Encoding: gzip"],
      () => compressed(binary()),
    ],
  ];
  test.each(overHttp1)(
    "%s is refused, with a declared length and without",
    async (_name, path, type, headers, body) => {
      const chunked = () => {
        const bytes = body();
        const half = Math.ceil(bytes.length / 2);
        const chunk = (piece: Buffer) =>
          Buffer.concat([Buffer.from(`${piece.length.toString(16)}\r\n`), piece, Buffer.from("\r\n")]);
        return Buffer.concat([chunk(bytes.subarray(0, half)), chunk(bytes.subarray(half)), Buffer.from("0\r\n\r\n")]);
      };
      const send = async (head: string[], bytes: Buffer) => {
        const connection = await h1Connect(gateway.url);
        connection.write(h1Request(`POST ${path}`, authorized([...headers, ...head], type)));
        connection.write(bytes);
        const answer = await connection.next();
        connection.destroy();
        return answer;
      };
      const both = async () => [
        await send([`Content-Length: ${body().length}`], body()),
        await send(["Transfer-Encoding: chunked"], chunked()),
      ];
      for (const answer of await both()) {
        expect(answer?.status).toBe(200);
        expect(answer?.text).not.toContain("overloaded");
      }
      // Less is left than the message has, and more than it has compressed.
      const letGo = await hold(tenantBytes - 20_000);
      for (const answer of await both()) {
        if (!type.includes("grpc")) expect([answer?.status, answer?.headers.get("retry-after")]).toEqual([503, "1"]);
        // In trailers the details are in base64.
        const text = answer?.text ?? "";
        const details = /grpc-status-details-bin: ([\w+/]+)/i.exec(text)?.[1] ?? "";
        const said = text + Buffer.from(details, "base64").toString("latin1");
        expect(said).toContain("overloaded");
        if (type.includes("grpc")) expect(said).toContain("google.rpc.RetryInfo");
      }
      letGo();
    },
  );

  test.each([
    ["gRPC", {}, () => frame(binary())],
    ["gRPC with gzip", { "grpc-encoding": "gzip" }, () => compressed(binary())],
  ])("%s", async (_name, headers, body) => {
    const session = await h2Connect(gateway.url);
    const call = () =>
      h2Call(session, {
        path: register.rpcPath,
        headers: { "content-type": "application/grpc", te: "trailers", authorization: `Bearer ${token}`, ...headers },
        body: body(),
      });
    expect((await call()).trailers).toMatchObject({ "grpc-status": "0" });
    const letGo = await hold(tenantBytes - 20_000);
    const refused = await call();
    expect(refusalInTrailers(refused.trailers)).toMatchObject({ reason: "overloaded", retryAfterSeconds: 1 });
    letGo();
  });
});
