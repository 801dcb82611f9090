import { createHash, X509Certificate } from "node:crypto";
import { readFileSync } from "node:fs";
import { request } from "node:https";
import { decodeJwt, decodeProtectedHeader } from "jose";
import { expect, onTestFinished, test } from "vitest";
import { type Issuer, type IssuerOptions, startIssuer } from "../../../dev/issuer.ts";
import type { TokenOptions } from "../../../src/auth/access-tokens.ts";
import { memoryReplayStore, mintProof } from "../../harness/proofs.ts";
import { newTestKey, type TestKey } from "../../harness/tokens.ts";
import { authenticatorOf, bearer, inboundOf, manualTime, patient, refusalOf } from "./world.ts";

const fixture = (name: string) => readFileSync(new URL(`fixtures/${name}.pem`, import.meta.url), "utf8");
const certificate = new X509Certificate(fixture("client.crt"));
const boundClient = {
  clientId: "bound",
  clientSecret: "a secret: with / odd + characters",
  tenantId: "tenant-b",
  principalId: "bound",
  scopes: ["platform-api.access"],
  certificateBound: true,
};

async function issuerOf(options: IssuerOptions = {}): Promise<Issuer> {
  const issuer = await startIssuer(options);
  onTestFinished(() => issuer.stop());
  return issuer;
}

function tokenRequest({ clients }: Issuer, scope: string) {
  const { clientId, clientSecret } = clients[0] ?? boundClient;
  const userPass = `${encodeURIComponent(clientId)}:${encodeURIComponent(clientSecret)}`;
  return {
    method: "POST",
    headers: {
      authorization: `Basic ${Buffer.from(userPass).toString("base64")}`,
      "content-type": "application/x-www-form-urlencoded",
    },
    body: new URLSearchParams({ grant_type: "client_credentials", scope }).toString(),
  };
}

async function tokenFrom(issuer: Issuer, scope = "platform-api.access"): Promise<string> {
  const response = await fetch(issuer.tokenEndpoint, tokenRequest(issuer, scope));
  expect(response.status).toBe(200);
  return ((await response.json()) as { access_token: string }).access_token;
}

/** The library takes the time from the machine, so these tests do too. */
function started(issuer: Issuer, options: Partial<TokenOptions> = {}) {
  const authenticator = authenticatorOf(issuer.url, manualTime(Date.now()), options);
  authenticator.start();
  return authenticator;
}

test.each(["RS256", "PS256", "ES256", "EdDSA"] as const)("its %s tokens are taken", async (algorithm) => {
  const issuer = await issuerOf({ algorithm });
  const token = await tokenFrom(issuer, "platform-api.access policy.read");
  expect(decodeProtectedHeader(token)).toMatchObject({ alg: algorithm, typ: "at+jwt" });
  expect(await started(issuer).authenticate(bearer(token), patient)).toEqual({
    tenantId: "tenant-a",
    principalId: "payroll-service",
    subject: "payroll-service",
    authSource: "bearer_token",
    scopes: ["platform-api.access", "policy.read"],
  });
});

test("a token bound by the token request's certificate is worth nothing without it", async () => {
  const issuer = await issuerOf({ clients: [boundClient], certificateOf: () => certificate });
  const { headerValues, ...edge } = bearer(await tokenFrom(issuer));
  const ingress = { networks: [], certificates: [] };
  const rule = { mode: "mtls", headerName: "x-cert", format: "thumbprint", ingress } as const;
  const authenticator = started(issuer, { proofOfPossession: rule });
  const withKey = { ...edge, headerValues, clientCertificate: () => certificate.raw };
  expect(await authenticator.authenticate(withKey, patient)).toHaveProperty("tenantId", "tenant-b");
  const without = authenticator.authenticate({ ...edge, headerValues }, patient);
  expect(await refusalOf(without)).toHaveProperty("reason", "proof_of_possession_failed");
  const unbound = started(issuer).authenticate(withKey, patient);
  expect(await refusalOf(unbound)).toHaveProperty("reason", "proof_of_possession_failed");
});

test("a token bound by the token request's DPoP proof needs a proof on every call, by the same key", async () => {
  const client = { ...boundClient, certificateBound: false, dpopBound: true };
  const issuer = await issuerOf({ clients: [client] });
  const key = newTestKey("ES256", "caller");
  const asked = tokenRequest(issuer, "platform-api.access");
  const forToken = { method: "POST", url: issuer.tokenEndpoint, accessToken: "", nowMs: Date.now() };
  const dpop = mintProof(key, forToken, { ath: undefined });
  const response = await fetch(issuer.tokenEndpoint, { ...asked, headers: { ...asked.headers, dpop } });
  const granted = (await response.json()) as { access_token: string; token_type: string };
  expect(granted.token_type).toBe("DPoP");
  expect((await fetch(issuer.tokenEndpoint, asked)).status).toBe(400);

  const replayStore = memoryReplayStore();
  const proofOfPossession = { mode: "dpop", publicUrl: "https://api.example", replayStore, nonces: undefined } as const;
  const authenticator = started(issuer, { proofOfPossession });
  const call = (signer: TestKey) => {
    const target = { ...forToken, method: "GET", url: "https://api.example/v1/sdk/whoami" };
    const proof = mintProof(signer, { ...target, accessToken: granted.access_token });
    return authenticator.authenticate(
      inboundOf({ authorization: `DPoP ${granted.access_token}`, dpop: proof }),
      patient,
    );
  };
  expect(await call(key)).toHaveProperty("tenantId", "tenant-b");
  const stolen = await refusalOf(call(newTestKey("ES256", "thief")));
  expect(stolen.message).toBe("the access token is bound to another DPoP key");
});

test("over TLS it binds to the certificate of the session, and mints none without one", async () => {
  const tls = { key: fixture("server.key"), cert: fixture("server.crt") };
  const issuer = await issuerOf({ clients: [boundClient], tls });
  const own = { key: fixture("client.key"), cert: fixture("client.crt") };
  const { access_token } = JSON.parse(await post(issuer, own)) as { access_token: string };
  const thumbprint = createHash("sha256").update(certificate.raw).digest("base64url");
  expect(decodeJwt(access_token)).toMatchObject({ cnf: { "x5t#S256": thumbprint } });
  expect(JSON.parse(await post(issuer, {}))).toHaveProperty("error", "invalid_grant");
});

/** A token request over TLS; the server's certificate is pinned, as it is self-signed. */
function post(issuer: Issuer, own: { readonly key?: string; readonly cert?: string }): Promise<string> {
  const { method, headers, body } = tokenRequest(issuer, "platform-api.access");
  return new Promise((resolve, reject) => {
    const outgoing = request(issuer.tokenEndpoint, {
      method,
      headers,
      ca: fixture("server.crt"),
      agent: false,
      ...own,
    });
    outgoing.once("error", reject).once("response", (response) => {
      response.toArray().then((chunks) => resolve(Buffer.concat(chunks).toString()), reject);
    });
    outgoing.end(body);
  });
}
