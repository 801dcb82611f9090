/** The Java package: its README's program as somebody else would build it, from the archives alone. */
import { execFile, execFileSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { startGateway } from "../harness/gateway.ts";
import { type Deployment, root, startDeployment } from "./clients-deployment.ts";

const timeout = 600_000;
const source = join(root, "clients/java");
const archives = ["", "-sources", "-javadoc"].map((kind) => `platform-client-0.1.0${kind}.jar`);
let deployment: Deployment;
let folder: string;

beforeAll(async () => {
  execFileSync(process.execPath, ["scripts/proto-deps.ts"], { cwd: root });
  // Its own tests run too, and a warning of the compiler or of javadoc is an error.
  execFileSync(join(source, "build.sh"));
  folder = await mkdtemp(join(tmpdir(), "svc-clients-java-"));
  deployment = await startDeployment();
  await deployment.startGateway();
}, timeout);
afterAll(async () => {
  await deployment?.stop();
  await rm(folder, { recursive: true });
});

const run = async (command: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  (await promisify(execFile)(command, [...args], { cwd: folder, env: { ...process.env, ...env } })).stdout;

test("the README's program is built from the archives in an empty project, and is answered", { timeout }, async () => {
  const readme = await readFile(join(source, "README.md"), "utf8");
  const [commands = "", dependency = "", program = ""] = ["sh", "xml", "java"].map((kind) => block(readme, kind));
  for (const archive of archives) await copyFile(join(source, "target", archive), join(folder, archive));
  await mkdir(join(folder, "src/main/java"), { recursive: true });
  await writeFile(join(folder, "src/main/java/Main.java"), program);
  await writeFile(join(folder, "pom.xml"), pomWith(dependency));
  const installing = commands.slice(commands.indexOf("mvn "));
  await run("bash", ["-euc", installing]);
  await run("mvn", ["--quiet", "--batch-mode", "process-classes"]);
  const answer = await run("java", ["-cp", "target/classes:target/lib/*", "Main"], deployment.clientEnv());
  expect(answer).toMatch(/^allowed [0-9a-f-]{36}\n$/);
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

/** The first block of code in the language. */
function block(markdown: string, language: string): string {
  return new RegExp(`\`\`\`${language}\n(.*?)\`\`\``, "s").exec(markdown)?.[1] ?? "";
}

function pomWith(dependency: string): string {
  const plugin = (name: string, version: string, more = "") =>
    `<plugin><artifactId>maven-${name}-plugin</artifactId><version>${version}</version>${more}</plugin>`;
  const libraries = `<executions><execution>
      <phase>process-classes</phase><goals><goal>copy-dependencies</goal></goals>
      <configuration><outputDirectory>target/lib</outputDirectory></configuration>
    </execution></executions>`;
  return `<project xmlns="http://maven.apache.org/POM/4.0.0">
    <modelVersion>4.0.0</modelVersion>
    <groupId>example</groupId><artifactId>payroll</artifactId><version>1</version>
    <properties><maven.compiler.release>17</maven.compiler.release></properties>
    <dependencies>${dependency}</dependencies>
    <build><plugins>
      ${plugin("resources", "3.3.1")}${plugin("compiler", "3.14.1")}${plugin("dependency", "3.11.0", libraries)}
    </plugins></build>
  </project>`;
}
