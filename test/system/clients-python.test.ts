/** The Python package: its own checks, and its README's program as somebody else would run it, from each archive alone. */
import { execFile, execFileSync } from "node:child_process";
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Deployment, root, startDeployment } from "./clients-deployment.ts";

const timeout = 600_000;
const source = join(root, "clients/python");
let deployment: Deployment;
let folder: string;

beforeAll(async () => {
  execFileSync(process.execPath, ["scripts/proto-deps.ts"], { cwd: root });
  execFileSync(join(source, "build.sh"), { stdio: "pipe" });
  folder = await mkdtemp(join(tmpdir(), "svc-clients-python-"));
  deployment = await startDeployment();
  await deployment.startGateway();
}, timeout);
afterAll(async () => {
  await deployment?.stop();
  await rm(folder, { recursive: true });
});

async function run(command: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const { stdout } = await promisify(execFile)(command, [...args], { cwd: folder, env: { ...process.env, ...env } });
  return stdout;
}

test("is formatted, typed without a gap, and passes its own tests", { timeout }, async () => {
  await run(join(source, "check.sh"), []);
});

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
    const [, text = ""] = /```python\n(.*?)```/s.exec(await readFile(join(source, "README.md"), "utf8")) ?? [];
    await writeFile(program, text);
    const python = join(project, "venv/bin/python");
    await run("python3", ["-m", "venv", join(project, "venv")]);
    await run(python, ["-m", "pip", "install", "--quiet", join(source, "dist", archives[0] as string)]);
    expect(await run(python, [program], deployment.clientEnv())).toMatch(/^allowed [0-9a-f-]{36}\n$/);
    const mypy = ["--strict", "--python-executable", python, "--cache-dir", join(project, "cache")];
    const wrong = join(project, "wrong.py");
    await writeFile(wrong, `${text}\nclient.plan_protection(v1.RecordEvidenceRequest())\nplan.decision.allowed\n`);
    expect(await run(join(source, ".venv/bin/mypy"), [...mypy, program])).toMatch(/^Success/);
    const problems = await run(join(source, ".venv/bin/mypy"), [...mypy, wrong]).catch(({ stdout }) => String(stdout));
    expect(problems).toMatch(/\[arg-type\].*\[attr-defined\].*Found 2 errors/s);
  },
);
