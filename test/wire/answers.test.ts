/**
 * What the JSON routes answer to odd requests: members that are absent, hollow or at a limit. `rest` holds every answer to the
 * document, all of its members included, and `openapi.test.ts` to the document's examples.
 */
import { describe, expect, test } from "vitest";
import { gatewayForFile, type RestAnswer, rest } from "../harness/gateway.ts";

const gateway = await gatewayForFile();
const token = await gateway.token();

const common = "workload_application resource_kind label_count attribute_count";
const allScopes = ["platform-api.access", "policy.read", "keys.use", "artifacts.write", "evidence.write"];

async function ask(route: string, body?: unknown): Promise<RestAnswer["body"]> {
  const answer = await rest(gateway.url + route, { token, ...(body !== undefined && { body }) });
  expect(answer.status, JSON.stringify(answer.body)).toBe(200);
  expect(answer.headers.get("cache-control")).toBe("no-store");
  expectNothingHollow(answer.body);
  expect(Object.keys(answer.body).slice(0, 3)).toEqual(["service", "status", "caller"]);
  return answer.body;
}

/** The smallest request that is good. */
const minimal = { workload: { application: "a" }, resource: { kind: "k" } };

/** @param keys names of all members, separated by spaces */
function expectKeys(value: object, keys: string): void {
  expect(Object.keys(value).sort()).toEqual(keys.split(" ").sort());
}

/** Absent members are left out: none is null, and none is an empty text that stands for absence. */
function expectNothingHollow(value: unknown, path = ""): void {
  expect(value, path).not.toBeNull();
  expect(value, path).not.toBe("");
  if (typeof value === "object") {
    for (const [name, member] of Object.entries(value as object)) expectNothingHollow(member, `${path}/${name}`);
  }
}

test("capabilities reports the limits that are enforced", async () => {
  const { routes, default_required_scopes } = await ask("/v1/sdk/capabilities");
  for (const { route, required_scopes } of routes) {
    const needed: string[] = [...default_required_scopes, ...required_scopes];
    for (const missing of needed) {
      const scope = allScopes.filter((name) => name !== missing).join(" ");
      const refused = await rest(gateway.url + route, {
        token: await gateway.token({ scope }),
        ...(required_scopes.length > 0 && { body: minimal }),
      });
      expect(refused.status).toBe(403);
      expect(refused.body.error).toMatchObject({ required_scopes: needed, missing_scopes: [missing] });
    }
  }
});

const artifact = { operation: "protect", artifact_profile: "envelope", artifact_digest: "sha256:made-up" };
const flags = "artifact_locator_present decision_id_present key_reference_present";
const zeroTime = { occurred_at: "0001-01-01T00:00:00Z", outcome: "" };

test.each<[string, object, string, string[]]>([
  [
    "protection-plan",
    { operation: "protect" },
    "operation preferred_artifact_profile content_digest_present",
    ["content_digest"],
  ],
  ["policy-resolve", { operation: "access" }, "operation content_digest_present", ["content_digest"]],
  [
    "key-access-plan",
    { operation: "unwrap" },
    "operation artifact_profile key_reference_present content_digest_present",
    ["content_digest"],
  ],
  ["artifact-register", artifact, `operation artifact_profile artifact_digest ${flags}`, ["artifact_digest"]],
  [
    "evidence",
    { event_type: "deny", ...zeroTime },
    "event_type artifact_digest_present decision_id_present",
    ["linked"],
  ],
])("%s with as little as possible: flags and counts are there, absent options are not", async (...given) => {
  const [route, members, keys, warnings] = given;
  const answer = await ask(`/v1/sdk/${route}`, { ...members, ...minimal });
  expectKeys(answer.request_summary, `${common} ${keys}`);
  for (const [name, value] of Object.entries(answer.request_summary)) {
    if (name.endsWith("_count")) expect([name, value]).toEqual([name, 0]);
    if (name.endsWith("_present")) expect([name, value]).toEqual([name, false]);
  }
  expect(answer.warnings).toEqual(warnings.map((warning) => expect.stringContaining(warning)));
});

describe("POST /v1/sdk/protection-plan", () => {
  const route = "/v1/sdk/protection-plan";

  test("the summary has the resolved profile if the request has none", async () => {
    const { request_summary, execution } = await ask(route, { operation: "protect", ...minimal });
    expect(request_summary.preferred_artifact_profile).toBe(execution.artifact_profile);
  });

  test.each([
    ["null", null],
    ["the empty string", ""],
  ])("an option that is %s is absent from the answer", async (_name, hollow) => {
    const answer = await ask(route, {
      operation: "protect",
      workload: { application: "a", environment: hollow, component: hollow },
      resource: { kind: "k", id: hollow, mime_type: hollow },
      preferred_artifact_profile: hollow,
      content_digest: hollow,
      purpose: hollow,
      ...(hollow === null && { content_size_bytes: null, labels: null, attributes: null }),
    });
    expectKeys(answer.request_summary, `${common} operation preferred_artifact_profile content_digest_present`);
  });

  test("a size of zero is present in the answer", async () => {
    const answer = await ask(route, { operation: "protect", ...minimal, content_size_bytes: 0 });
    expect(answer.request_summary.content_size_bytes).toBe(0);
    const largest = await ask(route, { operation: "protect", ...minimal, content_size_bytes: 2 ** 53 - 1 });
    expect(largest.request_summary.content_size_bytes).toBe(9007199254740991);
  });
});

test("a denial expects evidence of the denial", async () => {
  const denied = { operation: "access", ...minimal, labels: ["do-not-export"] };
  const { handling } = await ask("/v1/sdk/policy-resolve", denied);
  expect(handling).toMatchObject({ protect_locally: false, evidence_expected: ["deny"] });
});
