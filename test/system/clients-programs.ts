/**
 * The programs of `clients` and `examples/clients`: how each is installed and started. The packages are as their users have
 * them: each installed from its archive, by its README's own commands, into an empty folder, with the README's program and
 * the example of all eight calls beside it, compiled in the language's strict mode.
 */
import { spawn } from "node:child_process";
import { access, copyFile, cp, mkdir, readdir, readFile, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { runProgram, watch } from "../harness/process.ts";
import { archiveOf, type PackageLanguage } from "./clients-builds.ts";
import { root } from "./clients-deployment.ts";
import { installClient, strictly } from "./clients-typescript-archive.ts";

export type Command = readonly [command: string, ...args: string[]];

/** What is installed in a folder. */
export interface Installed {
  /** Starts the example. */
  readonly start: Command;
  /** Starts the README's program, where its own test does not; and what it prints. */
  readonly readme?: { readonly start: Command; readonly prints: RegExp };
}

/** Installs an archive, which is built if it was not. @param folder which is empty */
type Install = (folder: string) => Promise<Installed>;

const source = (...path: string[]) => join(root, "clients", ...path);
const readmeOf = (language: string) => readFile(source(language, "README.md"), "utf8");

const run = (cwd: string, [command, ...args]: Command, env: Readonly<Record<string, string>> = {}) =>
  runProgram(command, args, { cwd, env: { ...process.env, NODE_OPTIONS: "", ...env } });
const shell = (cwd: string, lines: readonly string[]) => run(cwd, ["bash", "-euc", lines.join("\n")]);

const installGo: Install = async (folder) => {
  const readme = await readmeOf("go");
  const archive = archiveOf("go");
  await copyFile(archive, join(folder, basename(archive)));
  await writeFile(join(folder, "main.go"), block(readme, "go"));
  await cp(source("go/examples"), join(folder, "workload"), { recursive: true });
  const installing = block(readme, "sh")
    .split("\n")
    .filter((line) => !line.startsWith("clients/go/build.sh"));
  await shell(folder, [
    "go mod init example.com/payroll",
    ...installing,
    "go vet . ./workload",
    "go build -o bin/ . ./workload",
  ]);
  await requireLinks(join(folder, "vendored", basename(archive, ".tar.gz")));
  return {
    start: [join(folder, "bin/workload")],
    readme: { start: [join(folder, "bin/payroll")], prints: /^true [0-9a-f-]{36}\n$/ },
  };
};

const installJava: Install = async (folder) => {
  const readme = await readmeOf("java");
  const built = dirname(archiveOf("java"));
  for (const name of (await readdir(built)).filter((one) => one.endsWith(".jar")))
    await copyFile(join(built, name), join(folder, name));
  await copyFile(source("java/examples/pom.xml"), join(folder, "pom.xml"));
  await cp(source("java/examples/src"), join(folder, "src"), { recursive: true });
  await writeFile(join(folder, "src/main/java/Main.java"), block(readme, "java"));
  const installing = block(readme, "sh");
  // The README's own words, which the example's project repeats.
  const pom = await readFile(join(folder, "pom.xml"), "utf8");
  const words = (xml: string) => xml.replace(/\s+/g, "");
  if (!words(pom).includes(words(block(readme, "xml")))) throw new Error("the README names another dependency");
  await shell(folder, [installing.slice(installing.indexOf("mvn ")), "mvn --quiet --batch-mode process-classes"]);
  const classPath = `${folder}/target/classes:${folder}/target/lib/*`;
  return {
    start: ["java", "-cp", classPath, "platform.example.Main"],
    readme: { start: ["java", "-cp", classPath, "Main"], prints: /^allowed [0-9a-f-]{36}\n$/ },
  };
};

const installRust: Install = async (folder) => {
  const readme = await readmeOf("rust");
  const archive = archiveOf("rust");
  const crate = basename(archive, ".crate");
  // Written now: by their times in the archive Cargo would take what an older one was compiled to.
  await run(folder, ["tar", "xzmf", archive]);
  await requireLinks(join(folder, crate));
  const heading = '[package]\nname = "payroll"\nedition = "2024"\n';
  await writeFile(join(folder, "Cargo.toml"), `${heading}${block(readme, "toml")}\n[lints.rust]\nwarnings = "deny"\n`);
  await mkdir(join(folder, "src/bin"), { recursive: true });
  await writeFile(join(folder, "src/main.rs"), block(readme, "rust"));
  // As the archive has it.
  await cp(join(folder, crate, "examples/workload"), join(folder, "src/bin/workload"), { recursive: true });
  // What others wrote is compiled once for all that is built here: in the versions that the archive names.
  await copyFile(join(folder, crate, "Cargo.lock"), join(folder, "Cargo.lock"));
  const env = { CARGO_TARGET_DIR: source("rust/target"), CARGO_PROFILE_DEV_DEBUG: "0", CARGO_BUILD_JOBS: "2" };
  await run(folder, ["cargo", "build", "--quiet"], env);
  return {
    start: [source("rust/target/debug/workload")],
    readme: { start: [source("rust/target/debug/payroll")], prints: /^whoami payroll-service of tenant-a\n$/ },
  };
};

const installPython: Install = async (folder) => {
  const archive = archiveOf("python");
  const programs = await copyPrograms(source("python/examples"), ".py", folder);
  await writeFile(join(folder, "readme.py"), block(await readmeOf("python"), "python"));
  await run(folder, ["python3", "-m", "venv", "venv"]);
  const python = join(folder, "venv/bin/python");
  await run(folder, [python, "-m", "pip", "install", "--quiet", archive]);
  const mypy = ["--strict", "--python-executable", python, "--cache-dir", join(folder, "cache")];
  await run(folder, [source("python/.venv/bin/mypy"), ...mypy, ...programs, "readme.py"]);
  return {
    start: [python, join(folder, "main.py")],
    readme: { start: [python, join(folder, "readme.py")], prints: /^allowed [0-9a-f-]{36}\n$/ },
  };
};

/** Its README's program has a test of its own, on every Node that it names. */
const installTypescript: Install = async (folder) => {
  const { run: runHere } = await installClient(folder, "@types/node");
  await requireLinks(join(folder, "node_modules/svc-platform-client"));
  const programs = await copyPrograms(source("typescript/examples"), ".ts", folder);
  const options = ["--rewriteRelativeImportExtensions", "--outDir", "built"];
  await runHere(process.execPath, [...strictly, ...options, ...programs]);
  return { start: [process.execPath, join(folder, "built/main.js")] };
};

/** A driver, and the cases that the tables of `docs/clients.md` say it does not pass, by parts of their names. */
export interface Driver {
  readonly command: Command;
  readonly lacks?: readonly string[];
}

export interface ClientPackage {
  readonly language: PackageLanguage;
  readonly install: Install;
  /** The drivers of its package, for `clients/conformance`: all that can be different in it has one. */
  readonly drivers: readonly Driver[];
}

const javaDriver = ["target/test-classes", "target/classes", "target/lib/*"]
  .map((path) => source(`java/${path}`))
  .join(":");
const pythonDriver: Command = [source("python/.venv/bin/python"), source("python/conformance/driver.py")];
const typescriptDriver: Command = [process.execPath, source("typescript/conformance/driver.ts")];

export const clientPackages: readonly ClientPackage[] = [
  { language: "go", install: installGo, drivers: [{ command: [source("go/target/conformance")] }] },
  {
    language: "python",
    install: installPython,
    drivers: [{ command: pythonDriver }, { command: [...pythonDriver, "--async"] }],
  },
  {
    language: "java",
    install: installJava,
    drivers: [{ command: ["java", "-cp", javaDriver, "platform.client.conformance.Driver"], lacks: ["certificates/"] }],
  },
  {
    language: "rust",
    install: installRust,
    drivers: [{ command: [source("rust/target/debug/conformance-driver")], lacks: ["certificates/"] }],
  },
  {
    language: "typescript",
    install: installTypescript,
    drivers: [{ command: typescriptDriver }, { command: [...typescriptDriver, "json"], lacks: ["streams/"] }],
  },
];

/** What a program did. */
export interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A program that runs. */
export interface Running {
  readonly done: Promise<Run>;
  /** Standard error so far. */
  errors(): string;
}

/** Starts a command. It gets these variables and what any program needs, nothing else of the test's own. */
export function startCommand([command, ...args]: Command, env: Readonly<Record<string, string>>): Running {
  const { PATH, HOME } = process.env;
  const child = spawn(command, args, { cwd: root, env: { PATH, HOME, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  const { ended, printed, errors } = watch(child);
  return { done: ended.then(({ code }) => ({ code, stdout: printed(), stderr: errors() })), errors };
}

/** Copies the programs with this ending; resolves with their names. */
async function copyPrograms(from: string, ending: string, folder: string): Promise<string[]> {
  const names = (await readdir(from)).filter((name) => name.endsWith(ending));
  for (const name of names) await copyFile(join(from, name), join(folder, basename(name)));
  return names;
}

/** Rejects where the README of an installed package names a file that the archive does not have. */
async function requireLinks(installed: string): Promise<void> {
  const readme = await readFile(join(installed, "README.md"), "utf8");
  for (const [, target = ""] of readme.matchAll(/\]\(([^)#]+)/g))
    if (!/^[a-z]+:/.test(target)) await access(join(installed, target));
}

/** The first block of code in the language. */
function block(markdown: string, language: string): string {
  return new RegExp(`\`\`\`${language}(?:,no_run)?\n(.*?)\`\`\``, "s").exec(markdown)?.[1] ?? "";
}
