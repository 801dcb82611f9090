/**
 * What the clients of other languages run against: the gateway as a process of its own, with TLS and tokens that are
 * bound to client certificates, and a real issuer.
 */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createWriteStream, readFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import type { AddressInfo } from "node:net";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { type Certificates, makeCertificates } from "../../clients/conformance/certificates.ts";
import { type Issuer, startIssuer } from "../../dev/issuer.ts";

export const root = resolve(import.meta.dirname, "../..");

export interface Deployment {
  readonly folder: string;
  readonly certificates: Certificates;
  readonly issuer: Issuer;
  /** `https://localhost:<port>` */
  readonly url: string;
  readonly storePath: string;
  /** Runs a command of the service's own command line, beside it; resolves with what it printed. */
  cli(...args: string[]): Promise<string>;
  /** Starts the gateway; resolves when it is ready. */
  startGateway(): Promise<void>;
  /** Stops the gateway with SIGTERM; resolves with its exit code. */
  stopGateway(): Promise<number | null>;
  /** Settings of a client program, as environment variables. */
  clientEnv(overrides?: Readonly<Record<string, string>>): Record<string, string>;
  stop(): Promise<void>;
}

/** Makes certificates, starts issuer and gateway. */
export async function startDeployment(): Promise<Deployment> {
  const folder = await mkdtemp(join(tmpdir(), "svc-clients-"));
  const certificates = makeCertificates(folder);
  const { ca, server, client } = certificates;
  const scopes = ["platform-api.access", "policy.read", "keys.use", "artifacts.write", "evidence.write"];
  const issuer = await startIssuer({
    tls: { key: readFileSync(server.key, "utf8"), cert: readFileSync(server.cert, "utf8") },
    clients: [
      {
        clientId: "payroll-service",
        clientSecret: "not-a-secret-outside-this-test",
        tenantId: "tenant-a",
        principalId: "payroll-service",
        scopes,
        certificateBound: true,
      },
    ],
  });
  const [port, opsPort] = await freePorts(2);
  const storePath = join(folder, "platform.db");
  const gatewayEnv = {
    ...process.env,
    SVC_OIDC_CA: ca,
    SVC_LISTEN: `127.0.0.1:${port}`,
    SVC_OPS_LISTEN: `127.0.0.1:${opsPort}`,
    SVC_OIDC_ISSUER: issuer.url,
    SVC_PROOF_OF_POSSESSION: "mtls",
    SVC_TLS_CERT: server.cert,
    SVC_TLS_KEY: server.key,
    SVC_TLS_CLIENT_CA: ca,
    SVC_STORE: `sqlite:${storePath}`,
    SVC_LEDGER_KEY: join(folder, "ledger.key"),
    SVC_LEDGER_ORIGIN: "localhost/clients",
    SVC_POLICY_DIR: join(root, "policies"),
    SVC_BULK: "on",
  };
  let gateway: ChildProcess | undefined;
  const deployment: Deployment = {
    folder,
    certificates,
    issuer,
    url: `https://localhost:${port}`,
    storePath,
    cli: async (...args) => {
      const options = { cwd: root, env: gatewayEnv };
      return (await promisify(execFile)(process.execPath, ["src/cli/cli.ts", ...args], options)).stdout;
    },
    async startGateway() {
      const log = createWriteStream(join(folder, "gateway.log"), { flags: "a" });
      const child = spawn(process.execPath, ["src/main.js"], { cwd: root, env: gatewayEnv });
      child.stdout.pipe(log);
      child.stderr.pipe(log);
      gateway = child;
      await untilReady(`http://127.0.0.1:${opsPort}/readyz`, child);
    },
    async stopGateway() {
      const child = gateway;
      if (child === undefined) return null;
      gateway = undefined;
      if (child.exitCode !== null) return child.exitCode;
      const exited = new Promise<number | null>((done) => child.once("exit", done));
      child.kill("SIGTERM");
      return exited;
    },
    clientEnv: (overrides = {}) => ({
      PLATFORM_URL: deployment.url,
      PLATFORM_ISSUER: issuer.url,
      PLATFORM_CLIENT_ID: "payroll-service",
      PLATFORM_CLIENT_SECRET: "not-a-secret-outside-this-test",
      PLATFORM_SCOPE: scopes.join(" "),
      PLATFORM_CA: ca,
      PLATFORM_CERT: client.cert,
      PLATFORM_KEY: client.key,
      ...overrides,
    }),
    async stop() {
      await deployment.stopGateway();
      await issuer.stop();
      await rm(folder, { recursive: true });
    },
  };
  return deployment;
}

/** Polls until it answers 200. Rejects where the process ends before. */
async function untilReady(url: string, child: ChildProcess): Promise<void> {
  while (child.exitCode === null) {
    const ready = await fetch(url).then(
      ({ status }) => status === 200,
      () => false,
    );
    if (ready) return;
    await new Promise((again) => setTimeout(again, 50));
  }
  throw new Error(`the gateway ended with ${child.exitCode}`);
}

/** Ports that were free a moment ago. The gateway is started again on the one it had, so it cannot choose itself. */
export async function freePorts(count: number): Promise<number[]> {
  const servers = Array.from({ length: count }, () => createServer());
  await Promise.all(servers.map((server) => new Promise<void>((done) => server.listen(0, "127.0.0.1", done))));
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((done) => server.close(done))));
  return ports;
}
