/** The Python package: its own checks, and its README's program as a user would run it, from each archive alone. */
import { execFile } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { defaultClient } from "../../dev/issuer.ts";
import { type Gateway, startGateway } from "../harness/gateway.ts";
import { startSessionDeployment } from "../harness/sessions.ts";
import { type Deployment, root, startDeployment } from "./clients-deployment.ts";
import { buildClient } from "./clients-programs.ts";

const timeout = 600_000;
const source = join(root, "clients/python");
let deployment: Deployment;
/** A service and an issuer without TLS. */
let plain: Gateway;
let plainEnv: Readonly<Record<string, string>>;
let folder: string;

beforeAll(async () => {
  buildClient("python");
  folder = await mkdtemp(join(tmpdir(), "svc-clients-python-"));
  deployment = await startDeployment();
  await deployment.startGateway();
  const client = defaultClient();
  plain = await startGateway({ issuer: { clients: [client] }, env: { SVC_BULK: "on" } });
  plainEnv = {
    PLATFORM_URL: plain.url,
    PLATFORM_ISSUER: plain.issuer.url,
    PLATFORM_CLIENT_ID: client.clientId,
    PLATFORM_CLIENT_SECRET: client.clientSecret,
    PLATFORM_SCOPE: client.scopes.join(" "),
  };
}, timeout);
afterAll(async () => {
  await deployment?.stop();
  await plain?.stop();
  await rm(folder, { recursive: true });
});

async function run(command: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const { stdout } = await promisify(execFile)(command, [...args], { cwd: folder, env: { ...process.env, ...env } });
  return stdout;
}

test("the archives' README names nothing that is not in them", async () => {
  const readme = await readFile(join(source, "README.md"), "utf8");
  const links = [...readme.matchAll(/\]\(([^)]*)\)/g)].map(([, target = ""]) => target);
  expect(links.filter((target) => !target.startsWith("https://"))).toEqual([]);
});

test("is formatted, typed without a gap, and passes its own tests", { timeout }, async () => {
  await run(join(source, "check.sh"), []);
});

test("tokens of the session route are had for its client's secret alone", { timeout }, async () => {
  const client = {
    tenantId: "tenant-a",
    clientId: "payroll-service",
    secret: "s".repeat(43),
    scopes: ["platform-api.access"],
  };
  const sessions = await startSessionDeployment([client]);
  try {
    const program = join(folder, "sessions.py");
    await writeFile(program, sessionProgram);
    const ask = (secret: string) =>
      run(join(source, ".venv/bin/python"), [program, sessions.gateway.url, client.tenantId, client.clientId, secret]);
    expect(await ask(client.secret)).toBe("payroll-service\n");
    expect(await ask("t".repeat(43))).toBe("UNAUTHENTICATED invalid_client\n");
  } finally {
    await sessions.stop();
  }
});

const sessionProgram = `
import sys
from svc_platform_client import PlatformClient, PlatformError, SessionTokens

url, tenant_id, client_id, secret = sys.argv[1:]
with PlatformClient(url, tokens=SessionTokens(tenant_id, client_id, secret)) as client:
    try:
        print(client.who_am_i().caller.principal_id)
    except PlatformError as error:
        print(error.code.name, error.reason)
`;

test.each([".whl", ".tar.gz"])(
  "the README's program runs over the %s, and is checked against its types",
  {
    timeout,
  },
  async (ending) => {
    const archives = (await readdir(join(source, "dist"))).filter((name) => name.endsWith(ending));
    expect(archives.length).toBe(1);
    const project = join(folder, ending.slice(1));
    await mkdir(project);
    const program = join(project, "program.py");
    const readme = await readFile(join(source, "README.md"), "utf8");
    const [text = "", many = ""] = [...readme.matchAll(/```python\n(.*?)```/gs)].map(([, program = ""]) => program);
    await writeFile(program, text);
    const manyAtOnce = join(project, "many.py");
    await writeFile(manyAtOnce, many);
    const python = join(project, "venv/bin/python");
    await run("python3", ["-m", "venv", join(project, "venv")]);
    await run(python, ["-m", "pip", "install", "--quiet", join(source, "dist", archives[0] as string)]);
    const allowed = /^allowed [0-9a-f-]{36}\n$/;
    expect(await run(python, [program], deployment.clientEnv())).toMatch(allowed);
    expect(await run(python, [program], plainEnv)).toMatch(allowed);
    expect(await run(python, [manyAtOnce], plainEnv)).toBe("allowed 3 recorded 3\n");
    const example = join(source, "examples/main.py");
    expect(await run(python, [example], plainEnv)).toMatch(/^evidence accepted true /m);
    const mypy = ["--strict", "--python-executable", python, "--cache-dir", join(project, "cache")];
    const wrong = join(project, "wrong.py");
    await writeFile(wrong, `${text}\nclient.plan_protection(v1.RecordEvidenceRequest())\nplan.decision.allowed\n`);
    expect(await run(join(source, ".venv/bin/mypy"), [...mypy, program, manyAtOnce])).toMatch(/^Success/);
    const problems = await run(join(source, ".venv/bin/mypy"), [...mypy, wrong]).catch(({ stdout }) => String(stdout));
    expect(problems).toMatch(/\[arg-type\].*\[attr-defined\].*Found 2 errors/s);
  },
);
