import { generateKeyPairSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import type { Environment } from "../../../src/config/config.ts";
import { openSecretFiles } from "../../../src/config/files.ts";
import { filesOf, problemsOf } from "./read.ts";

/** Value of the setting for so many witnesses. */
const witnesses = (count: number) =>
  JSON.stringify(
    Object.fromEntries(
      Array.from({ length: count }, (_, i) => [`w.example/${i}+0000000${i}+AAA${i}`, `https://w.example/${i}`]),
    ),
  );

const fixture = (name: string): string => readFileSync(new URL(`fixtures/${name}`, import.meta.url), "utf8");
const certificate = fixture("server.crt.pem");
const key = generateKeyPairSync("ed25519");
const otherKey = key.privateKey.export({ type: "pkcs8", format: "pem" }).toString();
const files = filesOf({
  ...{ "/own.pem": certificate, "/own.key": fixture("server.key.pem"), "/other.key": otherKey },
  "/public": key.publicKey.export({ type: "spki", format: "pem" }).toString(),
  "/broken.pem": certificate.replace(/\n[^\n]+\n/, "\n"),
  ...{ "/text": "no pem", "/empty": "", "/short": "a".repeat(31).concat("\n"), "/long": "a".repeat(32) },
});

const pin = Buffer.alloc(32).toString("base64url");
const open = { SVC_LISTEN: "0.0.0.0:8443" };
const noProxy = { SVC_TRUSTED_PROXIES: undefined };
const noIssuer = { SVC_OIDC_ISSUER: undefined };
const noProof = { SVC_PROOF_OF_POSSESSION: "none" };
const headers = { SVC_AUTH_MODE: "trusted_headers", ...noIssuer };
const either = { SVC_AUTH_MODE: "bearer_token_or_trusted_headers" };
const pinned = { SVC_TRUSTED_PROXY_CERTIFICATES: pin };
const ownTls = { SVC_TLS_CERT: "/own.pem", SVC_TLS_KEY: "/own.key" };
const tls = { ...ownTls, SVC_TLS_CLIENT_CA: "/own.pem" };
const dpop = { SVC_PROOF_OF_POSSESSION: "dpop" };
const sessions = { SVC_SESSION_CLIENTS: "/empty", SVC_SESSION_KEY: "/other.key" };
const database = { SVC_STORE: "postgres://svc@localhost/svc" };
const attributeHeaders = (value: string) => ({ SVC_ATTRIBUTE_HEADERS: value });
const witnessed = (value: string) => ({ SVC_WITNESSES: value });

/** What is set besides a complete good configuration, and the one problem. */
const weak: readonly (readonly [env: Environment, problem: string])[] = [
  [{ SVC_OIDC_ISSUER: "http://issuer.example" }, "SVC_OIDC_ISSUER: must use https"],
  [{ SVC_OIDC_ISSUER: "http://localhost.example" }, "SVC_OIDC_ISSUER: must use https"],
  [{ ...open, ...noProxy, ...noProof }, "SVC_LISTEN: would accept plaintext off loopback"],
  [noProxy, "SVC_PROOF_OF_POSSESSION: is mtls, but no client certificate can be seen"],
  [{ SVC_OPS_LISTEN: "127.0.0.1:8080" }, "SVC_LISTEN: is the same address"],
  [{ SVC_POLICY_DIR: "/empty" }, "SVC_POLICY_DIR: /empty is not a directory"],
  [{ SVC_POLICY_DIR: "/none" }, "SVC_POLICY_DIR: /none cannot be read (ENOENT)"],
  [{ ...database, SVC_STORE_PASSWORD_FILE: "/none" }, "SVC_STORE_PASSWORD_FILE: cannot be read (ENOENT)"],

  [attributeHeaders('{"clearance":"x-clearance"}'), "SVC_ATTRIBUTE_HEADERS: is for identity headers"],
  [
    { ...attributeHeaders('{"clearance":"x-acme-tenant-id"}'), ...headers, SVC_HEADER_PREFIX: "x-acme-" },
    "SVC_ATTRIBUTE_HEADERS: names a header that says something else",
  ],
  ...['["x-a"]', '{"Clearance":"x-a"}', '{"__proto__":"x-a"}', '{"a":"X-A"}', '{"a":"authorization"}', '{"a":1}'].map(
    (value) => [{ ...attributeHeaders(value), ...either }, "SVC_ATTRIBUTE_HEADERS:"] as const,
  ),
  [{ ...attributeHeaders('{"a":"x-a","b":"x-a"}'), ...either }, "SVC_ATTRIBUTE_HEADERS: names a header twice"],

  [{ SVC_WITNESS_QUORUM: "1" }, "SVC_WITNESS_QUORUM: needs SVC_WITNESSES"],
  [{ ...witnessed(witnesses(2)), SVC_WITNESS_QUORUM: "1" }, "SVC_WITNESS_QUORUM: must be more than half"],
  [{ ...witnessed(witnesses(2)), SVC_WITNESS_QUORUM: "3" }, "SVC_WITNESS_QUORUM: must be more than half"],
  [witnessed('{"w.example/1+00000001+AAAA":"http://w.example/"}'), "w.example/1+00000001+AAAA: must use https"],
  [witnessed('{"w.example":"https://w.example/"}'), "SVC_WITNESSES: w.example: must be a verifier key"],
  [witnessed("{}"), "SVC_WITNESSES: must name 1 to 16"],
  [
    witnessed('{"w.example/1+00000001+A+AA":"https://w.example/1","w.example/2+00000002+A+AA":"https://w.example/2"}'),
    "SVC_WITNESSES: names a witness's key twice",
  ],

  // Which callers may say who they are.
  [noIssuer, "SVC_OIDC_ISSUER: is required"],
  [{ ...either, ...noIssuer }, "SVC_OIDC_ISSUER: is required"],
  [{ ...headers, ...noProof, ...noProxy }, "SVC_AUTH_MODE: accepts identity headers, but from no ingress"],
  [{ ...headers, ...open }, "SVC_AUTH_MODE: would accept identity headers over an unauthenticated hop"],
  [{ ...either, ...open, ...tls }, "SVC_AUTH_MODE: would accept identity headers over an unauthenticated hop"],
  [
    { ...headers, ...open, SVC_TRUSTED_PROXIES: "127.0.0.0/8,10.0.0.1" },
    "SVC_AUTH_MODE: would accept identity headers over an unauthenticated hop",
  ],
  [pinned, "SVC_TRUSTED_PROXY_CERTIFICATES: needs SVC_TRUSTED_PROXIES, and SVC_TLS_CLIENT_CA"],
  [{ ...tls, ...noProxy, ...pinned }, "SVC_TRUSTED_PROXY_CERTIFICATES: needs SVC_TRUSTED_PROXIES"],
  [{ ...tls, SVC_TRUSTED_PROXY_CERTIFICATES: `${pin}=` }, "must be SHA-256 thumbprints"],
  [{ ...tls, SVC_TRUSTED_PROXY_CERTIFICATES: "0".repeat(64) }, "must be SHA-256 thumbprints"],

  [{ ...dpop, ...open }, "SVC_PROOF_OF_POSSESSION: is dpop, but"],
  [{ ...dpop, SVC_DPOP_NONCE_KEY: "/short" }, "SVC_DPOP_NONCE_KEY: holds a secret of"],
  [{ ...dpop, SVC_DPOP_NONCE_KEY: "/none" }, "SVC_DPOP_NONCE_KEY: cannot be read"],
  [{ SVC_DPOP_NONCE_KEY: "/long" }, "SVC_DPOP_NONCE_KEY: needs SVC_PROOF_OF_POSSESSION"],

  [{ SVC_SESSION_CLIENTS: "/empty" }, "SVC_SESSION_CLIENTS: and SVC_SESSION_KEY are set"],
  [{ SVC_SESSION_KEY: "/other.key" }, "SVC_SESSION_CLIENTS: and SVC_SESSION_KEY are set"],
  [{ ...sessions, SVC_SESSION_KEY: "/none" }, "SVC_SESSION_KEY: cannot be read (ENOENT)"],
  [{ ...sessions, SVC_SESSION_KEY: "/public" }, "SVC_SESSION_KEY: does not begin with"],
  [{ ...sessions, SVC_AUTH_MODE: "trusted_headers" }, "SVC_SESSION_CLIENTS: is for tokens"],
  [{ ...sessions, ...dpop }, "SVC_SESSION_CLIENTS: is for tokens that are bound to no DPoP key"],
  [
    { ...sessions, SVC_OIDC_ISSUER: "https://api.example", SVC_PUBLIC_URL: "https://api.example/" },
    "SVC_SESSION_CLIENTS: would give its tokens the name of SVC_OIDC_ISSUER",
  ],

  [{ ...ownTls, SVC_TLS_CERT: "/none" }, "SVC_TLS_CERT: cannot be read (ENOENT)"],
  [{ ...ownTls, SVC_TLS_CERT: "/text" }, "SVC_TLS_CERT: holds no certificate"],
  [{ ...ownTls, SVC_TLS_CERT: "/broken.pem" }, "SVC_TLS_CERT: holds a certificate that does not parse"],
  [{ ...ownTls, SVC_TLS_KEY: "/text" }, "SVC_TLS_KEY: is not a private key"],
  [{ ...ownTls, SVC_TLS_KEY: "/other.key" }, "SVC_TLS_KEY: is not the key of SVC_TLS_CERT"],
  [{ SVC_TLS_CERT: "/own.pem" }, "SVC_TLS_CERT: needs SVC_TLS_KEY"],
  [{ SVC_TLS_KEY: "/own.key" }, "SVC_TLS_KEY: needs SVC_TLS_CERT"],
  [{ ...tls, SVC_TLS_CLIENT_CA: "/none" }, "SVC_TLS_CLIENT_CA: cannot be read (ENOENT)"],
  [{ ...tls, SVC_TLS_CLIENT_CA: "/text" }, "SVC_TLS_CLIENT_CA: holds no certificate"],
  [{ SVC_TLS_CLIENT_CA: "/own.pem" }, "SVC_TLS_CLIENT_CA: needs SVC_TLS_CERT"],
];

test.each(weak)("a service with %j does not start: %s", (env, problem) => {
  expect(problemsOf(env, undefined, files)).toEqual([expect.stringContaining(problem)]);
});

test.each<[what: string, Environment]>([
  ["plaintext off loopback behind an ingress", open],
  ["no proof of possession on loopback", { ...noProxy, ...noProof }],
  ["both listeners on any free port", { SVC_LISTEN: "127.0.0.1:0", SVC_OPS_LISTEN: "127.0.0.1:0" }],
  ["health and metrics off loopback", { SVC_OPS_LISTEN: "0.0.0.0:9090" }],
  ["a password file", { ...database, SVC_STORE_PASSWORD_FILE: "/empty" }],
  ["headers on loopback, without an issuer", headers],
  ["headers of an ingress on this machine", { ...headers, ...open, SVC_TRUSTED_PROXIES: "127.0.0.1,::1" }],
  ["headers of a pinned ingress", { ...headers, ...open, ...tls, ...pinned }],
  ["tokens through a pinned ingress", { ...open, ...tls, ...pinned }],
  ["DPoP on loopback", dpop],
  ["DPoP with a public URL", { ...dpop, ...open, SVC_PUBLIC_URL: "https://api.example" }],
  ["DPoP with nonces", { ...dpop, SVC_DPOP_NONCE_KEY: "/long" }],
  ["sessions beside an issuer", sessions],
  ["sessions without an issuer", { ...sessions, ...noIssuer }],
  ["TLS off loopback, without proxies", { ...open, ...noProxy, ...tls }],
])("a service with %s starts", (_what, env) => {
  expect(problemsOf(env, undefined, files)).toEqual([]);
});

test("a missing file is reported beside all other problems", () => {
  const env = { SVC_POLICY_DIR: "/none", SVC_STORE_PASSWORD_FILE: "/none", SVC_LOG_LEVEL: "loud" };
  expect(problemsOf(env)).toEqual([
    expect.stringContaining("SVC_LOG_LEVEL: "),
    "SVC_POLICY_DIR: /none cannot be read (ENOENT)",
    "SVC_STORE_PASSWORD_FILE: cannot be read (ENOENT)",
  ]);
});

describe("files that must stay secret", () => {
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

  test("a nonce key is refused if others can read it", () => {
    const files = filesOf({ "/nonce.key": "n".repeat(40) }, { "/nonce.key": 0o646 });
    const dpop = { SVC_PROOF_OF_POSSESSION: "dpop", SVC_DPOP_NONCE_KEY: "/nonce.key" };
    expect(problemsOf(dpop, undefined, files)).toEqual([expect.stringMatching(/^SVC_DPOP_NONCE_KEY: .*0646/)]);
  });

  test("mounted secrets may be readable by others, with a warning", () => {
    const files = filesWith({ "/tls.key": 0o644, "/session.key": 0o664 });
    expect(problemsOf(settings, undefined, files)).toEqual([]);
    const config = { tlsKey: "/tls.key", sessionKey: "/session.key", ledgerKey: "/ledger.key" };
    expect(openSecretFiles(config, files).map(({ key, refused }) => [key, refused])).toEqual([
      ["tlsKey", false],
      ["sessionKey", false],
    ]);
  });

  test("an embedded store may be readable by others, with a warning, and not writable", () => {
    const store = { SVC_STORE: "sqlite:/platform.db" };
    const withMode = (mode: number) => filesOf({ "/platform.db": "" }, { "/platform.db": mode });
    expect(problemsOf(store, undefined, withMode(0o644))).toEqual([]);
    expect(openSecretFiles({ store: { kind: "sqlite", path: "/platform.db" } }, withMode(0o644))).toHaveLength(1);
    expect(problemsOf(store, undefined, withMode(0o602))).toEqual([expect.stringMatching(/^SVC_STORE: .*0602/)]);
  });

  test("a certificate is no secret, and a file system without permissions is accepted", () => {
    expect(problemsOf(settings, undefined, filesWith({ "/tls.crt": 0o644 }))).toEqual([]);
    const files = { ...filesWith({ "/tls.key": 0o666 }), permissions: () => undefined };
    expect(problemsOf(settings, undefined, files)).toEqual([]);
  });
});
