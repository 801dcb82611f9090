/** The JSON routes as a person at a shell meets them: curl over HTTP/1.1 and over HTTP/2 with prior knowledge. */
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
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
