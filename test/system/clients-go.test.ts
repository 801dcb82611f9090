/** The Go package: its own tests, and its README's program as somebody else would build it, from the archive alone. */
import { execFile, execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { copyFile, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startGateway } from "../harness/gateway.ts";
import { type Deployment, root, startDeployment } from "./clients-deployment.ts";

const timeout = 600_000;
const source = join(root, "clients/go");
let archive: string;
let deployment: Deployment;
let folder: string;

beforeAll(async () => {
  execFileSync(process.execPath, ["scripts/proto-deps.ts"], { cwd: root });
  archive = execFileSync(join(source, "build.sh"), { encoding: "utf8" }).trimEnd().split("\n").at(-1) as string;
  folder = await mkdtemp(join(tmpdir(), "svc-clients-go-"));
  deployment = await startDeployment();
  await deployment.startGateway();
}, timeout);
afterAll(async () => {
  await deployment?.stop();
  await rm(folder, { recursive: true });
});

const run = async (command: string, args: readonly string[], cwd: string, env: Readonly<Record<string, string>> = {}) =>
  (await promisify(execFile)(command, [...args], { cwd, env: { ...process.env, ...env } })).stdout;

test("is formatted, and nothing in it is suspicious", { timeout }, async () => {
  expect(await run("gofmt", ["-l", "."], source)).toBe("");
  expect(await run("go", ["vet", "./..."], source)).toBe("");
});

test("passes its own tests, without a race", { timeout }, async () => {
  await run("go", ["test", "-race", "./..."], source);
});

test("the README's program is built from the archive in an empty folder, and is answered", { timeout }, async () => {
  const readme = await readFile(join(source, "README.md"), "utf8");
  const [commands = "", program = ""] = ["sh", "go"].map((language) => block(readme, language));
  await copyFile(archive, join(folder, basename(archive)));
  await writeFile(join(folder, "main.go"), program);
  const installing = commands.split("\n").filter((line) => !line.startsWith("clients/go/build.sh"));
  await run(
    "bash",
    ["-euc", ["go mod init example.com/payroll", ...installing, "go build -o program ."].join("\n")],
    folder,
  );
  expect(await run(join(folder, "program"), [], folder, deployment.clientEnv())).toMatch(/^true [0-9a-f-]{36}\n$/);
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
      const request = {
        case: "dpop",
        base_url: gateway.url,
        tls: {},
        token: {
          issuer: gateway.issuer.url,
          client_id: client.clientId,
          client_secret: client.clientSecret,
          scopes: client.scopes,
        },
        dpop: true,
        options: { deadline_ms: 10_000, max_attempts: 1 },
        steps: [{ call: "whoami" }, { call: "concurrent", calls: [{ call: "whoami" }, { call: "capabilities" }] }],
      };
      const driver = promisify(execFile)(join(source, "target/conformance"));
      driver.child.stdin?.end(`${JSON.stringify(request)}\n`);
      const { steps } = JSON.parse((await driver).stdout);
      const answered = { answer: { caller: { principalId: "payroll-service" } } };
      expect(steps).toMatchObject([answered, { steps: [answered, answered] }]);
    } finally {
      await gateway.stop();
    }
  }
});

/** The first block of code in the language. */
function block(markdown: string, language: string): string {
  return new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, "s").exec(markdown)?.[1] ?? "";
}
