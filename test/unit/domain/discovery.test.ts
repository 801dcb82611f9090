import { expect, test } from "vitest";
import { capabilities } from "../../../src/domain/discovery.ts";
import { type LivePlatform, platformDomains } from "../../../src/domain/platform-domains.ts";
import { createScopeTable, routes } from "../../../src/domain/routes.ts";
import { deployment, identity, livePlatform, routeScopes } from "./world.ts";

const { tenantId } = identity().caller;
const notReady = (reason: string) => () => ({ configured: false, reason });

test("a method outside the table cannot be called with any scope", () => {
  const table = createScopeTable([], routeScopes);
  expect(() => table.requiredByRpc("ProtectionService/Other")).toThrow();
});

test("scopes that a route shares with the defaults occur once in the enforced list", () => {
  const table = createScopeTable(["a", "a"], { ...routeScopes, evidence: ["a", "b"] });
  expect(table.required("evidence")).toEqual(["a", "b"]);
  expect(table.own("evidence")).toEqual(["a", "b"]);
  expect(table.defaults).toEqual(["a"]);
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
])("domains that are not enforced if %s", (_name, changes, expected) => {
  const live = livePlatform(changes);
  const domains = platformDomains(live, tenantId);
  expect(domains.filter(({ configured }) => !configured).map(({ domain }) => domain)).toEqual(expected);
  for (const { reason } of domains) expect(reason).not.toBe("");
  const { routes: answered } = capabilities(deployment(), live, tenantId);
  for (const { path, domain } of routes) {
    expect(answered.find(({ route }) => route === path)?.configured).toBe(!expected.includes(domain));
  }
});
