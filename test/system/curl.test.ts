/** The JSON routes as a person at a shell meets them: curl over HTTP/1.1 and over HTTP/2 with prior knowledge. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type SampleCall, sampleCalls } from "../../dev/requests.ts";
import { type Gateway, startGateway } from "../harness/gateway.ts";
import { curl } from "./curl.ts";

let gateway: Gateway;
let token: string;

beforeAll(async () => {
  gateway = await startGateway();
  token = await gateway.token();
});
afterAll(() => gateway.stop());

const json = ["--header", "content-type: application/json"];
const bearer = () => ["--header", `authorization: Bearer ${token}`];
const plan = sampleCalls().find(({ route }) => route === "/v1/sdk/protection-plan") as SampleCall;
const register = sampleCalls().find(({ route }) => route === "/v1/sdk/artifact-register") as SampleCall;

const caller =
  '"caller":{"tenant_id":"tenant-a","principal_id":"payroll-service","subject":"payroll-service",' +
  '"auth_source":"bearer_token","scopes":["platform-api.access","policy.read","keys.use","artifacts.write","evidence.write"]}';
const discovery = '"auth_mode","auth_configuration"';

/** Members of each answer, in their order; those of the block that the route is about, too. */
const members: Readonly<Record<string, string>> = {
  "/v1/sdk/capabilities": `"service","status","caller",${discovery},"default_required_scopes","routes"`,
  "/v1/sdk/whoami": '"service","status","caller"',
  "/v1/sdk/bootstrap":
    `"service","status","caller",${discovery},"enforcement_model","plaintext_to_platform","policy_resolution_mode",` +
    '"supported_operations","supported_artifact_profiles","platform_domains"',
  "/v1/sdk/protection-plan": '"request_summary","decision","execution","platform_domains","warnings"',
  "/v1/sdk/policy-resolve": '"request_summary","decision","handling","platform_domains","warnings"',
  "/v1/sdk/key-access-plan": '"request_summary","decision","execution","platform_domains","warnings"',
  "/v1/sdk/artifact-register": '"request_summary","registration","platform_domains","warnings"',
  "/v1/sdk/evidence": '"request_summary","ingestion","platform_domains","warnings"',
};

function arguments_({ route, body }: SampleCall): string[] {
  return [...bearer(), ...(body === undefined ? [] : [...json, "--data", JSON.stringify(body)]), gateway.url + route];
}

/** What differs from one answer to the next: ids, positions in the log and their proofs. */
function withoutRecord(text: string): string {
  return JSON.stringify(JSON.parse(text), (key, value) => (key === "decision_id" || key === "receipt" ? "" : value));
}

describe.each([
  ["HTTP/1.1", "--http1.1", "1.1"],
  ["HTTP/2 with prior knowledge", "--http2-prior-knowledge", "2"],
])("%s", (_name, flag, httpVersion) => {
  test.each(sampleCalls().map((call) => [call.route, call] as const))("%s", async (route, call) => {
    const answer = await curl([flag, ...arguments_(call)]);
    expect(answer).toMatchObject({ status: 200, httpVersion });
    expect(answer.header("content-type")).toBe("application/json");
    expect(answer.header("content-length")).toBe(String(Buffer.byteLength(answer.body)));
    expect(answer.body.startsWith('{"service":"svc-platform-api","status":"')).toBe(true);
    expect(answer.body).toContain(caller);
    const names = Object.keys(JSON.parse(answer.body));
    expect(names.map((name) => JSON.stringify(name)).join(",")).toContain(members[route]);
    // The answer is the same one whichever version of HTTP carried it.
    const other = await curl([flag === "--http1.1" ? "--http2-prior-knowledge" : "--http1.1", ...arguments_(call)]);
    expect(withoutRecord(answer.body)).toBe(withoutRecord(other.body));
  });

  test("whoami, byte for byte", async () => {
    const { body } = await curl([flag, ...bearer(), `${gateway.url}/v1/sdk/whoami`]);
    expect(body).toBe(`{"service":"svc-platform-api","status":"ok",${caller}}`);
  });

  test("HEAD answers as GET does, without the body", async () => {
    const url = `${gateway.url}/v1/sdk/whoami`;
    const get = await curl([flag, ...bearer(), url]);
    const head = await curl([flag, "--head", ...bearer(), url]);
    expect(head).toMatchObject({ status: 200, downloadedBytes: 0 });
    expect(head.header("content-length")).toBe(get.header("content-length"));
    expect((await curl([flag, "--head", url])).status).toBe(401);
    expect((await curl([flag, "--head", ...bearer(), gateway.url + plan.route])).status).toBe(405);
  });

  test("the caller's request id comes back", async () => {
    const answer = await curl([flag, "--header", "x-request-id: job-42", ...arguments_(plan)]);
    expect(answer.header("x-request-id")).toBe("job-42");
  });

  test("a body of just the limit, and one byte more", async () => {
    const padded = (sizeBytes: number) => Buffer.from(JSON.stringify(plan.body).padEnd(sizeBytes));
    const send = (body: Buffer) =>
      curl([flag, ...bearer(), ...json, "--data-binary", "@-", gateway.url + plan.route], body);
    expect((await send(padded(262_144))).status).toBe(200);
    const refused = await send(padded(262_145));
    expect(refused.status).toBe(413);
    expect(JSON.parse(refused.body).error.reason).toBe("body_too_large");
  });

  // Refused on its headers: curl may have to read the answer while it is about to send the body.
  test.each([
    [401, () => []],
    [415, () => [...bearer(), "--header", "content-type: text/plain"]],
  ])("an answer of %i reaches a caller that has a body to send, every time", async (status, headers) => {
    for (let i = 0; i < 25; i++) {
      const answer = await curl([flag, ...headers(), "--data", "{}", gateway.url + plan.route]);
      expect(answer.status).toBe(status);
    }
  });

  test("an artifact object of 8 MiB", async () => {
    const body = { ...register.body, artifact_object_b64: Buffer.alloc(8 * 1024 * 1024, 7).toString("base64") };
    const { artifact_digest: _, ...others } = body as Record<string, unknown>;
    const digest = "sha256:b04c0a044f1a8dbc5fa5b3de65f42bc2e4d8a3b4b4d6a1d7b0f00ba6e9bda7f0";
    const url = gateway.url + register.route;
    const send = (content: object) =>
      curl([flag, ...bearer(), ...json, "--data-binary", "@-", url], Buffer.from(JSON.stringify(content)));
    // The service hashes what it is sent: a digest that is not the object's is refused by name.
    const refused = await send({ ...others, artifact_digest: digest });
    expect(refused.status).toBe(400);
    expect(JSON.parse(refused.body).error.violations).toMatchObject([{ field: "artifact_digest" }]);
    const right = Buffer.from(await crypto.subtle.digest("SHA-256", Buffer.alloc(8 * 1024 * 1024, 7))).toString("hex");
    const accepted = await send({ ...others, artifact_digest: `sha256:${right}` });
    expect(accepted.status).toBe(200);
    expect(JSON.parse(accepted.body).request_summary.artifact_cid).toMatch(/^bafkrei/);
  });

  test("compressed bodies: refused on the JSON routes, read on Connect", async () => {
    const gzip = ["--header", "content-encoding: gzip", ...json, "--data-binary", "@-"];
    const refused = await curl(
      [flag, ...bearer(), ...gzip, gateway.url + plan.route],
      gzipSync(JSON.stringify(plan.body)),
    );
    expect(refused.status).toBe(415);
    const canonical = {
      operation: "PROTECTION_OPERATION_PROTECT",
      workload: { application: "a" },
      resource: { kind: "k" },
    };
    const read = await curl(
      [flag, ...bearer(), ...gzip, `${gateway.url}/${plan.rpc}`],
      gzipSync(JSON.stringify(canonical)),
    );
    expect(read.status).toBe(200);
    // Answers mix what the caller sent with what is secret of others: they are not compressed, even if the request is.
    expect(read.header("content-encoding")).toBeUndefined();
    expect(JSON.parse(read.body)).toMatchObject({ decision: { allow: true } });
  });
});

describe("Expect: 100-continue", () => {
  const expecting = ["--http1.1", "--expect100-timeout", "20", "--header", "expect: 100-continue"];

  test("a caller that may send is told to", async () => {
    const answer = await curl([...expecting, ...arguments_(plan)]);
    expect(answer.status).toBe(200);
    expect(answer.headerLines[0]).toBe("HTTP/1.1 100 Continue");
  });

  test.each([
    ["without credentials", () => [...json, "--data", JSON.stringify(plan.body)], 401],
    ["with a body that is too large", () => [...bearer(), ...json, "--data-binary", "@-"], 413],
    ["with a body of another type", () => [...bearer(), "--data", "a=b"], 415],
  ])("a caller %s is refused before it sends", async (_name, args, status) => {
    const answer = await curl([...expecting, ...args(), gateway.url + plan.route], Buffer.alloc(300_000, " "));
    expect(answer).toMatchObject({ status, uploadedBytes: 0 });
    expect(answer.headerLines[0]).toMatch(/^HTTP\/1\.1 4/);
  });
});

test("a chunked body is read", async () => {
  const answer = await curl(["--http1.1", "--header", "transfer-encoding: chunked", ...arguments_(plan)]);
  expect(answer.status).toBe(200);
});

test("an offer to upgrade to HTTP/2 is passed over", async () => {
  expect(await curl(["--http2", ...arguments_(plan)])).toMatchObject({ status: 200, httpVersion: "1.1" });
});

test("the program in shell makes all eight calls without TLS, as the development stack is", async () => {
  const [client] = gateway.issuer.clients;
  const env = {
    PATH: process.env.PATH,
    PLATFORM_URL: gateway.url,
    PLATFORM_ISSUER: gateway.issuer.url,
    PLATFORM_CLIENT_ID: client?.clientId,
    PLATFORM_CLIENT_SECRET: client?.clientSecret,
    PLATFORM_SCOPE: client?.scopes.join(" "),
  };
  const program = join(import.meta.dirname, "../../examples/clients/shell/main.sh");
  const { stdout, stderr } = await promisify(execFile)(program, [], { env });
  expect(stderr).toBe("");
  expect(stdout.trimEnd().split("\n")).toHaveLength(8);
});
