/** Tokens of a real Keycloak: bound to a DPoP key, bound to a certificate, and what else it signs for the same audience. */
import { createHash } from "node:crypto";
import { createReadStream } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { decodeJwt } from "jose";
import { describe, expect, test } from "vitest";
import composeRealm from "../../deploy/compose/realm.json" with { type: "json" };
import { defaultRouteScopes } from "../../src/config/values.ts";
import { createAuthority, type IssuedCertificate } from "../harness/certificates.ts";
import { folderForFile } from "../harness/folder.ts";
import { rest, startGateway } from "../harness/gateway.ts";
import { forFile, forTest } from "../harness/lifetimes.ts";
import { freePort } from "../harness/loopback.ts";
import { runProgram, startProgram } from "../harness/process.ts";
import { mintProof } from "../harness/proofs.ts";
import { tlsFetch, whoamiByGrpc, whoamiByRest } from "../harness/tls-callers.ts";
import { newTestKey, type TestKey } from "../harness/tokens.ts";

const version = "26.4.0";
const distribution = { name: `keycloak-${version}`, artifact: `org.keycloak:keycloak-quarkus-dist:${version}:zip` };
const sha256 = "1b6a11a2726ac8a8dc9c91d5fafe989a75ce4f1622d7f7b45c21d5bc16629c0a";
const startTimeoutMs = 500_000;
const clientSecret = "a secret of the test";
const routeScopes = new Set(Object.values(defaultRouteScopes).flat());
const audience = "api://svc-platform-api";
const owner = newTestKey("ES256", "owner");
const thief = newTestKey("ES256", "thief");
const folder = folderForFile("keycloak");
const authority = await createAuthority(folder, "authority");
const serverCa = authority.cert;
const payroll = await authority.issue("payroll", "/CN=payroll-service");
const stranger = await authority.issue("stranger", "/CN=stranger");
const keycloak = await forFile(startKeycloak());

const gatewayWith = (env: Record<string, string | undefined>) =>
  startGateway({ env: { SVC_OIDC_ISSUER: keycloak.issuer, ...env } });

/** Tokens must be bound to certificates, which the gateway asks for itself. */
const mutualTls = {
  SVC_PROOF_OF_POSSESSION: "mtls",
  SVC_TLS_CERT: join(folder, "keycloak.crt.pem"),
  SVC_TLS_KEY: join(folder, "keycloak.key.pem"),
  SVC_TLS_CLIENT_CA: join(folder, "authority.crt.pem"),
};

/** Asks with the token and, over TLS, with the certificate. */
const callWith = (whoami: typeof whoamiByRest, url: string, token: string) => (own: IssuedCertificate | undefined) =>
  whoami(url, { ca: serverCa, cert: own?.cert, key: own?.key }, { authorization: `Bearer ${token}` });

describe("tokens bound to a DPoP key", async () => {
  const { url } = await forFile(gatewayWith({ SVC_PROOF_OF_POSSESSION: "dpop" }));
  const { access_token: token } = await tokensOf({ client_id: "dpop-client" }, owner);
  const call = (key: TestKey | undefined, scheme = "DPoP") =>
    rest(`${url}/v1/sdk/whoami`, {
      headers: {
        authorization: `${scheme} ${token}`,
        ...(key !== undefined && { dpop: proofFor("GET", `${url}/v1/sdk/whoami`, key, token) }),
      },
    });

  test("are accepted with a proof by their key", async () => {
    expect(decodeJwt(token)).toMatchObject({ typ: "DPoP", cnf: { jkt: expect.any(String) } });
    const { status, body } = await call(owner);
    expect([status, body.caller]).toEqual([200, expect.objectContaining({ tenant_id: "tenant-a" })]);
  });

  test("are refused without a proof, with another key's, and as bearer tokens", async () => {
    for (const answer of [await call(undefined), await call(thief), await call(owner, "Bearer")]) {
      expect(answer.status).toBe(401);
      expect(answer.body.error.reason).toBe("proof_of_possession_failed");
      expect(answer.headers.get("www-authenticate")).toMatch(/^DPoP /);
    }
  });
});

describe("tokens bound to a certificate", async () => {
  const { url } = await forFile(gatewayWith(mutualTls));
  const { access_token: token } = await tokensOf({ client_id: "mtls-client" }, undefined, payroll);

  test.each([
    ["REST", whoamiByRest],
    ["gRPC", whoamiByGrpc],
  ] as const)("are accepted with it, and refused with another or none, over %s", async (_name, whoami) => {
    const call = callWith(whoami, url, token);
    expect(decodeJwt(token)).toHaveProperty("cnf", { "x5t#S256": payroll.thumbprint });
    expect(await call(payroll)).toEqual({ tenant: "tenant-a", source: "bearer_token" });
    for (const other of [stranger, undefined]) {
      expect(await call(other)).toEqual({ reason: "proof_of_possession_failed" });
    }
  });
});

test("the realm of the compose file has a client whose certificate-bound tokens open every route", async () => {
  const issuer = keycloak.issuer.replace(/[^/]+$/, "compose");
  const { url } = await forTest(gatewayWith({ ...mutualTls, SVC_OIDC_ISSUER: issuer }));
  const form = { grant_type: "client_credentials", client_id: "payroll-service", client_secret: clientSecret };
  const body = new URLSearchParams(form).toString();
  const type = { "content-type": "application/x-www-form-urlencoded" };
  const endpoint = keycloak.tlsTokenEndpointOf("compose");
  const { access_token: token } = (await (await postOverTls(endpoint, type, body, payroll)).json()) as Tokens;
  const claims = decodeJwt(token);
  expect(String(claims.scope).split(" ")).toEqual(expect.arrayContaining(["platform-api.access", ...routeScopes]));
  const call = callWith(whoamiByRest, url, token);
  expect(await call(payroll)).toEqual({ tenant: "tenant-a", source: "bearer_token" });
  expect(await call(stranger)).toEqual({ reason: "proof_of_possession_failed" });
});

describe("of the tokens of one login, for an audience that is the client itself,", () => {
  test("only the access token is accepted, and neither the ID token nor the refresh token", async () => {
    const env = { SVC_PROOF_OF_POSSESSION: "none", SVC_OIDC_AUDIENCE: "login-client" };
    const { url } = await forTest(gatewayWith(env));
    const login = { grant_type: "password", username: "person", password: "a password of the test" };
    const { access_token, id_token, refresh_token } = await tokensOf({
      ...{ client_id: "login-client", scope: "openid" },
      ...login,
    });
    expect(decodeJwt(id_token)).toMatchObject({ aud: "login-client", tenant_id: "tenant-a", typ: "ID" });
    expect((await rest(`${url}/v1/sdk/whoami`, { token: access_token })).status).toBe(200);
    for (const token of [id_token, refresh_token]) {
      const { status, body } = await rest(`${url}/v1/sdk/whoami`, { token });
      expect([status, body.error.reason]).toEqual([401, "invalid_token"]);
    }
  });
});

describe("tokens that are introspected at Keycloak", () => {
  const introspection = (path: string, changes: Record<string, string>) => ({
    endpoint: `${path}/introspect`,
    client_id: "gateway-client",
    ...changes,
  });

  async function startWith(rule: object, env: Record<string, string> = {}) {
    const file = join(folder, "issuers.yaml");
    const tenants = { list: ["tenant-a"] };
    await writeFile(file, JSON.stringify({ issuers: { [keycloak.issuer]: { tenants, introspection: rule } } }));
    return forTest(gatewayWith({ SVC_OIDC_ISSUER: undefined, SVC_OIDC_ISSUERS: file, ...env }));
  }

  test("are accepted until they are revoked, and never for another audience", async () => {
    const secret = join(folder, "gateway-secret");
    await writeFile(secret, clientSecret, { mode: 0o600 });
    const { url, opsUrl } = await startWith(introspection(keycloak.tokenEndpoint, { client_secret_file: secret }));
    const { access_token: token } = await tokensOf({ client_id: "plain-client" });
    const { access_token: revoked } = await tokensOf({ client_id: "plain-client" });
    const { access_token: foreign } = await tokensOf({ client_id: "foreign-client" });
    const call = async (presented: string) => {
      const { status, body } = await rest(`${url}/v1/sdk/whoami`, { token: presented });
      return [status, status === 200 ? body.caller.tenant_id : body.error.reason];
    };
    expect(await call(token)).toEqual([200, "tenant-a"]);
    const body = new URLSearchParams({ client_id: "plain-client", client_secret: clientSecret, token: revoked });
    const revocation = keycloak.tokenEndpoint.replace(/token$/, "revoke");
    expect((await fetch(revocation, { method: "POST", body })).status).toBe(200);
    expect(await call(revoked)).toEqual([401, "invalid_token"]);
    expect(await call(foreign)).toEqual([401, "invalid_token"]);
    expect(await call("no-such-token")).toEqual([401, "invalid_token"]);
    const { body: caps } = await rest(`${url}/v1/sdk/capabilities`, { token });
    expect(caps.auth_configuration.oidc_issuer).toBe(keycloak.issuer);
    const metrics = await (await fetch(`${opsUrl}/metrics`)).text();
    expect(metrics).toMatch(/^svc_introspections_total\{issuer="[^"]+",result="inactive"\} [1-9]/m);
  });

  test("stay bound to their DPoP key", async () => {
    const secret = join(folder, "gateway-secret");
    const env = { SVC_PROOF_OF_POSSESSION: "dpop" };
    const { url } = await startWith(introspection(keycloak.tokenEndpoint, { client_secret_file: secret }), env);
    const { access_token: token } = await tokensOf({ client_id: "dpop-client" }, owner);
    const call = (key: TestKey) =>
      rest(`${url}/v1/sdk/whoami`, {
        headers: { authorization: `DPoP ${token}`, dpop: proofFor("GET", `${url}/v1/sdk/whoami`, key, token) },
      });
    expect((await call(owner)).status).toBe(200);
    expect((await call(thief)).body.error.reason).toBe("proof_of_possession_failed");
  });
});

type Tokens = Readonly<Record<"access_token" | "id_token" | "refresh_token", string>>;

/** Asks Keycloak, with a DPoP proof or over TLS with a certificate where one is given. */
async function tokensOf(form: Record<string, string>, key?: TestKey, certificate?: IssuedCertificate): Promise<Tokens> {
  const body = new URLSearchParams({ grant_type: "client_credentials", client_secret: clientSecret, ...form });
  const endpoint = certificate === undefined ? keycloak.tokenEndpoint : keycloak.tlsTokenEndpointOf("platform");
  const headers = {
    "content-type": "application/x-www-form-urlencoded",
    ...(key !== undefined && { dpop: proofFor("POST", endpoint, key) }),
  };
  const answer =
    certificate === undefined
      ? await fetch(endpoint, { method: "POST", headers, body })
      : await postOverTls(endpoint, headers, body.toString(), certificate);
  const tokens = (await answer.json()) as Tokens;
  if (tokens.access_token === undefined) throw new Error(`Keycloak refused: ${JSON.stringify(tokens)}`);
  return tokens;
}

function postOverTls(url: string, headers: Record<string, string>, body: string, { cert, key }: IssuedCertificate) {
  return tlsFetch(url, { method: "POST", headers, ca: serverCa, cert, key, agent: false }, body);
}

function proofFor(method: string, url: string, key: TestKey, accessToken = ""): string {
  return mintProof(key, { method, url, accessToken, nowMs: Date.now() }, accessToken === "" ? { ath: undefined } : {});
}

/** What docs/authentication.md asks of a realm, as Keycloak imports it. */
function realm() {
  const mapper = (name: string, protocolMapper: string, config: Record<string, string>) => ({
    ...{ name, protocolMapper, protocol: "openid-connect" },
    config: { "access.token.claim": "true", "id.token.claim": "true", ...config },
  });
  const fixed = (claim: string, value: string) =>
    mapper(claim, "oidc-hardcoded-claim-mapper", {
      ...{ "claim.name": claim, "claim.value": value, "jsonType.label": "String" },
    });
  const audienceOf = (value: string) =>
    mapper("audience", "oidc-audience-mapper", { "included.custom.audience": value, "id.token.claim": "false" });
  const client = (clientId: string, attributes: Record<string, string>, aud = audience) => ({
    ...{ clientId, secret: clientSecret, publicClient: false, standardFlowEnabled: false, attributes },
    serviceAccountsEnabled: true,
    defaultClientScopes: ["platform-api.access", "policy.read"],
    protocolMappers: [
      audienceOf(aud),
      fixed("tenant_id", "tenant-a"),
      fixed("principal_id", clientId),
      // In scopes of Keycloak's own, which a realm that names its scopes does not get.
      mapper("sub", "oidc-sub-mapper", {}),
    ],
  });
  const scope = (name: string) => ({
    ...{ name, protocol: "openid-connect", attributes: { "include.in.token.scope": "true" } },
  });
  const login = client("login-client", {}, "login-client");
  return {
    ...{ realm: "platform", enabled: true, sslRequired: "none" },
    clientScopes: [scope("platform-api.access"), scope("policy.read")],
    clients: [
      client("dpop-client", { "dpop.bound.access.tokens": "true" }),
      client("plain-client", {}),
      client("gateway-client", {}),
      client("foreign-client", {}, "api://another"),
      client("mtls-client", { "tls.client.certificate.bound.access.tokens": "true" }),
      { ...login, serviceAccountsEnabled: false, directAccessGrantsEnabled: true },
    ],
    users: [
      {
        ...{ username: "person", enabled: true, email: "person@example.com", emailVerified: true },
        ...{ firstName: "A", lastName: "Person" },
        credentials: [{ type: "password", value: "a password of the test", temporary: false }],
      },
    ],
  };
}

/** Starts Keycloak on loopback, with nothing kept. Maven keeps what it downloads, 160 MB, in its own cache. */
async function startKeycloak() {
  const home = await unpack();
  await mkdir(join(home, "data/import"), { recursive: true });
  for (const each of [realm(), { ...composeRealm, realm: "compose" }])
    await writeFile(join(home, `data/import/${each.realm}.json`), JSON.stringify(each));
  const server = await authority.issue("keycloak", "/CN=keycloak", "IP:127.0.0.1");
  const [httpPort, httpsPort] = await Promise.all([freePort(), freePort()]);
  const url = `http://127.0.0.1:${httpPort}`;
  const settings = {
    "http-host": "127.0.0.1",
    "http-port": httpPort,
    "https-port": httpsPort,
    "https-certificate-file": server.certFile,
    "https-certificate-key-file": server.keyFile,
    "https-client-auth": "request",
    "truststore-paths": authority.certFile,
    // The name in tokens, whichever way they are asked for.
    hostname: url,
    db: "dev-mem",
  };
  const options = Object.entries(settings).map(([name, value]) => `--${name}=${value}`);
  const java = "-XX:TieredStopAtLevel=1 -Xmx768m";
  const env = { ...process.env, PAYROLL_CLIENT_SECRET: clientSecret, JAVA_OPTS_APPEND: java };
  const issuer = `${url}/realms/platform`;
  const isReady = async () => expect((await fetch(`${issuer}/.well-known/openid-configuration`)).status).toBe(200);
  const args = [join(home, "bin/kc.sh"), "start-dev", "--import-realm", ...options];
  // Nothing of it is kept, so that nothing need be put in order.
  const { stop } = await startProgram("bash", args, isReady, { options: { env }, timeoutMs: startTimeoutMs });
  const path = (name: string) => `/realms/${name}/protocol/openid-connect/token`;
  return {
    issuer,
    tokenEndpoint: `${url}${path("platform")}`,
    /** Over TLS clients may show a certificate. */
    tlsTokenEndpointOf: (name: string) => `https://127.0.0.1:${httpsPort}${path(name)}`,
    stop,
  };
}

/** Fetches the distribution with Maven, and unpacks what is byte for byte the expected one. */
async function unpack(): Promise<string> {
  const copy = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy";
  const where = [`-Dartifact=${distribution.artifact}`, `-DoutputDirectory=${folder}`, "-Dmdep.stripVersion=true"];
  await runProgram("mvn", ["--quiet", "--batch-mode", copy, ...where], { cwd: folder });
  const archive = join(folder, "keycloak-quarkus-dist.zip");
  const digest = createHash("sha256");
  await pipeline(createReadStream(archive), digest);
  const found = digest.digest("hex");
  if (found !== sha256) throw new Error(`${distribution.artifact}: SHA-256 is ${found}, expected ${sha256}`);
  await runProgram("jar", ["xf", archive], { cwd: folder });
  return join(folder, distribution.name);
}
