/** Tokens that are bound to a DPoP key, end to end: a real issuer mints them, two gateways on one store take them. */
import { writeFile } from "node:fs/promises";
import type { ClientHttp2Session } from "node:http2";
import { join } from "node:path";
import { fromBinary } from "@bufbuild/protobuf";
import { describe, expect, test } from "vitest";
import { type WhoAmIResponse, WhoAmIResponseSchema } from "../../gen/platform/sdk/v1/discovery_pb.ts";
import { type Gateway, gatewayForFile, startGateway } from "../harness/gateway.ts";
import { frame, refusalInTrailers, type WireRefusal } from "../harness/grpc.ts";
import { h1Exchange, h1Request } from "../harness/h1.ts";
import { h2Call, h2Connect } from "../harness/h2.ts";
import { forTest } from "../harness/lifetimes.ts";
import { mintProof, type ProofTarget } from "../harness/proofs.ts";
import { newTestKey } from "../harness/tokens.ts";

const restPath = "/v1/sdk/whoami";
const rpcPath = "/platform.sdk.v1.DiscoveryService/WhoAmI";
const key = newTestKey("ES256", "caller");
const client = {
  clientId: "payroll-service",
  clientSecret: "a secret of the test",
  tenantId: "tenant-a",
  principalId: "payroll-service",
  scopes: ["platform-api.access"],
  dpopBound: true,
};

const sessions = new Map<Gateway, ClientHttp2Session>();

const env = { SVC_PROOF_OF_POSSESSION: "dpop" };
const first = await gatewayForFile({ issuer: { clients: [client] }, env });
const second = await gatewayForFile({ dataDir: first.dataDir, env: { ...env, SVC_OIDC_ISSUER: first.issuer.url } });
for (const gateway of [first, second]) sessions.set(gateway, await h2Connect(gateway.url));
const token = await boundToken(first);

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
  /** What a proof must be for; the same for both gateways, which callers reach under one name. */
  readonly target: () => ProofTarget;
  readonly call: (gateway: Gateway, headers: Record<string, string>) => Promise<Outcome>;
}

const wires: readonly Wire[] = [
  {
    name: "REST",
    target: () => ({ method: "GET", url: `http://localhost${restPath}`, accessToken: token, nowMs: Date.now() }),
    async call({ url }, headers) {
      const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
      const answer = await h1Exchange(url, h1Request(`GET ${restPath}`, lines));
      const body = JSON.parse(answer?.text ?? "");
      if (body.error === undefined) return { tenant: body.caller.tenant_id };
      const { reason, message } = body.error;
      return {
        refusal: { reason, message },
        challenge: answer?.headers.get("www-authenticate"),
        nonce: answer?.headers.get("dpop-nonce"),
      };
    },
  },
  {
    name: "gRPC",
    target: () => ({ method: "POST", url: `http://localhost${rpcPath}`, accessToken: token, nowMs: Date.now() }),
    async call(gateway, headers) {
      const { trailers, body } = await h2Call(sessions.get(gateway) as ClientHttp2Session, {
        path: rpcPath,
        headers: { ":authority": "localhost", "content-type": "application/grpc", te: "trailers", ...headers },
        body: frame(Buffer.alloc(0)),
      });
      const refusal = refusalInTrailers(trailers);
      if (refusal === undefined) return { tenant: whoAmI(body).caller?.tenantId ?? "" };
      const { reason, message } = refusal;
      return {
        refusal: { reason, message },
        challenge: trailers["www-authenticate"] as string | undefined,
        nonce: trailers["dpop-nonce"] as string | undefined,
      };
    },
  },
];

function whoAmI(body: Buffer): WhoAmIResponse {
  return fromBinary(WhoAmIResponseSchema, body.subarray(5));
}

describe.each(wires)("$name", ({ call, target }) => {
  const signed = () => ({ authorization: `DPoP ${token}`, dpop: mintProof(key, target()) });
  const used = { reason: "proof_of_possession_failed", message: "the DPoP proof was used before" };

  test("a replayed proof is refused, by the gateway that accepted it and by the other", async () => {
    const headers = signed();
    expect(await call(first, headers)).toEqual({ tenant: "tenant-a" });
    for (const gateway of [first, second]) expect(await call(gateway, headers)).toMatchObject({ refusal: used });
  });

  test("the token as a bearer token is refused, with a proof and without", async () => {
    for (const headers of [{}, { dpop: signed().dpop }]) {
      const { refusal, challenge } = await call(first, { ...headers, authorization: `Bearer ${token}` });
      expect(refusal?.reason).toBe("proof_of_possession_failed");
      expect(challenge).toMatch(/^DPoP /);
    }
  });
});

test("with nonces, a proof needs the newest one, which the refusal returns", async () => {
  const file = join(first.dataDir, "nonce.key");
  await writeFile(file, `${"n".repeat(40)}\n`, { mode: 0o600 });
  const withNonces = { ...env, SVC_DPOP_NONCE_KEY: file, SVC_OIDC_ISSUER: first.issuer.url };
  const gateway = await forTest(startGateway({ dataDir: first.dataDir, env: withNonces }));
  sessions.set(gateway, await h2Connect(gateway.url));
  for (const { call, target } of wires) {
    const authorization = `DPoP ${token}`;
    const asked = await call(gateway, { authorization, dpop: mintProof(key, target()) });
    expect(asked.challenge).toContain('error="use_dpop_nonce"');
    const { nonce = "" } = asked;
    expect(nonce).not.toBe("");
    const dpop = mintProof(key, target(), { nonce });
    expect(await call(gateway, { authorization, dpop })).toEqual({ tenant: "tenant-a" });
    // A nonce of another secret is requested again; a secret that is too short changes nothing.
    await writeFile(file, `${target().method.padEnd(40, "x")}\n`);
    await gateway.app.reload();
    await writeFile(file, "short");
    await gateway.app.reload();
    const askedAgain = await call(gateway, { authorization, dpop: mintProof(key, target(), { nonce }) });
    expect(askedAgain.challenge).toContain('error="use_dpop_nonce"');
    const newest = mintProof(key, target(), { nonce: askedAgain.nonce ?? "" });
    expect(await call(gateway, { authorization, dpop: newest })).toEqual({ tenant: "tenant-a" });
  }
  expect(gateway.logged.join("")).toContain("SVC_DPOP_NONCE_KEY: holds a secret of fewer than 32 characters");
});
