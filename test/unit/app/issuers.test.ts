import { expect, test } from "vitest";
import { openIssuers } from "../../../src/app/callers.ts";
import type { Machine } from "../../../src/app/followed-files.ts";
import { everyTenant } from "../../../src/base/issuers.ts";
import { configOf } from "../config/read.ts";

const noFiles: Machine["files"] = {
  follow: async () => undefined,
};

/** Every setting of a single issuer's tokens, each in a value that is not its default, and the entry that it makes. */
const settings = {
  SVC_OIDC_ISSUER: "https://issuer.example/realms/b",
  SVC_OIDC_AUDIENCE: "api://another",
  SVC_REQUIRE_AT_JWT: "on",
  SVC_TENANT_CLAIM: "org",
  SVC_PRINCIPAL_CLAIM: "client_id",
  SVC_SUBJECT_CLAIM: "sub",
  SVC_SCOPE_CLAIM: "scp",
};
const entry = {
  issuer: "https://issuer.example/realms/b",
  audience: "api://another",
  requireAtJwt: true,
  claims: { tenant: "org", principal: "client_id", subject: "sub", scope: "scp" },
  tenants: everyTenant,
};

test("settings of a single issuer apply to its tokens", async () => {
  expect(await openIssuers(configOf(settings), noFiles, () => {})).toEqual([entry]);
});
