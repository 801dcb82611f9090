/** Tokens that are bound to a DPoP key, end to end: a real issuer mints them, two gateways on one store take them. */
import { writeFile } from "node:fs/promises";
import type { ClientHttp2Session } from "node:http2";
import { join } from "node:path";
import { decodeJwt } from "jose";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Gateway, rest, startGateway } from "../harness/gateway.ts";
import { frame, refusalInTrailers, type WireRefusal } from "../harness/grpc.ts";
import { h2Call, h2Close, h2Connect } from "../harness/h2.ts";
import { mintProof, type ProofTarget } from "../harness/proofs.ts";
import { type Members, newTestKey, type TestKey } from "../harness/tokens.ts";

const restPath = "/v1/sdk/whoami";
const rpcPath = "/platform.sdk.v1.DiscoveryService/WhoAmI";
const key = newTestKey("ES256", "caller");
const thief = newTestKey("ES256", "thief");
const client = {
  clientId: "payroll-service",
  clientSecret: "a secret of the test",
  tenantId: "tenant-a",
  principalId: "payroll-service",
  scopes: ["platform-api.access"],
  dpopBound: true,
};

let first: Gateway;
let second: Gateway;
let token: string;
const sessions = new Map<Gateway, ClientHttp2Session>();

beforeAll(async () => {
  const env = { SVC_PROOF_OF_POSSESSION: "dpop" };
  first = await startGateway({ issuer: { clients: [client] }, env });
  second = await startGateway({ dataDir: first.dataDir, env: { ...env, SVC_OIDC_ISSUER: first.issuer.url } });
  for (const gateway of [first, second]) sessions.set(gateway, await h2Connect(gateway.url));
  token = await boundToken(first);
});
afterAll(async () => {
  for (const session of sessions.values()) await h2Close(session);
  await second?.stop();
  await first?.stop();
});

/** A token of the issuer, bound to the key by the proof of the token request. */
async function boundToken({ issuer }: Gateway): Promise<string> {
  const target = { method: "POST", url: issuer.tokenEndpoint, accessToken: "", nowMs: Date.now() };
  const response = await fetch(issuer.tokenEndpoint, {
    method: "POST",
    headers: {
      authorization: `Basic ${btoa(`${client.clientId}:${client.clientSecret}`)}`,
      dpop: mintProof(key, target, { ath: undefined }),
    },
    body: new URLSearchParams({ grant_type: "client_credentials", scope: client.scopes.join(" ") }),
  });
  const { access_token, token_type } = (await response.json()) as { access_token: string; token_type: string };
  expect(token_type).toBe("DPoP");
  return access_token;
}

interface Outcome {
  readonly tenant?: string;
  readonly refusal?: Pick<WireRefusal, "reason" | "message">;
  readonly challenge?: string | undefined;
  readonly nonce?: string | undefined;
}

interface Wire {
  readonly name: string;
  readonly target: (gateway: Gateway) => ProofTarget;
  readonly call: (gateway: Gateway, headers: Record<string, string>) => Promise<Outcome>;
}

const wires: readonly Wire[] = [
  {
    name: "REST",
    target: ({ url }) => ({ method: "GET", url: url + restPath, accessToken: token, nowMs: Date.now() }),
    async call({ url }, headers) {
      const { body, headers: answered } = await rest(url + restPath, { headers });
      if (body.error === undefined) return { tenant: body.caller.tenant_id };
      const { reason, message } = body.error;
      return {
        refusal: { reason, message },
        challenge: answered.get("www-authenticate") ?? undefined,
        nonce: answered.get("dpop-nonce") ?? undefined,
      };
    },
  },
  {
    name: "gRPC",
    target: ({ url }) => ({ method: "POST", url: url + rpcPath, accessToken: token, nowMs: Date.now() }),
    async call(gateway, headers) {
      const { trailers, body } = await h2Call(sessions.get(gateway) as ClientHttp2Session, {
        path: rpcPath,
        headers: { "content-type": "application/grpc", te: "trailers", ...headers },
        body: frame(Buffer.alloc(0)),
      });
      const refusal = refusalInTrailers(trailers);
      if (refusal === undefined) return { tenant: /tenant-a/.exec(body.toString("latin1"))?.[0] ?? "" };
      const { reason, message } = refusal;
      return {
        refusal: { reason, message },
        challenge: trailers["www-authenticate"] as string | undefined,
        nonce: trailers["dpop-nonce"] as string | undefined,
      };
    },
  },
];

test("discovery says what is in force", async () => {
  const target = { method: "GET", url: `${first.url}/v1/sdk/bootstrap`, accessToken: token, nowMs: Date.now() };
  const headers = { authorization: `DPoP ${token}`, dpop: mintProof(key, target) };
  const { body } = await rest(target.url, { headers });
  expect(body.auth_configuration).toMatchObject({ proof_of_possession: "dpop", mtls_ready: false });
  expect(decodeJwt(token)).toMatchObject({ cnf: { jkt: expect.any(String) } });
});

describe.each(wires)("$name", ({ call, target }) => {
  /** Headers with a proof by the signer that is good but for what is put in. */
  const signed = (gateway: Gateway, claims: Members = {}, signer: TestKey = key, of: Partial<ProofTarget> = {}) => ({
    authorization: `DPoP ${token}`,
    dpop: mintProof(signer, { ...target(gateway), ...of }, claims),
  });
  const seconds = () => Math.floor(Date.now() / 1000);
  const used = { reason: "proof_of_possession_failed", message: "the DPoP proof was used before" };

  test("the owner of the key is let in, with another proof each time", async () => {
    for (const gateway of [first, second, first]) {
      expect(await call(gateway, signed(gateway))).toEqual({ tenant: "tenant-a" });
    }
  });

  test("a replayed proof is refused, by the gateway that took it and by the other", async () => {
    const headers = signed(first);
    expect(await call(first, headers)).toEqual({ tenant: "tenant-a" });
    expect(await call(first, headers)).toMatchObject({ refusal: used });
    // The thief gets hold of the other's connection too: the URL is the only thing that is not the same.
    const elsewhere = signed(second);
    expect(await call(second, elsewhere)).toEqual({ tenant: "tenant-a" });
    expect(await call(second, elsewhere)).toMatchObject({ refusal: used });
  });

  test("of a proof that is sent many times at once one is let in", async () => {
    const headers = signed(first);
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => call(first, headers)));
    expect(outcomes.filter(({ tenant }) => tenant !== undefined)).toHaveLength(1);
    expect(outcomes.filter(({ refusal }) => refusal?.message === used.message)).toHaveLength(19);
  });

  test.each<[string, () => Record<string, string>, string]>([
    ["for another method", () => signed(first, { htm: "DELETE" }), "for another method"],
    ["for another URL", () => signed(first, { htu: `${first.url}/v1/sdk/evidence` }), "for another URL"],
    ["for another server", () => signed(first, { htu: "https://api.example/v1/sdk/whoami" }), "for another URL"],
    ["for the other gateway", () => signed(first, {}, key, { url: target(second).url }), "for another URL"],
    ["for another token", () => signed(first, {}, key, { accessToken: "another" }), "for another access token"],
    ["that is old", () => signed(first, { iat: seconds() - 61 }), "is too old"],
    ["from the future", () => signed(first, { iat: seconds() + 90 }), "was made in the future"],
    ["by a thief's key", () => signed(first, {}, thief), "is bound to another DPoP key"],
    ["that is none", () => ({ authorization: `DPoP ${token}`, dpop: "abc" }), "is not valid"],
    ["that is missing", () => ({ authorization: `DPoP ${token}` }), "a DPoP proof is required"],
  ])("a proof %s is refused", async (_name, headers, message) => {
    const { refusal, challenge } = await call(first, headers());
    expect(refusal).toEqual({ reason: "proof_of_possession_failed", message: expect.stringContaining(message) });
    expect(challenge).toMatch(/^DPoP realm="sdk", error="invalid_(dpop_proof|token)"/);
  });

  test("the token as a bearer token is refused, with a proof or without", async () => {
    for (const headers of [{}, { dpop: signed(first).dpop }]) {
      const { refusal, challenge } = await call(first, { ...headers, authorization: `Bearer ${token}` });
      expect(refusal?.reason).toBe("proof_of_possession_failed");
      expect(challenge).toMatch(/^DPoP /);
    }
  });
});

test("a proof that one gateway took is none to another under the same name", async () => {
  const env = { SVC_PROOF_OF_POSSESSION: "dpop", SVC_PUBLIC_URL: "https://api.example" };
  const shared = { dataDir: first.dataDir, env: { ...env, SVC_OIDC_ISSUER: first.issuer.url } };
  const replicas = [await startGateway(shared), await startGateway(shared)];
  try {
    const url = `https://api.example${restPath}`;
    const proof = mintProof(key, { method: "GET", url, accessToken: token, nowMs: Date.now() });
    const base = replicas.map(({ opsUrl }) => opsUrl);
    expect(new Set(base).size).toBe(2);
    const headers = { authorization: `DPoP ${token}`, dpop: proof };
    const listening = replicas.map((replica) => replica.listenUrl);
    const outcomes = await Promise.all(
      listening.map(async (base) => (await rest(base + restPath, { headers })).status),
    );
    expect(outcomes.sort()).toEqual([200, 401]);
  } finally {
    for (const replica of replicas) await replica.stop();
  }
});

test("where nonces are on, a proof carries the newest one, which a refusal hands out", async () => {
  const file = join(first.dataDir, "nonce.key");
  await writeFile(file, `${"n".repeat(40)}\n`);
  const gateway = await startGateway({
    dataDir: first.dataDir,
    env: { SVC_PROOF_OF_POSSESSION: "dpop", SVC_DPOP_NONCE_KEY: file, SVC_OIDC_ISSUER: first.issuer.url },
  });
  sessions.set(gateway, await h2Connect(gateway.url));
  try {
    for (const { call, target } of wires) {
      const authorization = `DPoP ${token}`;
      const asked = await call(gateway, { authorization, dpop: mintProof(key, target(gateway)) });
      expect(asked.challenge).toContain('error="use_dpop_nonce"');
      const { nonce = "" } = asked;
      expect(nonce).not.toBe("");
      const dpop = mintProof(key, target(gateway), { nonce });
      expect(await call(gateway, { authorization, dpop })).toEqual({ tenant: "tenant-a" });
    }
  } finally {
    await h2Close(sessions.get(gateway) as ClientHttp2Session);
    sessions.delete(gateway);
    await gateway.stop();
  }
});
