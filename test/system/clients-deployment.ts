/**
 * What the clients of other languages run against: the gateway as a process of its own, with TLS and tokens that are
 * bound to client certificates, and a real issuer.
 */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { expect, vi } from "vitest";
import { makeCertificates } from "../../clients/conformance/certificates.ts";
import { defaultClient, type Issuer, startIssuer } from "../../dev/issuer.ts";
import { folderForFile } from "../harness/folder.ts";
import { runProgram, serviceSettings, startService } from "../harness/process.ts";

export const root = resolve(import.meta.dirname, "../..");

export type Deployment = Awaited<ReturnType<typeof startDeployment>>;

/** Settings of a client program, those of the issuer's first client. */
export function platformEnv({ url, issuer }: { url: string; issuer: Issuer }): Record<string, string> {
  const [client] = issuer.clients;
  if (client === undefined) throw new Error("the issuer has no client");
  return {
    PLATFORM_URL: url,
    PLATFORM_ISSUER: issuer.url,
    PLATFORM_CLIENT_ID: client.clientId,
    PLATFORM_CLIENT_SECRET: client.clientSecret,
    PLATFORM_SCOPE: client.scopes.join(" "),
  };
}

/** Makes certificates, starts issuer and gateway. To be called while a file loads. */
export async function startDeployment() {
  const folder = folderForFile("clients");
  const certificates = makeCertificates(folder);
  const { ca, server, client } = certificates;
  const issuer = await startIssuer({
    tls: { key: readFileSync(server.key, "utf8"), cert: readFileSync(server.cert, "utf8") },
    clients: [{ ...defaultClient(), certificateBound: true }],
  });
  const settings: Record<string, string> = {
    ...serviceSettings(folder, issuer.url),
    SVC_OIDC_CA: ca,
    SVC_PROOF_OF_POSSESSION: "mtls",
    SVC_TLS_CERT: server.cert,
    SVC_TLS_KEY: server.key,
    SVC_TLS_CLIENT_CA: ca,
    SVC_LEDGER_ORIGIN: "localhost/clients",
    SVC_BULK: "on",
  };
  const start = async () => {
    const service = await startService(folder, settings);
    const readiness = async () => (await fetch(`${service.opsUrl}/readyz`)).status;
    await vi.waitFor(async () => expect(await readiness()).toBe(200), { timeout: 60_000 });
    return service;
  };
  let gateway = await start();
  const { host, port } = new URL(gateway.url);
  settings.SVC_LISTEN = host;
  const url = `https://localhost:${port}`;
  /** Stops the gateway with SIGTERM; resolves with its exit code. */
  const stopGateway = async () => {
    gateway.child.kill("SIGTERM");
    return (await gateway.ended).code;
  };
  return {
    folder,
    certificates,
    issuer,
    url,
    stopGateway,
    /** Runs a command of the service's own command line, beside it; resolves with what it printed. */
    cli(...args: string[]) {
      const options = { cwd: root, env: { PATH: process.env.PATH, ...settings } };
      return runProgram(process.execPath, ["src/cli/cli.ts", ...args], options);
    },
    /** Starts the gateway again on its port; resolves when it is ready. */
    async startGateway() {
      gateway = await start();
    },
    /** Settings of a client program, as environment variables. */
    clientEnv: (overrides: Readonly<Record<string, string>> = {}): Record<string, string> => ({
      ...platformEnv({ url, issuer }),
      PLATFORM_CA: ca,
      PLATFORM_CERT: client.cert,
      PLATFORM_KEY: client.key,
      ...overrides,
    }),
    async stop() {
      await stopGateway();
      await issuer.stop();
    },
  };
}
