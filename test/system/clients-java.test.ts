/** The Java package: its own tests, what its archives hold, and proofs of possession that a real gateway takes. */
import { execFile, execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startGateway } from "../harness/gateway.ts";
import { root } from "./clients-deployment.ts";

const timeout = 600_000;
const source = join(root, "clients/java");
const archives = ["", "-sources", "-javadoc"].map((kind) => `platform-client-0.1.0${kind}.jar`);
let folder: string;

beforeAll(async () => {
  execFileSync(process.execPath, ["scripts/proto-deps.ts"], { cwd: root });
  // Its own tests run too, and a warning of the compiler or of javadoc is an error.
  execFileSync(join(source, "build.sh"));
  folder = await mkdtemp(join(tmpdir(), "svc-clients-java-"));
}, timeout);
afterAll(() => rm(folder, { recursive: true }));

const run = async (command: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  (await promisify(execFile)(command, [...args], { cwd: folder, env: { ...process.env, ...env } })).stdout;

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
        options: {
          deadline_ms: 20_000,
          max_attempts: 1,
          initial_backoff_ms: 100,
          max_backoff_ms: 100,
          receipts: "brief",
        },
        steps: [{ call: "whoami" }, { call: "concurrent", calls: [{ call: "whoami" }, { call: "capabilities" }] }],
      };
      const driver = promisify(execFile)("java", [
        "-cp",
        ["target/test-classes", "target/classes", "target/lib/*"].map((path) => join(source, path)).join(":"),
        "platform.client.conformance.Driver",
      ]);
      driver.child.stdin?.end(`${JSON.stringify(request)}\n`);
      const { steps } = JSON.parse((await driver).stdout);
      const answered = { answer: { caller: { principalId: "payroll-service" } } };
      expect(steps).toMatchObject([answered, { steps: [answered, answered] }]);
    } finally {
      await gateway.stop();
    }
  }
});

test("every class that is public has its documentation in the archive, and its source", { timeout }, async () => {
  const [classes, sources, pages] = await Promise.all(
    archives.map(async (archive) =>
      (await run("jar", ["--list", "--file", join(source, "target", archive)])).split("\n"),
    ),
  );
  for (const name of ["PlatformClient", "ClientCredentials", "DpopKey", "PlatformException", "Receipts"]) {
    expect(classes).toContain(`platform/client/${name}.class`);
    expect(sources).toContain(`platform/client/${name}.java`);
    expect(pages).toContain(`platform/client/${name}.html`);
  }
  expect(sources).toContain("platform/sdk/v1/Receipt.java");
  // Neither other people's definitions, which other packages bring, nor the service that is not public.
  const foreign = classes?.filter((name) => name.endsWith(".class") && !name.startsWith("platform/"));
  expect(foreign).toEqual([]);
  expect(classes?.filter((name) => name.includes("Session"))).toEqual([]);
});
