/** Runs cases against a driver. */
import { copyFileSync, mkdtempSync, renameSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { cases } from "./cases/index.ts";
import { type CertificateFiles, type Certificates, makeCertificates } from "./certificates.ts";
import type { Case } from "./check.ts";
import { type Driver, startDriver } from "./driver.ts";
import { clientId, clientSecret, startIssuer } from "./issuer.ts";
import type { DriverRequest } from "./protocol.ts";
import { startServer } from "./server.ts";
import { nowMs, serverTls } from "./sockets.ts";

export interface CaseResult {
  readonly name: string;
  readonly says: string;
  /** What is wrong; absent where the driver passed. */
  readonly problem?: string;
  readonly tookMs: number;
}

/** An answer takes seconds at most; a machine that does much else may need a minute. */
const answerTimeoutMs = 90_000;

export interface CaseSelection {
  /** Cases whose name holds this. Default: all. */
  readonly pattern?: string;
  /** But none whose name holds one of these: what a client says that it does not do. */
  readonly except?: readonly string[];
}

/**
 * Runs the cases that are selected, one after the other, against one process of the driver, which is started again
 * where it fails to answer.
 *
 * @param onResult called after each case
 */
export async function runCases(
  command: readonly string[],
  { pattern = "", except = [] }: CaseSelection = {},
  onResult: (result: CaseResult) => void = () => {},
): Promise<readonly CaseResult[]> {
  const isAsked = ({ name }: Case) => name.includes(pattern) && !except.some((part) => name.includes(part));
  const folder = mkdtempSync(join(tmpdir(), "client-conformance-"));
  const results: CaseResult[] = [];
  let driver: Driver | undefined;
  try {
    const certificates = makeCertificates(folder);
    // Its files may be replaced in one case, not for the next.
    const client = { cert: join(folder, "own.crt.pem"), key: join(folder, "own.key.pem") };
    for (const each of cases.filter(isAsked)) {
      driver ??= startDriver(command);
      const startedAtMs = nowMs();
      replaceFiles(certificates.client, client);
      const problem = await runCase(each, driver, { ...certificates, client });
      if (problem !== undefined && !problem.answered) {
        await driver.end();
        driver = undefined;
      }
      const { name, says } = each;
      const tookMs = nowMs() - startedAtMs;
      const result = { name, says, tookMs, ...(problem !== undefined && { problem: problem.message }) };
      results.push(result);
      onResult(result);
    }
    if (driver !== undefined) {
      const code = await driver.end();
      const result = {
        name: "driver/ends",
        says: "A driver ends with exit code 0 when its input does.",
        tookMs: 0,
        ...(code !== 0 && { problem: `exit code ${code}` }),
      };
      results.push(result);
      onResult(result);
    }
    return results;
  } finally {
    rmSync(folder, { recursive: true });
  }
}

async function runCase(
  each: Case,
  driver: Driver,
  certificates: Certificates,
): Promise<{ readonly message: string; readonly answered: boolean } | undefined> {
  const tls = serverTls(certificates);
  const issuer = await startIssuer(each.issuer ?? {}, tls);
  const replaceCertificate = () => replaceFiles(certificates.renewed, certificates.client);
  const server = await startServer(each.server ?? {}, issuer, tls, replaceCertificate);
  let answered = false;
  try {
    const request = requestOf(each, certificates, issuer.url, server.port);
    const startedAtMs = nowMs();
    const { steps } = await driver.ask(request, answerTimeoutMs);
    const tookMs = nowMs() - startedAtMs;
    answered = true;
    if (steps.length !== request.steps.length) throw new Error(`${steps.length} steps are answered`);
    for (const [i, step] of steps.entries())
      each.answers[i]?.(step, request.steps[i] as (typeof request.steps)[number]);
    const { calls, records } = server;
    const { requests: tokenRequests, discoveries } = issuer;
    each.sees?.({ calls, records, tokenRequests, discoveries }, tookMs);
    return undefined;
  } catch (error) {
    const faults = server.calls.flatMap(({ fault = [] }) => fault);
    const seen = faults.length === 0 ? "" : `\n    the service refused: ${faults.join("; ")}`;
    return { message: `${error instanceof Error ? error.message : String(error)}${seen}`, answered };
  } finally {
    await Promise.all([server.stop(), issuer.stop()]);
  }
}

/** As those who renew certificates do it: each file is the old one or the new one, never a part. */
function replaceFiles(from: CertificateFiles, to: CertificateFiles): void {
  for (const kind of ["key", "cert"] as const) {
    copyFileSync(from[kind], `${to[kind]}.new`);
    renameSync(`${to[kind]}.new`, to[kind]);
  }
}

function requestOf(each: Case, certificates: Certificates, issuer: string, port: number): DriverRequest {
  const { steps, options, dpop = false, certificate, trusts, host = "localhost", token } = each.request;
  const own = certificate === "stranger" ? certificates.stranger : certificates.client;
  const secret = token === "wrong-secret" ? "wrong" : clientSecret;
  return {
    case: each.name,
    base_url: `https://${host}:${port}`,
    tls: {
      ca: trusts === "stranger" ? certificates.strangerCa : certificates.ca,
      ...(certificate !== "none" && own),
    },
    token: {
      issuer,
      client_id: clientId,
      ...(token !== "certificate" && { client_secret: secret }),
      scopes: ["platform-api.access", "policy.read"],
    },
    dpop,
    options: {
      deadline_ms: 20_000,
      max_attempts: 4,
      initial_backoff_ms: 20,
      max_backoff_ms: 200,
      receipts: "brief",
      ...options,
    },
    steps,
  };
}
