/** Tokens bound to a client certificate, where the gateway itself ends TLS and asks for the certificate. */
import { X509Certificate } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createAuthority, type IssuedCertificate } from "../harness/certificates.ts";
import { type Gateway, startGateway } from "../harness/gateway.ts";
import { whoamiByGrpc, whoamiByRest } from "../harness/tls-calls.ts";

let folder: string;
let gateway: Gateway;
let serverCa: string;
let payroll: IssuedCertificate;
let thief: IssuedCertificate;
let stranger: IssuedCertificate;
const tokens = { bound: "", unbound: "" };

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-mtls-"));
  const servers = await createAuthority(folder, "servers");
  const callers = await createAuthority(folder, "callers");
  const server = await servers.issue("server", "/CN=gateway", "IP:127.0.0.1");
  payroll = await callers.issue("payroll", "/CN=payroll-service");
  thief = await callers.issue("thief", "/CN=thief");
  stranger = await (await createAuthority(folder, "strangers")).issue("stranger", "/CN=payroll-service");
  serverCa = servers.cert;
  const client = {
    clientSecret: "a secret of the test",
    tenantId: "tenant-a",
    principalId: "payroll-service",
    scopes: ["platform-api.access"],
  };
  gateway = await startGateway({
    issuer: {
      clients: [
        { ...client, clientId: "bound", certificateBound: true },
        { ...client, clientId: "unbound" },
      ],
      certificateOf: () => new X509Certificate(payroll.cert),
    },
    env: {
      SVC_PROOF_OF_POSSESSION: "mtls",
      SVC_TLS_CERT: server.certFile,
      SVC_TLS_KEY: server.keyFile,
      SVC_TLS_CLIENT_CA: callers.certFile,
    },
  });
  tokens.bound = await gateway.token({ clientId: "bound" });
  tokens.unbound = await gateway.token({ clientId: "unbound" });
});
afterAll(async () => {
  await gateway?.stop();
  await rm(folder, { recursive: true });
});

describe.each([
  ["REST", whoamiByRest],
  ["gRPC", whoamiByGrpc],
] as const)("%s", (_name, whoami) => {
  const call = (own: IssuedCertificate | undefined, token: string, headers: Record<string, string> = {}) =>
    whoami(
      gateway.url,
      { ca: serverCa, cert: own?.cert, key: own?.key },
      { authorization: `Bearer ${token}`, ...headers },
    );
  const refused = { reason: "proof_of_possession_failed" };

  test("the owner of the certificate is let in", async () => {
    expect(await call(payroll, tokens.bound)).toEqual({ tenant: "tenant-a", source: "bearer_token" });
  });

  test("a thief with another certificate, one of another authority, or none, is not", async () => {
    expect(await call(thief, tokens.bound)).toEqual(refused);
    expect(await call(stranger, tokens.bound)).toEqual(refused);
    expect(await call(undefined, tokens.bound)).toEqual(refused);
  });

  test("nor one that sends the header of an ingress", async () => {
    for (const value of [payroll.thumbprint, encodeURIComponent(payroll.cert)]) {
      expect(await call(thief, tokens.bound, { "x-svc-mtls-client-certificate": value })).toEqual(refused);
      expect(await call(undefined, tokens.bound, { "x-svc-mtls-client-certificate": value })).toEqual(refused);
    }
  });

  test("a token that is bound to nothing is worth nothing", async () => {
    expect(await call(payroll, tokens.unbound)).toEqual(refused);
  });
});
