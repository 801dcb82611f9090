import { expect, test } from "vitest";
import { sdkRoutes } from "../../../src/base/vocabulary.ts";
import { createDiscovery } from "../../../src/domain/discovery.ts";
import { type LivePlatform, platformDomains, platformStatus } from "../../../src/domain/platform-domains.ts";
import { createScopeTable, routes } from "../../../src/domain/routes.ts";
import { deployment, identity, livePlatform, routeScopes } from "./world.ts";

const { tenantId } = identity().caller;
const notReady = (reason: string) => () => ({ configured: false, reason });

test("capabilities list every route with the scopes that are enforced on it", () => {
  const { scopes } = deployment();
  const answer = createDiscovery(deployment(), livePlatform()).capabilities(tenantId);
  expect(answer.authMode).toBe("bearer_token");
  expect(answer.defaultRequiredScopes).toEqual(["platform-api.access"]);
  expect(answer.routes.map(({ route }) => route)).toEqual(sdkRoutes.map((route) => `/v1/sdk/${route}`));
  for (const { route, requiredScopes } of answer.routes) {
    const rpc = routes.find(({ path }) => path === route)?.rpc ?? "";
    expect(scopes.requiredByRpc(rpc)).toEqual([...answer.defaultRequiredScopes, ...requiredScopes]);
  }
});

test("a method that is not in the table has no scopes to be let through with", () => {
  const table = createScopeTable([], routeScopes);
  expect(() => table.requiredByRpc("ProtectionService/Other")).toThrow();
});

test("scopes that a route shares with the defaults stand once where they are enforced", () => {
  const table = createScopeTable(["a", "a"], { ...routeScopes, evidence: ["a", "b"] });
  expect(table.required("evidence")).toEqual(["a", "b"]);
  expect(table.own("evidence")).toEqual(["a", "b"]);
  expect(table.defaults).toEqual(["a"]);
});

test("bootstrap", () => {
  const changes = { supportedOperations: ["protect"], supportedProfiles: ["envelope"] } as const;
  expect(createDiscovery(deployment(changes), livePlatform()).bootstrap(tenantId)).toMatchObject({
    enforcementModel: "embedded_local_library",
    plaintextToPlatform: false,
    policyResolutionMode: "metadata_only_control_plane",
    supportedOperations: ["protect"],
    supportedArtifactProfiles: ["envelope"],
  });
});

test.each<[string, Partial<LivePlatform>, readonly string[]]>([
  ["all is well", {}, []],
  [
    "the ledger is down",
    { ledger: notReady("down") },
    ["protection", "key_access", "artifact_registry", "evidence_ledger"],
  ],
  ["no policy", { policy: notReady("none") }, ["policy", "protection", "key_access"]],
  [
    "the issuer's keys are missing",
    { authConfiguration: () => ({ ...livePlatform().authConfiguration(), oidcIssuerReady: false }) },
    ["identity"],
  ],
  [
    "the ingress names callers, whatever the issuer does",
    {
      authMode: "trusted_headers",
      authConfiguration: () => ({ ...livePlatform().authConfiguration(), oidcIssuerReady: false }),
    },
    [],
  ],
])("domains that are not in force when %s", (_name, changes, expected) => {
  const live = livePlatform(changes);
  const domains = platformDomains(live, tenantId);
  expect(domains.filter(({ configured }) => !configured).map(({ domain }) => domain)).toEqual(expected);
  for (const { reason } of domains) expect(reason).not.toBe("");
  const { routes: answered } = createDiscovery(deployment(), live).capabilities(tenantId);
  const status = platformStatus(live, tenantId);
  for (const { path, domain } of routes) {
    expect(answered.find(({ route }) => route === path)?.configured).toBe(status[domain].configured);
  }
});

test("facts are read for every answer", () => {
  let configured = true;
  const discovery = createDiscovery(deployment(), livePlatform({ policy: () => ({ configured, reason: "now" }) }));
  const policyNow = () =>
    discovery.bootstrap(tenantId).platformDomains.find(({ domain }) => domain === "policy")?.configured;
  expect(policyNow()).toBe(true);
  configured = false;
  expect(policyNow()).toBe(false);
});

test("the list of domains serves again while no fact has changed, and no longer", () => {
  const good = { configured: true, reason: "good" };
  const bad = { configured: false, reason: "bad" };
  const { authConfiguration: auth } = livePlatform();
  let facts = { policy: good, ledger: good, auth: auth() };
  const live = livePlatform({
    policy: () => facts.policy,
    ledger: () => facts.ledger,
    authConfiguration: () => facts.auth,
  });
  const all = platformDomains(live, tenantId);
  expect(platformDomains(live, tenantId)).toBe(all);
  for (const [changes, changed] of [
    [{ policy: bad }, "policy"],
    [{ ledger: bad }, "evidence_ledger"],
    [{ auth: { ...auth(), oidcIssuerReady: false } }, "identity"],
  ] as const) {
    const before = facts;
    facts = { ...facts, ...changes };
    expect(platformDomains(live, tenantId).find(({ domain }) => domain === changed)?.configured).toBe(false);
    expect(platformStatus(live, tenantId)[changed].configured).toBe(false);
    facts = before;
    expect(platformDomains(live, tenantId)).toEqual(all);
  }
});
