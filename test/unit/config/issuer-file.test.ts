import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { parseTenantId } from "../../../src/base/ids.ts";
import { overlapsOf, speaksFor, type TenantRule } from "../../../src/base/issuers.ts";
import { maximumIssuers, parseIssuerFile } from "../../../src/config/data-files.ts";
import { must } from "../domain/world.ts";
import { configOf, filesOf, goodEnvironment, problemsOf } from "./read.ts";

const parse = (content: unknown) =>
  parseIssuerFile(typeof content === "string" ? content : JSON.stringify(content), configOf());
const one = (entry: unknown) => ({ issuers: { "https://a.example": entry } });

describe("a file of issuers", () => {
  test("gives each issuer's values, and the settings give the rest", () => {
    const text = `
      issuers:
        https://id.acme.example/realms/acme:
          tenants: { fixed: acme }
        https://login.umbrella.example:
          audience: platform
          claims: { tenant: org, scope: scp }
          require_at_jwt: false
          tenants: { list: [umbrella, umbrella-test] }
        http://127.0.0.1:4000/:
          tenants: { pattern: "cust-*" }
    `;
    const entries = parseIssuerFile(text, configOf({ SVC_SUBJECT_CLAIM: "email", SVC_REQUIRE_AT_JWT: "on" }));
    const claims = { tenant: "tenant_id", principal: "principal_id", subject: "email", scope: "scope" };
    const common = { audience: "api://svc-platform-api", claims, requireAtJwt: true };
    expect(entries).toEqual([
      { issuer: "https://id.acme.example/realms/acme", ...common, tenants: { kind: "fixed", tenantId: "acme" } },
      {
        ...{ issuer: "https://login.umbrella.example", audience: "platform", requireAtJwt: false },
        claims: { ...claims, tenant: "org", scope: "scp" },
        tenants: { kind: "list", tenantIds: new Set(["umbrella", "umbrella-test"]) },
      },
      { issuer: "http://127.0.0.1:4000/", ...common, tenants: { kind: "prefix", prefix: "cust-" } },
    ]);
  });

  const tenants = { fixed: "a" };
  const introspection = { endpoint: "https://a.example/introspect", client_id: "svc", client_secret_file: "/secret" };
  const certificate = {
    client_secret_file: undefined,
    ...{ client_certificate_file: "/cert", client_key_file: "/key" },
  };
  const asked = (changes: object) => one({ tenants, introspection: { ...introspection, ...changes } });

  test("states how an issuer's tokens are introspected", () => {
    expect(parse(asked({}))[0]?.introspection).toEqual({
      ...{ endpoint: "https://a.example/introspect", clientId: "svc", tokenPrefix: "" },
      credentials: { kind: "secret", file: "/secret" },
    });
    expect(parse(asked({ ...certificate, token_prefix: "umb_" }))[0]?.introspection).toMatchObject({
      credentials: { kind: "certificate", certificateFile: "/cert", keyFile: "/key" },
      tokenPrefix: "umb_",
    });
  });

  test.each([
    ["umb_", "acme_", false],
    ["umb_", undefined, true],
    ["a", "ab", true],
    [undefined, undefined, true],
  ])("refuses opaque tokens with the prefixes %s and %s", (first, second, areOne) => {
    const entry = (fixed: string, prefix: string | undefined) => ({
      tenants: { fixed },
      introspection: { ...introspection, token_prefix: prefix },
    });
    const content = { issuers: { "https://a.example": entry("a", first), "https://b.example": entry("b", second) } };
    if (areOne) expect(() => parse(content)).toThrow("opaque tokens of both cannot be distinguished");
    else expect(parse(content)).toHaveLength(2);
  });

  const refused: readonly (readonly [content: unknown, problem: string])[] = [
    [[], "the file: must be a map"],
    ["", "issuers: names none"],
    [{ ...one({ tenants }), more: 1 }, "more: is not known"],
    [one({ tenants, jwks: "x" }), "issuers.https://a.example.jwks: is not known"],
    [{ issuers: { acme: { tenants } } }, "issuers.acme: must be an http or https URL"],
    [{ issuers: { "http://a.example": { tenants } } }, "must use https"],
    [{ issuers: { "https://a.example/?a": { tenants } } }, "without user information, query or fragment"],
    [one({}), "tenants: must have exactly one of fixed, list, pattern"],
    [one({ tenants: { fixed: "a", list: ["b"] } }), "must have exactly one of"],
    [one({ tenants: { constructor: "a" } }), "must have exactly one of"],
    [one({ tenants: { fixed: "../a" } }), "tenants.fixed: must be a tenant id"],
    [one({ tenants: { fixed: 5 } }), "tenants.fixed: must be a tenant id"],
    [one({ tenants: { list: [] } }), "tenants.list: must be a list of tenant ids"],
    [one({ tenants: { list: ["a", 5] } }), "tenants.list: must be a list of tenant ids"],
    [one({ tenants: { list: ["a", "a"] } }), "tenants.list: has a tenant twice"],
    [one({ tenants: { pattern: "a*b" } }), "tenants.pattern: must be the beginning"],
    [one({ tenants: { pattern: "a**" } }), "tenants.pattern: must be the beginning"],
    [one({ tenants: { pattern: "a" } }), "tenants.pattern: must be the beginning"],
    [one({ tenants: { pattern: "(a+)+*" } }), "tenants.pattern: must be the beginning"],
    [one({ tenants, claims: { tenant: "" } }), "claims.tenant: is empty"],
    [one({ tenants, claims: { email: "x" } }), "claims.email: is not known"],
    [one({ tenants, audience: ["a"] }), "audience: must be a single value"],
    [one({ tenants, require_at_jwt: "on" }), "require_at_jwt: must be true or false"],
    [one({ tenants, status_lists: ["https://a.example/"] }), "status_lists: is not known"],
    [asked({ endpoint: undefined }), "introspection.endpoint: is required"],
    [asked({ endpoint: "http://a.example/x" }), "introspection.endpoint: must use https"],
    [asked({ endpoint: "introspect" }), "endpoint: must be an http or https URL"],
    [asked({ client_id: undefined }), "introspection.client_id: is required"],
    [asked({ client_id: "a:b" }), "introspection.client_id: must be"],
    [asked({ client_secret_file: undefined }), "must have client_secret_file, or"],
    [asked({ client_key_file: "/k" }), "must have client_secret_file, or"],
    [
      asked({ client_secret_file: undefined, client_certificate_file: "/c" }),
      "introspection.client_key_file: is required",
    ],
    [asked({ ...certificate, endpoint: "http://127.0.0.1/x" }), "endpoint: must use https"],
    [asked({ token_prefix: "a b" }), "introspection.token_prefix: must be"],
    [asked({ secret: "x" }), "introspection.secret: is not known"],
    [one({ tenants, require_at_jwt: true, introspection }), "require_at_jwt: is for tokens that are verified here"],
    ["issuers:\n  https://a.example: {}\n  https://a.example: {}", "https://a.example: is given twice"],
    [
      { issuers: Object.fromEntries(Array.from({ length: 257 }, (_, i) => [`https://${i}.example`, { tenants }])) },
      `issuers: has more than ${maximumIssuers}`,
    ],
  ];
  test.each(refused.map(([content, problem]) => ({ content, problem })))(
    "is refused: $problem",
    ({ content, problem }) => {
      expect(() => parse(content)).toThrow(problem);
    },
  );

  test.each<[string, object, object, string | undefined]>([
    ["a tenant of a list", { fixed: "b" }, { list: ["a", "b"] }, "b"],
    ["patterns, one within the other", { pattern: "cust-*" }, { pattern: "cust-eu-*" }, "cust-eu-*"],
    ["nothing, by a letter", { pattern: "cust-*" }, { list: ["cust_1", "Cust-1", "cus", "cust"] }, undefined],
  ])("refuses two issuers that share %s", (_name, first, second, shared) => {
    const content = { issuers: { "https://a.example": { tenants: first }, "https://b.example": { tenants: second } } };
    if (shared === undefined) return expect(parse(content)).toHaveLength(2);
    expect(() => parse(content)).toThrow(/https:\/\/[ab]\.example and https:\/\/[ab]\.example: both may speak for/);
    expect(() => parse(content)).toThrow(`both may speak for ${shared}; a tenant has one issuer`);
  });

  test("overlaps are found exactly if a tenant has two issuers", () => {
    const word = fc.stringMatching(/^[ab]{1,3}$/);
    const id = (text: string) => must(parseTenantId(text));
    const rule: fc.Arbitrary<TenantRule> = fc.oneof(
      word.map((text) => ({ kind: "fixed" as const, tenantId: id(text) })),
      fc.uniqueArray(word, { minLength: 1, maxLength: 4 }).map((texts) => ({
        kind: "list" as const,
        tenantIds: new Set(texts.map(id)),
      })),
      fc.stringMatching(/^[ab]{0,2}$/).map((prefix) => ({ kind: "prefix" as const, prefix })),
    );
    const letters = ["a", "b"];
    const two = letters.flatMap((first) => letters.map((second) => first + second));
    const every = [...letters, ...two, ...two.flatMap((text) => letters.map((more) => text + more))].map(id);
    fc.assert(
      fc.property(fc.array(rule, { maxLength: 5 }), (rules) => {
        const entries = rules.map((tenants, index) => ({ issuer: `https://${index}.example`, tenants }));
        const isShared = every.some((tenant) => rules.filter((rule) => speaksFor(rule, tenant)).length > 1);
        expect(overlapsOf(entries).length > 0).toBe(isShared);
      }),
    );
  });
});

describe("the setting", () => {
  const files = filesOf({
    "/issuers.yaml": JSON.stringify(one({ tenants: { fixed: "a" } })),
    "/bad.yaml": JSON.stringify(one({})),
    "/asked.yaml": JSON.stringify({
      issuers: {
        "https://a.example": {
          tenants: { fixed: "a" },
          introspection: { endpoint: "https://a.example/i", client_id: "svc", client_secret_file: "/secret" },
        },
      },
    }),
    "/own.yaml": JSON.stringify({ issuers: { "https://svc.example": { tenants: { fixed: "a" } } } }),
    "/clients.json": "[]",
    "/session.pem": "",
  });
  const { SVC_OIDC_ISSUER: _, ...others } = goodEnvironment;
  const problems = (env: Record<string, string>) =>
    problemsOf({ ...others, SVC_OIDC_ISSUER: undefined, ...env }, undefined, files);

  test("replaces SVC_OIDC_ISSUER, and is refused beside it", () => {
    expect(problems({ SVC_OIDC_ISSUERS: "/issuers.yaml" })).toEqual([]);
    expect(problems({ SVC_OIDC_ISSUERS: "/issuers.yaml", SVC_OIDC_ISSUER: "https://a.example" })).toEqual([
      "SVC_OIDC_ISSUERS: and SVC_OIDC_ISSUER are not set together: the file names every issuer",
    ]);
    expect(problems({})).toEqual([expect.stringContaining("SVC_OIDC_ISSUER: is required")]);
  });

  test.each<[string, Record<string, string>, string]>([
    ["a file that is not there", { SVC_OIDC_ISSUERS: "/none" }, "SVC_OIDC_ISSUERS: cannot be read (ENOENT)"],
    [
      "a file that is wrong",
      { SVC_OIDC_ISSUERS: "/bad.yaml" },
      "tenants: must have exactly one of fixed, list, pattern",
    ],
    ["a secret that is not there", { SVC_OIDC_ISSUERS: "/asked.yaml" }, "/secret cannot be read (ENOENT)"],
    [
      "identity headers alone",
      { SVC_OIDC_ISSUERS: "/issuers.yaml", SVC_AUTH_MODE: "trusted_headers" },
      "SVC_OIDC_ISSUERS: is for tokens, which SVC_AUTH_MODE=trusted_headers does not take",
    ],
    [
      "the service's own name as an issuer",
      {
        ...{ SVC_OIDC_ISSUERS: "/own.yaml", SVC_PUBLIC_URL: "https://svc.example" },
        ...{ SVC_SESSION_CLIENTS: "/clients.json", SVC_SESSION_KEY: "/session.pem" },
      },
      "is the name of the service's own session tokens",
    ],
  ])("with %s refuses to start", (_name, env, problem) => {
    expect(problems(env).join("\n")).toContain(problem);
  });
});
