/** Tokens that are bound to a DPoP key, end to end: a real issuer mints them, two gateways on one store take them. */
import { writeFile } from "node:fs/promises";
import type { ClientHttp2Session } from "node:http2";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { defaultClient } from "../../dev/issuer.ts";
import { whoamiOverGrpc, whoamiOverRest, whoamiPaths } from "../harness/both-wires.ts";
import { type Gateway, gatewayForFile, startGateway } from "../harness/gateway.ts";
import { h2Connect } from "../harness/h2.ts";
import { forTest } from "../harness/lifetimes.ts";
import { mintProof } from "../harness/proofs.ts";
import { type Members, newTestKey } from "../harness/tokens.ts";

const wires = ["REST", "gRPC"] as const;
type Wire = (typeof wires)[number];
const key = newTestKey("ES256", "caller");
const client = { ...defaultClient(), dpopBound: true };

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

/** A proof for the call on this protocol; the same for both gateways, which callers reach under one name. */
function proofOn(wire: Wire, claims: Members = {}): string {
  const method = wire === "REST" ? "GET" : "POST";
  const target = { method, url: `http://localhost${whoamiPaths[wire]}`, accessToken: token, nowMs: Date.now() };
  return mintProof(key, target, claims);
}

/** What came of the call with these headers; nothing if it was let in. */
async function call(wire: Wire, gateway: Gateway, headers: Record<string, string>) {
  const lines = Object.entries(headers);
  const over = () =>
    whoamiOverGrpc(sessions.get(gateway) as ClientHttp2Session, [[":authority", "localhost"], ...lines]);
  const { refusal, header } = wire === "REST" ? await whoamiOverRest(gateway.url, lines) : await over();
  return refusal && { ...refusal, challenge: header("www-authenticate"), nonce: header("dpop-nonce") };
}

describe.each(wires)("%s", (wire) => {
  const signed = () => ({ authorization: `DPoP ${token}`, dpop: proofOn(wire) });
  const used = { reason: "proof_of_possession_failed", message: "the DPoP proof was used before" };

  test("a replayed proof is refused, by the gateway that accepted it and by the other", async () => {
    const headers = signed();
    expect(await call(wire, first, headers)).toBeUndefined();
    for (const gateway of [first, second]) expect(await call(wire, gateway, headers)).toMatchObject(used);
  });

  test("the token as a bearer token is refused, with a proof and without", async () => {
    for (const headers of [{}, { dpop: signed().dpop }]) {
      const refused = await call(wire, first, { ...headers, authorization: `Bearer ${token}` });
      expect(refused).toMatchObject({ reason: used.reason, challenge: expect.stringMatching(/^DPoP /) });
    }
  });
});

test("with nonces, a proof needs the newest one, which the refusal returns", async () => {
  const file = join(first.dataDir, "nonce.key");
  await writeFile(file, `${"n".repeat(40)}\n`, { mode: 0o600 });
  const withNonces = { ...env, SVC_DPOP_NONCE_KEY: file, SVC_OIDC_ISSUER: first.issuer.url };
  const gateway = await forTest(startGateway({ dataDir: first.dataDir, env: withNonces }));
  sessions.set(gateway, await h2Connect(gateway.url));
  for (const wire of wires) {
    const ask = (claims: Members = {}) =>
      call(wire, gateway, { authorization: `DPoP ${token}`, dpop: proofOn(wire, claims) });
    const wanted = { challenge: expect.stringContaining('error="use_dpop_nonce"'), nonce: expect.stringMatching(/./) };
    const asked = await ask();
    expect(asked).toMatchObject(wanted);
    expect(await ask({ nonce: asked?.nonce })).toBeUndefined();
    // A nonce of another secret is requested again; a secret that is too short changes nothing.
    await writeFile(file, `${wire.padEnd(40, "x")}\n`);
    await gateway.app.reload();
    await writeFile(file, "short");
    await gateway.app.reload();
    const askedAgain = await ask({ nonce: asked?.nonce });
    expect(askedAgain).toMatchObject(wanted);
    expect(await ask({ nonce: askedAgain?.nonce })).toBeUndefined();
  }
  expect(gateway.logged.join("")).toContain("SVC_DPOP_NONCE_KEY: holds a secret of fewer than 32 characters");
});
