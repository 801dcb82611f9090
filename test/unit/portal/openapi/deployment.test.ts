/** What a deployment's settings change in the document. */
import { expect, test } from "vitest";
import type { AuthMode, ProofOfPossession } from "../../../../src/base/vocabulary.ts";
import { createScopeTable } from "../../../../src/domain/routes.ts";
import { type DocumentOptions, withValues } from "../../../../src/portal/documents.ts";
import { openApiDocument } from "../../../harness/openapi.ts";

const none: readonly string[] = [];
const withoutScopes = {
  ...{ capabilities: none, whoami: none, bootstrap: none, "protection-plan": none, "policy-resolve": none },
  ...{ "key-access-plan": none, "artifact-register": none, evidence: none },
};
const options: DocumentOptions = {
  service: "svc",
  version: "1",
  headerPrefix: "x-svc-",
  scopes: createScopeTable(["s"], withoutScopes),
  authMode: "bearer_token",
  proofOfPossession: "mtls",
  maxBodyBytes: () => 1024,
};

// biome-ignore lint/suspicious/noExplicitAny: the document is data.
const make = (changes: Partial<DocumentOptions>): any =>
  withValues(JSON.stringify(openApiDocument), { ...options, ...changes });

test.each([
  [undefined, "."],
  ["https://platform.example/base", "https://platform.example/base"],
  ["https://platform.example/", "https://platform.example"],
])("server %j is %j", (serverUrl, url) => {
  expect(make({ serverUrl }).servers).toEqual([{ url, description: "This deployment" }]);
});

const combinations: [AuthMode, ProofOfPossession, unknown][] = [
  ["bearer_token", "mtls", [{ bearer: [], certificate: [] }]],
  ["bearer_token", "dpop", [{ dpop: [] }]],
  ["bearer_token", "none", [{ bearer: [] }]],
  ["bearer_token_or_trusted_headers", "none", [{ bearer: [] }, {}]],
  ["trusted_headers", "mtls", [{}]],
];
test.each(combinations)("%s with %s", (authMode, proofOfPossession, security) => {
  const document = make({ authMode, proofOfPossession });
  expect(document.security).toEqual(security);
  expect(Object.keys(document.components.securitySchemes)).toEqual(Object.keys(document.security[0]));
});

test("the scopes of each route are in its text, its member and its examples", () => {
  const scopes = createScopeTable(["s"], { ...withoutScopes, "protection-plan": ["p"] });
  const { paths, components } = make({ scopes });
  const { post } = paths["/v1/sdk/protection-plan"];
  expect(post["x-required-scopes"]).toEqual(["s", "p"]);
  expect(post.description).toMatch(/\n\nNeeds the scopes `s`, `p`\.$/);
  const { value } = post.responses["200"].content["application/json"].examples.allowed;
  expect([value.service, value.caller.scopes, value.decision.required_scopes]).toEqual(["svc", ["s", "p"], ["s", "p"]]);
  expect(post.responses["403"].content["application/json"].examples.missing_scope.value.error).toMatchObject({
    required_scopes: ["s", "p"],
    missing_scopes: ["p"],
  });
  const { error } = components.responses.Forbidden.content["application/json"].examples.missing_scope.value;
  expect(error).toMatchObject({ required_scopes: ["s"], missing_scopes: ["s"] });
  const { capabilities } = paths["/v1/sdk/capabilities"].get.responses["200"].content["application/json"].examples;
  expect(capabilities.value.default_required_scopes).toEqual(["s"]);
  const own = capabilities.value.routes.map((row: { required_scopes: string[] }) => row.required_scopes);
  expect(own).toEqual([[], [], [], ["p"], [], [], [], []]);
});

test("headers are named with the deployment's own prefix, wherever they are named", () => {
  const text = JSON.stringify(make({ headerPrefix: "x-acme-" }));
  expect(text).not.toContain("x-svc-");
  expect(text).toContain("`x-acme-receipt: brief`");
});

test.each(["mtls", "dpop", "none"] as const)(
  "a 401 under %s tells the challenge, and the nonce where there can be one",
  (mode) => {
    const { headers, responses } = make({ proofOfPossession: mode }).components;
    const sent = responses.Unauthorized.headers;
    expect(sent["WWW-Authenticate"]).toEqual({ $ref: "#/components/headers/WwwAuthenticate" });
    expect(headers.WwwAuthenticate.example).toMatch(mode === "dpop" ? /^DPoP realm=.*algs=/ : /^Bearer realm=/);
    expect(sent["DPoP-Nonce"]).toEqual(mode === "dpop" ? { $ref: "#/components/headers/DpopNonce" } : undefined);
    expect("DpopNonce" in headers).toBe(mode === "dpop");
  },
);
