import { generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { openSecretFiles } from "../../../src/config/files.ts";
import { filesOf, problemsOf } from "./read.ts";

/** Value of the setting for so many witnesses. */
const witnesses = (count: number) =>
  JSON.stringify(
    Object.fromEntries(
      Array.from({ length: count }, (_, i) => [`w.example/${i}+0000000${i}+AAAA`, `https://w.example/${i}`]),
    ),
  );

describe("a weak or impossible configuration refuses to start", () => {
  test.each([
    ["issuer over http", { SVC_OIDC_ISSUER: "http://issuer.example" }, "SVC_OIDC_ISSUER: must use https"],
    [
      "issuer over http on a name like loopback",
      { SVC_OIDC_ISSUER: "http://localhost.example" },
      "SVC_OIDC_ISSUER: must use https",
    ],
    [
      "plaintext off loopback, no proxy trusted",
      { SVC_LISTEN: "0.0.0.0:8080", SVC_TRUSTED_PROXIES: undefined, SVC_PROOF_OF_POSSESSION: "none" },
      "SVC_LISTEN: would accept plaintext off loopback",
    ],
    [
      "mtls without sight of certificates",
      { SVC_TRUSTED_PROXIES: undefined },
      "SVC_PROOF_OF_POSSESSION: is mtls, but no client certificate can be seen",
    ],
    [
      "headers of attributes, where no header is believed",
      { SVC_ATTRIBUTE_HEADERS: '{"clearance":"x-clearance"}' },
      "SVC_ATTRIBUTE_HEADERS: is for identity headers",
    ],
    [
      "the tenant's header as an attribute",
      {
        SVC_ATTRIBUTE_HEADERS: '{"clearance":"x-acme-tenant-id"}',
        SVC_HEADER_PREFIX: "x-acme-",
        SVC_AUTH_MODE: "trusted_headers",
        SVC_OIDC_ISSUER: undefined,
      },
      "SVC_ATTRIBUTE_HEADERS: names a header that says something else",
    ],
    ...['["x-a"]', '{"Clearance":"x-a"}', '{"__proto__":"x-a"}', '{"a":"X-A"}', '{"a":"authorization"}', '{"a":1}'].map(
      (value) =>
        [
          `headers of attributes as ${value}`,
          { SVC_ATTRIBUTE_HEADERS: value, SVC_AUTH_MODE: "bearer_token_or_trusted_headers" },
          "SVC_ATTRIBUTE_HEADERS:",
        ] as [string, Record<string, string>, string],
    ),
    [
      "one header for two attributes",
      { SVC_ATTRIBUTE_HEADERS: '{"a":"x-a","b":"x-a"}', SVC_AUTH_MODE: "bearer_token_or_trusted_headers" },
      "SVC_ATTRIBUTE_HEADERS: names a header twice",
    ],
    ["both listeners on one address", { SVC_OPS_LISTEN: "127.0.0.1:8080" }, "SVC_LISTEN: is the same address"],
    ["a quorum without witnesses", { SVC_WITNESS_QUORUM: "1" }, "SVC_WITNESS_QUORUM: needs SVC_WITNESSES"],
    [
      "a quorum of half of the witnesses",
      { SVC_WITNESSES: witnesses(2), SVC_WITNESS_QUORUM: "1" },
      "SVC_WITNESS_QUORUM: must be more than half",
    ],
    [
      "a quorum of more witnesses than there are",
      { SVC_WITNESSES: witnesses(2), SVC_WITNESS_QUORUM: "3" },
      "SVC_WITNESS_QUORUM: must be more than half of the witnesses, and not more",
    ],
    [
      "a witness over http",
      { SVC_WITNESSES: '{"w.example/1+00000001+AAAA":"http://w.example/"}' },
      "SVC_WITNESSES: w.example/1+00000001+AAAA: must use https",
    ],
    [
      "witnesses without their keys",
      { SVC_WITNESSES: '{"w.example":"https://w.example/"}' },
      "SVC_WITNESSES: w.example: must be a verifier key",
    ],
    ["no witnesses, said at length", { SVC_WITNESSES: "{}" }, "SVC_WITNESSES: must name 1 to 16"],
    ["a policy directory that is a file", { SVC_POLICY_DIR: "/file" }, "SVC_POLICY_DIR: is not a directory"],
    ["a policy directory that is missing", { SVC_POLICY_DIR: "/none" }, "SVC_POLICY_DIR: cannot be read (ENOENT)"],
    [
      "a password file that is missing",
      { SVC_STORE: "postgres://svc@localhost/svc", SVC_STORE_PASSWORD_FILE: "/none" },
      "SVC_STORE_PASSWORD_FILE: cannot be read (ENOENT)",
    ],
  ])("%s", (_name, env, problem) => {
    expect(problemsOf(env, undefined, filesOf({ "/file": "" }))).toEqual([expect.stringContaining(problem)]);
  });

  test.each([
    ["plaintext off loopback behind an ingress", { SVC_LISTEN: "0.0.0.0:8080" }],
    ["no proof of possession on loopback", { SVC_TRUSTED_PROXIES: undefined, SVC_PROOF_OF_POSSESSION: "none" }],
    ["both listeners on any free port", { SVC_LISTEN: "127.0.0.1:0", SVC_OPS_LISTEN: "127.0.0.1:0" }],
    ["health and metrics off loopback", { SVC_OPS_LISTEN: "0.0.0.0:9090" }],
    ["a password file that is there", { SVC_STORE: "postgres://svc@localhost/svc", SVC_STORE_PASSWORD_FILE: "/file" }],
  ])("but not %s", (_name, env) => expect(problemsOf(env, undefined, filesOf({ "/file": "" }))).toEqual([]));

  test("a missing file is told beside everything else", () => {
    const env = { SVC_POLICY_DIR: "/none", SVC_STORE_PASSWORD_FILE: "/none", SVC_LOG_LEVEL: "loud" };
    expect(problemsOf(env)).toEqual([
      expect.stringContaining("SVC_LOG_LEVEL: "),
      "SVC_POLICY_DIR: cannot be read (ENOENT)",
      "SVC_STORE_PASSWORD_FILE: cannot be read (ENOENT)",
    ]);
  });
});

describe("who may name the caller", () => {
  const pin = Buffer.alloc(32).toString("base64url");
  const tls = { SVC_TLS_CERT: "/own.pem", SVC_TLS_KEY: "/own.key", SVC_TLS_CLIENT_CA: "/own.pem" };
  const fixture = (name: string): string => readFileSync(new URL(`fixtures/${name}`, import.meta.url), "utf8");
  const files = filesOf({ "/own.pem": fixture("server.crt.pem"), "/own.key": fixture("server.key.pem") });
  const headers = { SVC_AUTH_MODE: "trusted_headers", SVC_OIDC_ISSUER: undefined };
  const open = { SVC_LISTEN: "0.0.0.0:8443" };
  const none = { SVC_PROOF_OF_POSSESSION: "none" };

  test.each([
    ["tokens without an issuer", { SVC_OIDC_ISSUER: undefined }, "SVC_OIDC_ISSUER: is required"],
    [
      "tokens or headers without an issuer",
      { SVC_AUTH_MODE: "bearer_token_or_trusted_headers", SVC_OIDC_ISSUER: undefined },
      "SVC_OIDC_ISSUER: is required",
    ],
    [
      "headers and no proxy trusted",
      { ...headers, ...none, SVC_TRUSTED_PROXIES: undefined },
      "SVC_AUTH_MODE: accepts identity headers, but from no ingress",
    ],
    [
      "headers over an unauthenticated hop",
      { ...headers, ...open },
      "SVC_AUTH_MODE: would accept identity headers over an unauthenticated hop",
    ],
    [
      "the same beside tokens, with TLS",
      { ...open, ...tls, SVC_AUTH_MODE: "bearer_token_or_trusted_headers" },
      "SVC_AUTH_MODE: would accept identity headers over an unauthenticated hop",
    ],
    [
      "an ingress that is this machine and another",
      { ...headers, ...open, SVC_TRUSTED_PROXIES: "127.0.0.0/8,10.0.0.1" },
      "SVC_AUTH_MODE: would accept identity headers over an unauthenticated hop",
    ],
    [
      "a pinned certificate that cannot be seen",
      { SVC_TRUSTED_PROXY_CERTIFICATES: pin },
      "SVC_TRUSTED_PROXY_CERTIFICATES: needs SVC_TRUSTED_PROXIES, and SVC_TLS_CLIENT_CA",
    ],
    [
      "a pinned certificate without a proxy",
      { ...tls, SVC_TRUSTED_PROXIES: undefined, SVC_TRUSTED_PROXY_CERTIFICATES: pin },
      "SVC_TRUSTED_PROXY_CERTIFICATES: needs SVC_TRUSTED_PROXIES, and SVC_TLS_CLIENT_CA",
    ],
    ["a pin that is none", { ...tls, SVC_TRUSTED_PROXY_CERTIFICATES: `${pin}=` }, "must be SHA-256 thumbprints"],
    ["a pin in hexadecimal", { ...tls, SVC_TRUSTED_PROXY_CERTIFICATES: "0".repeat(64) }, "must be SHA-256 thumbprints"],
  ])("refuses to start: %s", (_name, env, problem) => {
    expect(problemsOf(env, undefined, files)).toEqual([expect.stringContaining(problem)]);
  });

  test.each([
    ["headers on loopback, without an issuer", headers],
    ["headers of an ingress on this machine", { ...headers, ...open, SVC_TRUSTED_PROXIES: "127.0.0.1,::1" }],
    ["headers of a pinned ingress", { ...headers, ...open, ...tls, SVC_TRUSTED_PROXY_CERTIFICATES: pin }],
    ["tokens through a pinned ingress", { ...open, ...tls, SVC_TRUSTED_PROXY_CERTIFICATES: pin }],
  ])("but not: %s", (_name, env) => expect(problemsOf(env, undefined, files)).toEqual([]));
});

describe("DPoP", () => {
  const files = filesOf({ "/short": "a".repeat(31).concat("\n"), "/long": "a".repeat(32) });
  const dpop = { SVC_PROOF_OF_POSSESSION: "dpop" };
  const problemsWith = (env: Record<string, string>) => problemsOf(env, undefined, files);

  test.each([
    ["no public URL off loopback", { ...dpop, SVC_LISTEN: "0.0.0.0:8080" }, "SVC_PROOF_OF_POSSESSION: is dpop, but"],
    ["a nonce key that is short", { ...dpop, SVC_DPOP_NONCE_KEY: "/short" }, "SVC_DPOP_NONCE_KEY: holds a secret of"],
    ["a nonce key that is missing", { ...dpop, SVC_DPOP_NONCE_KEY: "/none" }, "SVC_DPOP_NONCE_KEY: cannot be read"],
    ["a nonce key for nothing", { SVC_DPOP_NONCE_KEY: "/long" }, "SVC_DPOP_NONCE_KEY: needs SVC_PROOF_OF_POSSESSION"],
  ])("refuses to start: %s", (_name, env, problem) => {
    expect(problemsWith(env)).toEqual([expect.stringContaining(problem)]);
  });

  test.each([
    ["on loopback", dpop],
    ["with a public URL", { ...dpop, SVC_LISTEN: "0.0.0.0:8080", SVC_PUBLIC_URL: "https://api.example" }],
    ["with nonces", { ...dpop, SVC_DPOP_NONCE_KEY: "/long" }],
  ])("but not: %s", (_name, env) => expect(problemsWith(env)).toEqual([]));
});

describe("sessions", () => {
  const key = generateKeyPairSync("ed25519");
  const files = filesOf({
    "/clients": "",
    "/key": key.privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    "/public": key.publicKey.export({ type: "spki", format: "pem" }).toString(),
  });
  const sessions = { SVC_SESSION_CLIENTS: "/clients", SVC_SESSION_KEY: "/key" };

  test.each([
    ["clients without a key", { SVC_SESSION_CLIENTS: "/clients" }, "SVC_SESSION_CLIENTS: and SVC_SESSION_KEY are set"],
    ["a key without clients", { SVC_SESSION_KEY: "/key" }, "SVC_SESSION_CLIENTS: and SVC_SESSION_KEY are set"],
    ["a key that is missing", { ...sessions, SVC_SESSION_KEY: "/none" }, "SVC_SESSION_KEY: cannot be read (ENOENT)"],
    ["a key that cannot sign", { ...sessions, SVC_SESSION_KEY: "/public" }, "SVC_SESSION_KEY: does not begin with"],
    [
      "tokens that are not accepted",
      { ...sessions, SVC_AUTH_MODE: "trusted_headers" },
      "SVC_SESSION_CLIENTS: is for tokens",
    ],
    [
      "tokens that are not bound as they must be",
      { ...sessions, SVC_PROOF_OF_POSSESSION: "dpop" },
      "SVC_SESSION_CLIENTS: is for tokens that are bound to no DPoP key",
    ],
    [
      "tokens with the issuer's name",
      { ...sessions, SVC_OIDC_ISSUER: "https://api.example", SVC_PUBLIC_URL: "https://api.example/" },
      "SVC_SESSION_CLIENTS: would give its tokens the name of SVC_OIDC_ISSUER",
    ],
  ])("refuses to start: %s", (_name, env, problem) => {
    expect(problemsOf(env, undefined, files)).toEqual([expect.stringContaining(problem)]);
  });

  test.each([
    ["beside an issuer", sessions],
    ["without an issuer", { ...sessions, SVC_OIDC_ISSUER: undefined }],
  ])("but not: %s", (_name, env) => expect(problemsOf(env, undefined, files)).toEqual([]));
});

describe("TLS files", () => {
  const fixture = (name: string): string => readFileSync(new URL(`fixtures/${name}`, import.meta.url), "utf8");
  const certificate = fixture("server.crt.pem");
  const files = filesOf({
    "/own.pem": certificate,
    "/own.key": fixture("server.key.pem"),
    "/other.key": generateKeyPairSync("ed25519").privateKey.export({ type: "pkcs8", format: "pem" }).toString(),
    "/text": "no pem",
    "/broken.pem": certificate.replace(/\n[^\n]+\n/, "\n"),
  });

  test.each([
    ["/none", "/own.key", "SVC_TLS_CERT: cannot be read (ENOENT)"],
    ["/text", "/own.key", "SVC_TLS_CERT: holds no certificate"],
    ["/broken.pem", "/own.key", "SVC_TLS_CERT: holds a certificate that does not parse"],
    ["/own.pem", "/text", "SVC_TLS_KEY: is not a private key"],
    ["/own.pem", "/other.key", "SVC_TLS_KEY: is not the key of SVC_TLS_CERT"],
    ["/own.pem", undefined, "SVC_TLS_CERT: needs SVC_TLS_KEY"],
    [undefined, "/own.key", "SVC_TLS_KEY: needs SVC_TLS_CERT"],
  ])("certificate %s, key %s", (SVC_TLS_CERT, SVC_TLS_KEY, problem) => {
    expect(problemsOf({ SVC_TLS_CERT, SVC_TLS_KEY }, undefined, files)).toEqual([expect.stringContaining(problem)]);
  });

  test.each([
    ["/none", "SVC_TLS_CLIENT_CA: cannot be read (ENOENT)"],
    ["/text", "SVC_TLS_CLIENT_CA: holds no certificate"],
  ])("client authorities %s", (SVC_TLS_CLIENT_CA, problem) => {
    const env = { SVC_TLS_CERT: "/own.pem", SVC_TLS_KEY: "/own.key", SVC_TLS_CLIENT_CA };
    expect(problemsOf(env, undefined, files)).toEqual([expect.stringContaining(problem)]);
  });

  test("client authorities without TLS", () => {
    expect(problemsOf({ SVC_TLS_CLIENT_CA: "/own.pem" }, undefined, files)).toEqual([
      expect.stringContaining("SVC_TLS_CLIENT_CA: needs SVC_TLS_CERT"),
    ]);
  });

  test("a whole set, off loopback and without proxies", () => {
    const env = {
      SVC_LISTEN: "0.0.0.0:8443",
      SVC_TRUSTED_PROXIES: undefined,
      SVC_TLS_CERT: "/own.pem",
      SVC_TLS_KEY: "/own.key",
      SVC_TLS_CLIENT_CA: "/own.pem",
    };
    expect(problemsOf(env, undefined, files)).toEqual([]);
  });
});

describe("files that must stay secret", () => {
  const fixture = (name: string): string => readFileSync(new URL(`fixtures/${name}`, import.meta.url), "utf8");
  const paths = {
    SVC_LEDGER_KEY: "/ledger.key",
    SVC_SESSION_KEY: "/session.key",
    SVC_SESSION_CLIENTS: "/clients.json",
    SVC_TLS_KEY: "/tls.key",
  };
  const settings = { ...paths, SVC_TLS_CERT: "/tls.crt" };
  const filesWith = (modes: Readonly<Record<string, number>>) => {
    const key = fixture("server.key.pem");
    const texts = { "/ledger.key": key, "/session.key": key, "/clients.json": "{}", "/tls.key": key };
    return filesOf({ ...texts, "/tls.crt": fixture("server.crt.pem") }, modes);
  };

  test.each(Object.entries(paths))("%s", (name, path) => {
    for (const mode of [0o600, 0o400, 0o640, 0o440, 0o700])
      expect(problemsOf(settings, undefined, filesWith({ [path]: mode }))).toEqual([]);
    const isOurs = path === "/ledger.key" || path === "/clients.json";
    for (const mode of isOurs ? [0o644, 0o604, 0o660, 0o620, 0o602, 0o666] : [0o602, 0o666]) {
      const [problem, ...others] = problemsOf(settings, undefined, filesWith({ [path]: mode }));
      expect(problem).toMatch(new RegExp(`^${name}: is a file of mode 0${mode.toString(8)}: `));
      expect(others).toEqual([]);
    }
  });

  test("a nonce key", () => {
    const files = filesOf({ "/nonce.key": "n".repeat(40) }, { "/nonce.key": 0o646 });
    const dpop = { SVC_PROOF_OF_POSSESSION: "dpop", SVC_DPOP_NONCE_KEY: "/nonce.key" };
    expect(problemsOf(dpop, undefined, files)).toEqual([expect.stringMatching(/^SVC_DPOP_NONCE_KEY: .*0646/)]);
  });

  test("what others provide may be readable, with a warning", () => {
    const files = filesWith({ "/tls.key": 0o644, "/session.key": 0o664 });
    expect(problemsOf(settings, undefined, files)).toEqual([]);
    const config = { tlsKey: "/tls.key", sessionKey: "/session.key", ledgerKey: "/ledger.key" };
    expect(openSecretFiles(config, files).map(({ key, refused }) => [key, refused])).toEqual([
      ["tlsKey", false],
      ["sessionKey", false],
    ]);
  });

  test("a certificate is no secret, and a system without permissions is believed", () => {
    expect(problemsOf(settings, undefined, filesWith({ "/tls.crt": 0o644 }))).toEqual([]);
    const files = { ...filesWith({ "/tls.key": 0o666 }), permissions: () => undefined };
    expect(problemsOf(settings, undefined, files)).toEqual([]);
  });
});

describe("a PostgreSQL store", () => {
  test.each([
    "postgres://svc@db.example/platform",
    "postgres://svc:secret@db.example/platform?sslmode=require",
    "postgres://svc@db.example/platform?sslmode=disable",
    "postgres://db.example/platform?sslmode=verify-full",
  ])("%s is refused, and not repeated", (value) => {
    const [problem, ...others] = problemsOf({ SVC_STORE: value });
    expect(problem).toMatch(/^SVC_STORE: must /);
    expect(problem).not.toContain("secret");
    expect(others).toEqual([]);
  });

  test.each([
    "postgres://svc@db.example/platform?sslmode=verify-full",
    "postgres://svc@127.0.0.1:5433/platform",
    "postgres://svc@%2Frun%2Fpostgresql/platform",
  ])("%s is taken", (value) => {
    expect(problemsOf({ SVC_STORE: value })).toEqual([]);
  });
});
