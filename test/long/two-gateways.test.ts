/** Two gateways that start at once on one file: each serves, and together they write one log. */
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { rest } from "../harness/gateway.ts";
import { startStaticIssuer } from "../harness/issuer.ts";
import { type RunningService, serviceSettings, startService } from "../harness/process.ts";
import { claimsOf, mintToken, newTestKey } from "../harness/tokens.ts";

const route = "/v1/sdk/evidence";
const callersEach = 8;
const callsEach = 20;

test("two gateways on one file give every index once, and one may be killed", { timeout: 60_000 }, async () => {
  const key = newTestKey("ES256", "key-1");
  const issuer = await startStaticIssuer([key.publicJwk]);
  const directory = mkdtempSync(join(tmpdir(), "svc-two-"));
  const settings = serviceSettings(directory, issuer.url);
  const services: RunningService[] = [];
  try {
    services.push(...(await Promise.all([startService(directory, settings), startService(directory, settings)])));
    const scope = "platform-api.access evidence.write";
    const token = mintToken(key, claimsOf(issuer.url, Date.now(), { tenant_id: "tenant-a", scope }));
    const body = sampleCalls().find((call) => call.route === route)?.body;
    const indices: number[] = [];
    const call = async ({ url }: RunningService, callers: number) => {
      for (let count = 0; count < callsEach; count++) {
        const answers = await Promise.all(Array.from({ length: callers }, () => rest(url + route, { token, body })));
        for (const { status, body: answer } of answers) {
          expect(status).toBe(200);
          indices.push(answer.ingestion.receipt.leaf_index);
        }
      }
    };
    await Promise.all(services.map((service) => call(service, callersEach)));
    const [killed, survivor] = services as [RunningService, RunningService];
    killed.child.kill("SIGKILL");
    await killed.ended;
    await call(survivor, 1);
    expect(new Set(indices).size).toBe(indices.length);
    expect(Math.max(...indices)).toBe(2 * callersEach * callsEach + callsEach);
    const cli = join(import.meta.dirname, "../../src/cli/cli.ts");
    const env = { PATH: process.env.PATH ?? "", ...settings };
    const { stdout } = await promisify(execFile)(process.execPath, [cli, "ledger", "verify"], { env });
    expect(stdout).toContain(`${indices.length + 1} leaves`);
  } finally {
    for (const { child } of services) child.kill("SIGKILL");
    await Promise.all(services.map(({ ended }) => ended));
    await issuer.stop();
    rmSync(directory, { recursive: true });
  }
});
