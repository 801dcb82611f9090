import { describe, expect, test } from "vitest";
import { readConfig } from "../../../src/config/config.ts";
import { configOf, filesOf, goodEnvironment, problemsOf } from "./read.ts";

describe("values", () => {
  test.each([
    ["SVC_LISTEN", "[::1]:0", { listen: { host: "::1", port: 0, loopback: true } }],
    ["SVC_LISTEN", "0.0.0.0:443", { listen: { host: "0.0.0.0", port: 443, loopback: false } }],
    ["SVC_LISTEN", "localhost:1", { listen: { host: "localhost", port: 1, loopback: true } }],
    ["SVC_PUBLIC_URL", "https://api.example/base/", { publicUrl: "https://api.example/base" }],
    ["SVC_DEFAULT_REQUIRED_SCOPES", "a.b, c:d", { defaultRequiredScopes: ["a.b", "c:d"] }],
    ["SVC_EXPLORER", "off", { explorer: false }],
    ["SVC_SUPPORTED_PROFILES", "tdf", { supportedProfiles: ["tdf"] }],
    ["SVC_OIDC_ISSUER", "http://127.0.0.1:4000/", { oidcIssuer: "http://127.0.0.1:4000/" }],
    ["SVC_MAX_BODY_BYTES", "1024", { maxBodyBytes: 1024 }],
    ["SVC_STORE", "sqlite:/var/lib/svc.db", { store: { kind: "sqlite", path: "/var/lib/svc.db" } }],
    ["SVC_FORWARDED_CERT_FORMAT", "der", { forwardedCertFormat: "der" }],
  ])("%s=%s", (name, value, expected) => expect(configOf({ [name]: value })).toMatchObject(expected));

  test("reads key references", () => {
    const { keyReferences } = configOf({
      SVC_KEY_REFERENCES:
        '{"hsm://a/*":{"mode":"authorized_key_release","origin":"hsm","tenants":["a"],"exchange_algorithm":"ML-KEM-768"},' +
        '"r1":{"mode":"local_provided","origin":"kas","tdf_key":{"url":"https://kas","kid":"r1","algorithm":"rsa:2048"}}}',
    });
    expect(keyReferences).toEqual([
      {
        pattern: "hsm://a/*",
        mode: "authorized_key_release",
        origin: "hsm",
        tenants: ["a"],
        exchangeAlgorithm: "ML-KEM-768",
      },
      {
        pattern: "r1",
        mode: "local_provided",
        origin: "kas",
        tdfKey: { url: "https://kas", kid: "r1", algorithm: "rsa:2048", attributeFqns: [] },
      },
    ]);
  });

  test.each([
    ["SVC_LISTEN", "8080"],
    ["SVC_LISTEN", "127.0.0.1:65536"],
    ["SVC_LISTEN", "::1:8080"],
    ["SVC_LISTEN", "[not-an-address]:1"],
    ["SVC_LISTEN", ""],
    ["SVC_PUBLIC_URL", "ftp://api.example"],
    ["SVC_PUBLIC_URL", "https://user:word@api.example"],
    ["SVC_OIDC_ISSUER", "issuer.example"],
    ["SVC_OIDC_ISSUER", "https://issuer.example/?a=b"],
    ["SVC_OIDC_ISSUER", "https://issuer.example/\n"],
    ["SVC_SERVICE_NAME", "a b"],
    ["SVC_HEADER_PREFIX", "x-svc"],
    ["SVC_HEADER_PREFIX", "X-Svc-"],
    ["SVC_HEADER_PREFIX", "x_svc-"],
    ["SVC_AUTH_MODE", "Bearer_token"],
    ["SVC_PROOF_OF_POSSESSION", "tls"],
    ["SVC_TENANT_CLAIM", "a b"],
    ["SVC_DEFAULT_REQUIRED_SCOPES", "a,,b"],
    ["SVC_DEFAULT_REQUIRED_SCOPES", "a,a"],
    ["SVC_DEFAULT_REQUIRED_SCOPES", 'a"b'],
    ["SVC_DEFAULT_REQUIRED_SCOPES", ""],
    ["SVC_ROUTE_SCOPES", "whoami"],
    ["SVC_ROUTE_SCOPES", '{"who-am-i":["a"]}'],
    ["SVC_ROUTE_SCOPES", '{"whoami":"a"}'],
    ["SVC_ROUTE_SCOPES", '{"whoami":["a"],"whoami":[]}'],
    ["SVC_ROUTE_SCOPES", '{"__proto__":["a"]}'],
    ["SVC_TRUSTED_PROXIES", "0.0.0.0/0"],
    ["SVC_TRUSTED_PROXIES", "::/0"],
    ["SVC_TRUSTED_PROXIES", "ingress"],
    ["SVC_FORWARDED_CERT_FORMAT", "xfcc"],
    ["SVC_STORE", "mysql://a"],
    ["SVC_STORE", "postgres://svc:secret@db.example/platform"],
    ["SVC_STORE", "sqlite:"],
    ["SVC_STORE", "sqlite::memory:"],
    ["SVC_KEY_REFERENCES", "[]"],
    ["SVC_KEY_REFERENCES", '{"a":{"mode":"wrapped_key_reference"}}'],
    ["SVC_KEY_REFERENCES", '{"a":{"mode":"raw","origin":"kms"}}'],
    ["SVC_KEY_REFERENCES", '{"a":{"mode":"wrapped_key_reference","origin":"kms","tenant":"a"}}'],
    ["SVC_KEY_REFERENCES", '{"a":{"mode":"wrapped_key_reference","origin":"kms","tenants":["../a"]}}'],
    ["SVC_KEY_REFERENCES", '{"a":{"mode":"wrapped_key_reference","origin":"kms","tenants":[]}}'],
    ["SVC_SUPPORTED_OPERATIONS", "wrap"],
    ["SVC_LEDGER_ORIGIN", "https://logs.example"],
    ["SVC_LEDGER_ORIGIN", "logs.example/a+b"],
    ["SVC_EXPLORER", "yes"],
    ["SVC_LOG_LEVEL", "silent"],
    ["SVC_MAX_BODY_BYTES", "262145"],
    ["SVC_MAX_BODY_BYTES", "1e5"],
    ["SVC_MAX_BODY_BYTES", "0x400"],
    ["SVC_MAX_ARTIFACT_BODY_BYTES", "12582913"],
    ["SVC_STORE_TIMEOUT_MS", "99"],
  ])("%s=%s is refused by name, once, and the value is not repeated", (name, value) => {
    const problems = problemsOf({ [name]: value });
    expect(problems).toHaveLength(1);
    expect(problems[0]).toMatch(new RegExp(`^${name}: `));
    if (value.length > 7) expect(problems[0]).not.toContain(value);
  });
});

describe("names", () => {
  test.each([
    ["SVC_LISTN", "SVC_LISTN: is not a setting; did you mean SVC_LISTEN?"],
    ["SVC_OIDC_ISSUER_URL", "SVC_OIDC_ISSUER_URL: is not a setting; did you mean SVC_OIDC_ISSUER?"],
    ["SVC_PORT", "SVC_PORT: is not a setting"],
    ["SVC_COMPLETELY_DIFFERENT", "SVC_COMPLETELY_DIFFERENT: is not a setting"],
  ])("%s is refused", (name, problem) =>
    expect(problemsOf({ [name]: "x" })).toEqual([expect.stringContaining(problem)]),
  );

  test("ignores variables that an orchestrator injects for service links, and all without the prefix", () => {
    const injected = {
      SVC_PLATFORM_API_SERVICE_HOST: "10.0.0.1",
      SVC_PLATFORM_API_SERVICE_PORT_HTTP: "80",
      SVC_PLATFORM_API_PORT: "tcp://10.0.0.1:80",
      SVC_PLATFORM_API_PORT_80_TCP_ADDR: "10.0.0.1",
      PATH: "/bin",
    };
    expect(problemsOf(injected)).toEqual([]);
  });
});

test("what a command uses is the only part that it validates", () => {
  const env = { ...goodEnvironment, SVC_LISTEN: "broken", SVC_POLICY_DIR: undefined, SVC_STORE: "broken" };
  const policy = readConfig(env, undefined, { uses: "policy", files: filesOf() });
  expect(policy).toMatchObject({ config: { supportedProfiles: ["tdf", "envelope", "detached_signature"] } });
  const migrate = readConfig(env, undefined, { uses: "migrate", files: filesOf() });
  expect(migrate).toEqual({ problems: ["SVC_STORE: must be sqlite:<path> or postgres://…"] });
});
