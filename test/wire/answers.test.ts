/**
 * What the JSON routes answer to odd requests: members that are absent, hollow or at a limit. `rest` holds every answer to the
 * document, all of its members included, and `openapi.test.ts` to the document's examples.
 */
import { expect, test } from "vitest";
import { gatewayForFile, type RestAnswer, rest } from "../harness/gateway.ts";

const gateway = await gatewayForFile();
const token = await gateway.token();

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
const zeroTime = { occurred_at: "0001-01-01T00:00:00Z", outcome: "" };

test.each<[string, object, string]>([
  ["protection-plan", { operation: "protect" }, "content_digest"],
  ["policy-resolve", { operation: "access" }, "content_digest"],
  ["key-access-plan", { operation: "unwrap" }, "content_digest"],
  ["artifact-register", artifact, "artifact_digest"],
  ["evidence", { event_type: "deny", ...zeroTime }, "linked"],
])(
  "%s with as little as possible: counts and flags say so, and empty options are none",
  async (route, members, warned) => {
    const workload = { ...minimal.workload, environment: "", component: null };
    const hollow = { workload, resource: { ...minimal.resource, id: "", mime_type: null }, purpose: "" };
    const { request_summary, warnings } = await ask(`/v1/sdk/${route}`, { ...members, ...hollow });
    for (const [name, value] of Object.entries(request_summary)) {
      if (name.endsWith("_count")) expect([name, value]).toEqual([name, 0]);
      if (name.endsWith("_present")) expect([name, value]).toEqual([name, false]);
    }
    expect(warnings).toEqual([expect.stringContaining(warned)]);
  },
);

test("the summary of a plan has the resolved profile if the request has none, and a size of zero", async () => {
  const planned = { operation: "protect", ...minimal, preferred_artifact_profile: "", content_size_bytes: 0 };
  const { request_summary, execution } = await ask("/v1/sdk/protection-plan", planned);
  expect(request_summary.preferred_artifact_profile).toBe(execution.artifact_profile);
  expect(request_summary.content_size_bytes).toBe(0);
});
