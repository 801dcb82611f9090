/** The programs of `clients` and `examples/clients`: how each is installed and started. */
import { type ChildProcess, spawn } from "node:child_process";
import { join } from "node:path";
import type { PackageLanguage } from "./clients-builds.ts";
import { root } from "./clients-deployment.ts";
import * as archives from "./clients-installed.ts";

/** A driver, and the cases that the tables of `docs/clients.md` say it does not pass, by parts of their names. */
export interface Driver {
  readonly command: archives.Command;
  readonly lacks?: readonly string[];
}

export interface ClientProgram {
  readonly language: string;
  /** The package, if there is one, and how its archive is installed. */
  readonly archive?: PackageLanguage;
  readonly install?: archives.Install;
  /** The program, if there is no archive to install it with. */
  readonly start?: archives.Command;
  /** The drivers of its package, for `clients/conformance`: all that can be different in it has one. */
  readonly drivers?: readonly Driver[];
  /** Whether it checks the receipt where it is given the log's key. */
  readonly verifiesReceipts: boolean;
}

const inClients = (path: string) => join(root, "clients", path);
const javaDriver = ["target/test-classes", "target/classes", "target/lib/*"]
  .map((path) => inClients(`java/${path}`))
  .join(":");
const pythonDriver: archives.Command = [
  inClients("python/.venv/bin/python"),
  inClients("python/conformance/driver.py"),
];
const typescriptDriver: archives.Command = [process.execPath, inClients("typescript/conformance/driver.ts")];

export const clientPrograms: readonly ClientProgram[] = [
  {
    language: "go",
    archive: "go",
    install: archives.installGo,
    drivers: [{ command: [inClients("go/target/conformance")] }],
    verifiesReceipts: true,
  },
  {
    language: "python",
    archive: "python",
    install: archives.installPython,
    drivers: [{ command: pythonDriver }, { command: [...pythonDriver, "--async"] }],
    verifiesReceipts: true,
  },
  {
    language: "java",
    archive: "java",
    install: archives.installJava,
    drivers: [
      {
        command: ["java", "-cp", javaDriver, "platform.client.conformance.Driver"],
        lacks: ["certificates/"],
      },
    ],
    verifiesReceipts: true,
  },
  {
    language: "rust",
    archive: "rust",
    install: archives.installRust,
    drivers: [
      {
        command: [inClients("rust/target/debug/conformance-driver")],
        lacks: ["certificates/"],
      },
    ],
    verifiesReceipts: true,
  },
  {
    language: "typescript",
    archive: "typescript",
    install: archives.installTypescript,
    drivers: [{ command: typescriptDriver }, { command: [...typescriptDriver, "json"], lacks: ["streams/"] }],
    verifiesReceipts: true,
  },
  { language: "shell", start: [join(root, "examples/clients/shell/main.sh")], verifiesReceipts: false },
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
export function startCommand([command, ...args]: archives.Command, env: Readonly<Record<string, string>>): Running {
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
