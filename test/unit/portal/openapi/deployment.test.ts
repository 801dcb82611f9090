/** What a deployment's settings change in the document. */
import { expect, test } from "vitest";
import comments from "../../../../gen/comments.json" with { type: "json" };
import type { AuthMode, ProofOfPossession } from "../../../../src/base/vocabulary.ts";
import { createScopeTable } from "../../../../src/domain/routes.ts";
import { createOpenApiDocument, type DocumentOptions } from "../../../../src/portal/openapi/document.ts";
import { publicServices, servedMethods } from "../../../../src/transport/calls/methods.ts";

const methods = servedMethods(
  publicServices.map((desc) => ({
    desc,
    impl: Object.fromEntries(desc.methods.map(({ localName }) => [localName, () => ({})])),
  })),
);
const none: readonly string[] = [];
const options: DocumentOptions = {
  methods,
  comments,
  service: "svc",
  version: "1",
  headerPrefix: "x-svc-",
  scopes: createScopeTable(["s"], {
    capabilities: none,
    whoami: none,
    bootstrap: none,
    "protection-plan": none,
    "policy-resolve": none,
    "key-access-plan": none,
    "artifact-register": none,
    evidence: none,
  }),
  authMode: "bearer_token",
  proofOfPossession: "mtls",
  maxBodyBytes: () => 1024,
};

// biome-ignore lint/suspicious/noExplicitAny: the document is data.
const make = (changes: Partial<DocumentOptions>): any => createOpenApiDocument({ ...options, ...changes });

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

test("a route that no method serves is an error", () => {
  expect(() => make({ methods: methods.slice(1) })).toThrow("/v1/sdk/capabilities is not served");
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
