import { expect, test } from "vitest";
import { matchTenantHeader, requireScopes } from "../../../src/auth/authenticator.ts";
import type { Caller } from "../../../src/base/caller.ts";
import type { PrincipalId, TenantId } from "../../../src/base/ids.ts";
import { inboundOf, refusalOf } from "./world.ts";

const caller: Caller = {
  tenantId: "tenant-a" as TenantId,
  principalId: "payroll-service" as PrincipalId,
  subject: "client-1",
  authSource: "bearer_token",
  scopes: ["platform-api.access", "policy.read"],
};

test.each([
  [["keys.use"], ["keys.use"]],
  [
    ["platform-api.access", "keys.use", "policy.write"],
    ["keys.use", "policy.write"],
  ],
  [["policy"], ["policy"]],
  [["policy.read "], ["policy.read "]],
  [["Policy.Read"], ["Policy.Read"]],
  [["policy.*"], ["policy.*"]],
])("%j are not sufficient", async (required, missing) => {
  const refusal = await refusalOf((async () => requireScopes(caller, required))());
  expect(refusal).toMatchObject({
    reason: "missing_scope",
    httpStatus: 403,
    details: {
      requiredScopes: required,
      missingScopes: missing,
      challenge: `Bearer realm="sdk", error="insufficient_scope", scope="${required.join(" ")}"`,
    },
  });
});

const match = async (values: readonly string[]) =>
  matchTenantHeader(caller, inboundOf({ "x-tenant": values }), "x-tenant");

test.each([[[]], [["tenant-a"]], [["tenant-a", "tenant-a"]]])("tenant header %j matches", async (values) => {
  await match(values);
});

test.each([
  [["tenant-b"]],
  [["Tenant-A"]],
  [["tenant-a", "tenant-b"]],
  [["tenant-b", "tenant-a"]],
  [["tenant-a, tenant-a"]],
  [["tenant-a "]],
  [["tenant\u2010a"]],
  [[""]],
  [["*"]],
])("tenant header %j does not match", async (values) => {
  const refusal = await refusalOf(match(values));
  expect(refusal).toMatchObject({ reason: "tenant_mismatch", httpStatus: 403 });
  expect(refusal.message).not.toContain(values[0] || "tenant-a");
});
