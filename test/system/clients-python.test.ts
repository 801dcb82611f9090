/** The Python package: tokens of sessions, and its README's programs as a user would run them, from the sdist alone. */
import { readdir, readFile, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { expect, test } from "vitest";
import { folderForFile } from "../harness/folder.ts";
import { gatewayForFile } from "../harness/gateway.ts";
import { forTest } from "../harness/lifetimes.ts";
import { runProgram } from "../harness/process.ts";
import { startSessionDeployment, testClient } from "../harness/sessions.ts";
import { archiveOf } from "./clients-builds.ts";
import { platformEnv, root } from "./clients-deployment.ts";

const timeout = 600_000;
const source = join(root, "clients/python");
const dist = dirname(archiveOf("python"));
const folder = folderForFile("clients-python");
/** Without TLS. */
const plainEnv = platformEnv(await gatewayForFile({ env: { SVC_BULK: "on" } }));

const run = (command: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) =>
  runProgram(command, args, { cwd: folder, env: { ...process.env, ...env } });

test("the archives' README names only files that they contain", async () => {
  const readme = await readFile(join(source, "README.md"), "utf8");
  const links = [...readme.matchAll(/\]\(([^)]*)\)/g)].map(([, target = ""]) => target);
  expect(links.filter((target) => !target.startsWith("https://"))).toEqual([]);
});

test("the session route gives tokens for the client's secret alone", { timeout }, async () => {
  const client = testClient();
  const { gateway } = await forTest(startSessionDeployment([client]));
  const program = join(folder, "sessions.py");
  await writeFile(program, sessionProgram);
  const ask = (secret: string) =>
    run(join(source, ".venv/bin/python"), [program, gateway.url, client.tenantId, client.clientId, secret]);
  expect(await ask(client.secret)).toBe("payroll-service\n");
  expect(await ask("t".repeat(43))).toBe("UNAUTHENTICATED invalid_client\n");
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

test("the README's programs run over the sdist, and are checked against its types", { timeout }, async () => {
  const [archive = ""] = (await readdir(dist)).filter((name) => name.endsWith(".tar.gz"));
  const readme = await readFile(join(source, "README.md"), "utf8");
  const [text = "", many = ""] = [...readme.matchAll(/```python\n(.*?)```/gs)].map(([, program = ""]) => program);
  const programs = { "program.py": text, "many.py": many };
  for (const [name, program] of Object.entries(programs)) await writeFile(join(folder, name), program);
  await run("python3", ["-m", "venv", "venv"]);
  const python = join(folder, "venv/bin/python");
  await run(python, ["-m", "pip", "install", "--quiet", join(dist, archive)]);
  expect(await run(python, ["program.py"], plainEnv)).toMatch(/^allowed [0-9a-f-]{36}\n$/);
  expect(await run(python, ["many.py"], plainEnv)).toBe("allowed 3 recorded 3\n");
  expect(await run(python, [join(source, "examples/main.py")], plainEnv)).toMatch(/^evidence accepted true /m);
  const mypy = (...files: string[]) =>
    run(join(source, ".venv/bin/mypy"), ["--strict", "--python-executable", python, "--cache-dir", "cache", ...files]);
  expect(await mypy(...Object.keys(programs))).toMatch(/^Success/);
  const wrong = `${text}\nclient.plan_protection(v1.RecordEvidenceRequest())\nplan.decision.allowed\n`;
  await writeFile(join(folder, "wrong.py"), wrong);
  const problems = await mypy("wrong.py").catch(({ stdout }) => String(stdout));
  expect(problems).toMatch(/\[arg-type\].*\[attr-defined\].*Found 2 errors/s);
});
