/** The Rust crate: what its sources have to pass, and its README's program as somebody else would build it. */
import { execFile, execFileSync } from "node:child_process";
import { copyFile, mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Deployment, root, startDeployment } from "./clients-deployment.ts";

const timeout = 900_000;
const source = join(root, "clients/rust");
const crate = "svc-platform-client-0.1.0";
let deployment: Deployment;
let folder: string;

beforeAll(async () => {
  execFileSync(process.execPath, ["scripts/proto-deps.ts"], { cwd: root });
  execFileSync(join(source, "build.sh"));
  folder = await mkdtemp(join(tmpdir(), "svc-clients-rust-"));
  deployment = await startDeployment();
  await deployment.startGateway();
}, timeout);
afterAll(async () => {
  await deployment?.stop();
  await rm(folder, { recursive: true });
});

const run = async (command: string, args: readonly string[], cwd: string, env: Readonly<Record<string, string>> = {}) =>
  (await promisify(execFile)(command, [...args], { cwd, env: { ...process.env, ...env } })).stdout;

test("is formatted, without a warning, documented, and passes its own tests", { timeout }, async () => {
  await run(join(source, "check.sh"), [], source);
});

test("the README's program is built from the archive in an empty folder, and is answered", { timeout }, async () => {
  const readme = await readFile(join(source, "README.md"), "utf8");
  await run("tar", ["xzf", join(source, "target/package", `${crate}.crate`)], folder);
  await writeFile(
    join(folder, "Cargo.toml"),
    `[package]\nname = "payroll"\nedition = "2024"\n${block(readme, "toml")}`,
  );
  await mkdir(join(folder, "src"));
  await writeFile(join(folder, "src/main.rs"), block(readme, "rust"));
  // What others wrote is compiled once for all that is built here: in the versions that the archive names.
  await copyFile(join(folder, crate, "Cargo.lock"), join(folder, "Cargo.lock"));
  const env = { CARGO_TARGET_DIR: join(source, "target"), CARGO_PROFILE_DEV_DEBUG: "0", CARGO_BUILD_JOBS: "2" };
  await run("cargo", ["build", "--quiet"], folder, env);
  const answer = await run(join(source, "target/debug/payroll"), [], folder, deployment.clientEnv());
  expect(answer).toBe("whoami payroll-service of tenant-a\n");
});

/** The first block of code in the language. */
function block(markdown: string, language: string): string {
  return new RegExp(`\`\`\`${language}(?:,no_run)?\n(.*?)\`\`\``, "s").exec(markdown)?.[1] ?? "";
}
