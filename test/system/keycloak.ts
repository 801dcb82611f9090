/** Keycloak as its makers publish it, on loopback, with a realm of a test's own and nothing kept. */
import { type ChildProcess, execFile, spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { createReadStream } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { pipeline } from "node:stream/promises";
import { promisify } from "node:util";
import type { CertificateAuthority } from "../harness/certificates.ts";
import { freePort } from "../harness/loopback.ts";

const execute = promisify(execFile);
const version = "26.4.0";
const distribution = { name: `keycloak-${version}`, artifact: `org.keycloak:keycloak-quarkus-dist:${version}:zip` };
const sha256 = "1b6a11a2726ac8a8dc9c91d5fafe989a75ce4f1622d7f7b45c21d5bc16629c0a";
const startTimeoutMs = 500_000;

export interface Keycloak {
  /** Issuer identifier of the realm, over plain HTTP on loopback. */
  readonly issuer: string;
  /** The token endpoint, plain and over TLS, where clients may show a certificate. */
  readonly tokenEndpoint: string;
  readonly tlsTokenEndpoint: string;
  /** The token endpoint of another realm, over TLS. */
  tlsTokenEndpointOf(realm: string): string;
  stop(): Promise<void>;
}

/**
 * Starts it. Maven keeps what it downloads, 160 MB, in its own cache.
 * @param folder of the test: takes 170 MB
 * @param realm as Keycloak imports it, with its name
 * @param authority of its server certificate and of its clients' ones
 * @param other realm, and the environment that its placeholders are filled from
 */
export async function startKeycloak(
  folder: string,
  realm: { readonly realm: string },
  authority: CertificateAuthority,
  other?: { readonly realm: object; readonly env: Readonly<Record<string, string>> },
): Promise<Keycloak> {
  const home = await unpack(folder);
  await mkdir(join(home, "data/import"), { recursive: true });
  await writeFile(join(home, "data/import/realm.json"), JSON.stringify(realm));
  if (other !== undefined) await writeFile(join(home, "data/import/other.json"), JSON.stringify(other.realm));
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
  const child = spawn("bash", [join(home, "bin/kc.sh"), "start-dev", "--import-realm", ...options], {
    // A group of its own: the script starts Java twice.
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
    env: { ...process.env, ...other?.env, JAVA_OPTS_APPEND: "-XX:TieredStopAtLevel=1 -Xmx768m" },
  });
  const issuer = `${url}/realms/${realm.realm}`;
  const path = (name: string) => `/realms/${name}/protocol/openid-connect/token`;
  const tlsTokenEndpointOf = (name: string) => `https://127.0.0.1:${httpsPort}${path(name)}`;
  try {
    await answers(child, `${issuer}/.well-known/openid-configuration`);
  } catch (error) {
    await stop(child);
    throw error;
  }
  return {
    issuer,
    tokenEndpoint: `${url}${path(realm.realm)}`,
    tlsTokenEndpoint: tlsTokenEndpointOf(realm.realm),
    tlsTokenEndpointOf,
    stop: () => stop(child),
  };
}

/** Fetches the distribution with Maven, and unpacks what is byte for byte the expected one. */
async function unpack(folder: string): Promise<string> {
  const copy = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy";
  const where = [`-Dartifact=${distribution.artifact}`, `-DoutputDirectory=${folder}`, "-Dmdep.stripVersion=true"];
  await execute("mvn", ["--quiet", "--batch-mode", copy, ...where], { cwd: folder });
  const archive = join(folder, "keycloak-quarkus-dist.zip");
  const digest = createHash("sha256");
  await pipeline(createReadStream(archive), digest);
  const found = digest.digest("hex");
  if (found !== sha256) throw new Error(`${distribution.artifact}: SHA-256 is ${found}, expected ${sha256}`);
  await execute("jar", ["xf", archive], { cwd: folder });
  return join(folder, distribution.name);
}

/** Resolves once the page is there; rejects, with what the process said, where it ends or takes too long. */
async function answers(child: ChildProcess, url: string): Promise<void> {
  const said: string[] = [];
  for (const output of [child.stdout, child.stderr]) output?.on("data", (text: Buffer) => said.push(text.toString()));
  const deadlineMs = performance.now() + startTimeoutMs;
  while (child.exitCode === null && performance.now() < deadlineMs) {
    const response = await fetch(url).catch(() => undefined);
    await response?.body?.cancel();
    if (response?.status === 200) return;
    await new Promise((resolve) => setTimeout(resolve, 250));
  }
  throw new Error(`Keycloak does not answer:\n${said.join("").slice(-4_000)}`);
}

async function stop(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null || child.pid === undefined) return;
  const ended = once(child, "exit");
  // Nothing of it is kept, so that nothing need be put in order.
  process.kill(-child.pid, "SIGKILL");
  await ended;
}
