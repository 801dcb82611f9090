/** The Rust crate: what its sources have to pass, and proofs of possession that a real gateway takes. */
import { execFile, execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startGateway } from "../harness/gateway.ts";
import { root } from "./clients-deployment.ts";

const timeout = 900_000;
const source = join(root, "clients/rust");
let folder: string;

beforeAll(async () => {
  execFileSync(process.execPath, ["scripts/proto-deps.ts"], { cwd: root });
  execFileSync(join(source, "build.sh"));
  folder = await mkdtemp(join(tmpdir(), "svc-clients-rust-"));
}, timeout);
afterAll(() => rm(folder, { recursive: true }));

const run = async (command: string, args: readonly string[], cwd: string, env: Readonly<Record<string, string>> = {}) =>
  (await promisify(execFile)(command, [...args], { cwd, env: { ...process.env, ...env } })).stdout;

test("is formatted, without a warning, documented, and passes its own tests", { timeout }, async () => {
  await run(join(source, "check.sh"), [], source);
});

test("a real issuer binds tokens to its key, and a real gateway takes its proofs, with nonces and without", {
  timeout,
}, async () => {
  const client = {
    clientId: "payroll-service",
    clientSecret: "a secret of the test",
    tenantId: "tenant-a",
    principalId: "payroll-service",
    scopes: ["platform-api.access"],
    dpopBound: true,
  };
  const nonceKey = join(folder, "nonce.key");
  await writeFile(nonceKey, randomBytes(32).toString("base64"), { mode: 0o600 });
  for (const nonces of [{}, { SVC_DPOP_NONCE_KEY: nonceKey }]) {
    const gateway = await startGateway({
      issuer: { clients: [client] },
      env: { SVC_PROOF_OF_POSSESSION: "dpop", ...nonces },
    });
    try {
      const { clientId: client_id, clientSecret: client_secret, scopes } = client;
      const request = {
        case: "dpop",
        base_url: gateway.url,
        tls: {},
        token: { issuer: gateway.issuer.url, client_id, client_secret, scopes },
        dpop: true,
        options: { deadline_ms: 10_000, max_attempts: 1 },
        steps: [{ call: "whoami" }, { call: "concurrent", calls: [{ call: "whoami" }, { call: "capabilities" }] }],
      };
      const driver = promisify(execFile)(join(source, "target/debug/conformance-driver"));
      driver.child.stdin?.end(`${JSON.stringify(request)}\n`);
      const { steps } = JSON.parse((await driver).stdout);
      const answered = { answer: { caller: { principalId: "payroll-service" } } };
      expect(steps).toMatchObject([answered, { steps: [answered, answered] }]);
    } finally {
      await gateway.stop();
    }
  }
});
