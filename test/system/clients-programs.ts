/** The programs of `clients` and `examples/clients`: how each is built and started. */
import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import { root } from "./clients-deployment.ts";

export interface ClientProgram {
  readonly language: string;
  /** Generates the stubs and builds the program; absent where there is nothing to do. */
  readonly build?: readonly [command: string, ...args: string[]];
  readonly start: readonly [command: string, ...args: string[]];
  /** The drivers of its package, for `clients/conformance`: all that can be different in it has one. */
  readonly drivers?: readonly (readonly string[])[];
  /** Whether it checks the receipt where it is given the log's key. */
  readonly verifiesReceipts: boolean;
}

const folder = (language: string, path: string) => join(root, "examples/clients", language, path);
const inClients = (path: string) => join(root, "clients", path);
const javaDriver = ["target/test-classes", "target/classes", "target/lib/*"]
  .map((path) => inClients(`java/${path}`))
  .join(":");
const pythonDriver = [inClients("python/.venv/bin/python"), inClients("python/conformance/driver.py")];
const typescriptDriver = [process.execPath, inClients("typescript/conformance/driver.ts")];
const java = (path: string) => join(root, "clients/java/examples", path);

export const clientPrograms: readonly ClientProgram[] = [
  {
    language: "go",
    build: [join(root, "clients/go/build.sh")],
    start: [join(root, "clients/go/target/examples")],
    drivers: [[inClients("go/target/conformance")]],
    verifiesReceipts: true,
  },
  {
    language: "python",
    build: [join(root, "clients/python/build.sh")],
    start: [join(root, "clients/python/.venv/bin/python"), join(root, "clients/python/examples/main.py")],
    drivers: [pythonDriver, [...pythonDriver, "--async"]],
    verifiesReceipts: true,
  },
  {
    language: "java",
    build: [java("build.sh")],
    start: ["java", "-cp", `${java("target/classes")}:${java("target/lib/*")}`, "platform.example.Main"],
    drivers: [["java", "-cp", javaDriver, "platform.client.conformance.Driver"]],
    verifiesReceipts: true,
  },
  {
    language: "rust",
    build: [join(root, "clients/rust/build.sh")],
    start: [join(root, "clients/rust/target/debug/examples/workload")],
    drivers: [[inClients("rust/target/debug/conformance-driver")]],
    verifiesReceipts: true,
  },
  {
    language: "typescript",
    build: [process.execPath, join(root, "clients/typescript/build.ts")],
    start: [process.execPath, join(root, "clients/typescript/examples/main.ts")],
    drivers: [typescriptDriver, [...typescriptDriver, "json"]],
    verifiesReceipts: true,
  },
  { language: "shell", start: [folder("shell", "main.sh")], verifiesReceipts: false },
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
  /** Resolves when its standard error shows the pattern; rejects where it ends before. */
  shows(pattern: RegExp): Promise<void>;
}

/** Starts a command. It gets these variables and what any program needs, nothing else of the test's own. */
export function startCommand(
  [command, ...args]: readonly [string, ...string[]],
  env: Readonly<Record<string, string>>,
): Running {
  const { PATH, HOME } = process.env;
  const child = spawn(command, args, { cwd: root, env: { PATH, HOME, ...env }, stdio: ["ignore", "pipe", "pipe"] });
  const output = { stdout: "", stderr: "" };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    output.stdout += text;
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    output.stderr += text;
  });
  const done = ended(child).then((code) => ({ code, ...output }));
  return {
    done,
    async shows(pattern) {
      const seen = new Promise<void>((resolve) => {
        const look = () => pattern.test(output.stderr) && resolve();
        child.stderr.on("data", look);
        look();
      });
      const over = done.then(({ code, stderr }) => {
        throw new Error(`${command} ended with ${code} before it showed ${pattern}: ${stderr}`);
      });
      // The race may be over long before the program is.
      over.catch(() => {});
      await Promise.race([seen, over]);
    },
  };
}

function ended(child: ChildProcess): Promise<number | null> {
  return new Promise((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
}
