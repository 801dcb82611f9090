/** Programs in separate processes; the service as an operator starts it: `node src/main.js` and an environment. */
import {
  type ChildProcess,
  type ChildProcessByStdio,
  type ExecFileOptions,
  execFile,
  type SpawnOptions,
  spawn,
} from "node:child_process";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import type { Readable, Writable } from "node:stream";
import { promisify } from "node:util";
import { vi } from "vitest";
import type { FixedLimits } from "../../src/config/settings.ts";

const root = join(import.meta.dirname, "../..");

/** How a process ended. */
export interface Exit {
  /** Null where a signal ended it. */
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

export interface ServiceProcess {
  readonly child: ChildProcess;
  /** Lines of standard output so far; the list grows. */
  readonly lines: readonly string[];
  /** Standard output so far. */
  printed(): string;
  /** Standard error so far. */
  errors(): string;
  /** Resolves once the process is gone and all of its output is read. */
  readonly ended: Promise<Exit>;
  /** Resolves with the first line, past or to come, that has the text; rejects where the process ends without. */
  line(text: string): Promise<string>;
  /** Kills it. Resolves once it is gone. */
  stop(): Promise<Exit>;
}

export interface RunningService extends ServiceProcess {
  readonly url: string;
  readonly opsUrl: string;
  /** Memory that is resident now, in bytes. */
  residentBytes(): number;
}

/** Settings of a whole deployment on loopback, with its store in the folder. */
export function serviceSettings(dataDir: string, issuerUrl: string): Record<string, string> {
  return {
    SVC_LISTEN: "127.0.0.1:0",
    SVC_OPS_LISTEN: "127.0.0.1:0",
    SVC_OIDC_ISSUER: issuerUrl,
    SVC_PROOF_OF_POSSESSION: "none",
    SVC_STORE: `sqlite:${join(dataDir, "platform.db")}`,
    SVC_LEDGER_KEY: join(dataDir, "ledger.key"),
    SVC_LEDGER_ORIGIN: "localhost/test",
    SVC_POLICY_DIR: join(root, "policies"),
  };
}

/**
 * Starts the process with this environment and no other, in the folder. Another program may stand in for the service.
 *
 * @param launcher command that becomes the program which its arguments name
 */
export function spawnService(
  cwd: string,
  settings: Readonly<Record<string, string>>,
  program = "src/main.js",
  launcher: readonly string[] = [],
): ServiceProcess {
  const [command = process.execPath, ...args] = [...launcher, process.execPath, resolve(root, program)];
  const child = spawn(command, args, {
    cwd,
    env: { PATH: process.env.PATH ?? "", ...settings },
    stdio: ["ignore", "pipe", "pipe"],
  });
  return watch(child);
}

/** Runs a program to its end. Resolves with its standard output; rejects if it fails, with everything that it said. */
export async function runProgram(command: string, args: readonly string[], options: ExecFileOptions = {}) {
  try {
    const given = { maxBuffer: 2 ** 28, ...options, encoding: "utf8" } as const;
    return (await promisify(execFile)(command, args, given)).stdout;
  } catch (error) {
    // Node puts standard error there.
    (error as Error).message += `\n${(error as { readonly stdout?: string }).stdout}`;
    throw error;
  }
}

/**
 * Starts another server, and whatever that starts, as one group of processes. Resolves when it is ready; rejects with
 * everything that it said if it ends before.
 *
 * @param isReady rejects until it is
 */
export async function startProgram(
  command: string,
  args: readonly string[],
  isReady: () => Promise<unknown>,
  { options = {}, timeoutMs = 60_000 }: { readonly options?: SpawnOptions; readonly timeoutMs?: number } = {},
): Promise<Pick<ServiceProcess, "stop">> {
  const child = spawn(command, args, { ...options, detached: true, stdio: ["ignore", "pipe", "pipe"] });
  const { ended, printed, errors } = watch(child);
  const stop = () => {
    if (child.pid !== undefined && child.exitCode === null && child.signalCode === null)
      process.kill(-child.pid, "SIGKILL");
    return ended;
  };
  const over = ended.then(() => {
    throw new Error(`${command} ended:\n${printed()}\n${errors()}`);
  });
  try {
    await Promise.race([vi.waitFor(isReady, { timeout: timeoutMs, interval: 100 }), over]);
    return { stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** Reads what the process prints, from now on. */
export function watch(child: ChildProcessByStdio<Writable | null, Readable, Readable>): ServiceProcess {
  const lines: string[] = [];
  const watchers = new Set<() => void>();
  let rest = "";
  let errors = "";
  let over = false;
  const wake = () => {
    for (const watcher of watchers) watcher();
  };
  child.stdout.setEncoding("utf8").on("data", (text: string) => {
    const parts = (rest + text).split("\n");
    rest = parts.pop() ?? "";
    lines.push(...parts);
    wake();
  });
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    errors += text;
  });
  const ended = new Promise<Exit>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", (code, signal) => {
      over = true;
      wake();
      resolve({ code, signal });
    });
  });
  return {
    child,
    lines,
    printed: () => [...lines, rest].join("\n"),
    errors: () => errors,
    ended,
    stop() {
      child.kill("SIGKILL");
      return ended;
    },
    line: (text) =>
      new Promise((resolve, reject) => {
        const look = () => {
          const found = lines.find((line) => line.includes(text));
          if (found === undefined && !over) return;
          watchers.delete(look);
          if (found !== undefined) resolve(found);
          else reject(new Error(`the process ended without "${text}":\n${lines.join("\n")}\n${errors}`));
        };
        watchers.add(look);
        look();
      }),
  };
}

/** Starts the process and waits until it listens. Rejects with its output where it ends before. */
export async function startService(
  cwd: string,
  settings: Readonly<Record<string, string>>,
  program?: string,
  launcher?: readonly string[],
): Promise<RunningService> {
  const service = spawnService(cwd, settings, program, launcher);
  const { url, ops_url } = JSON.parse(await service.line('"message":"listening"'));
  return {
    ...service,
    url,
    opsUrl: ops_url,
    residentBytes: () => residentBytes(service.child.pid),
  };
}

/** The same with shorter limits than a deployment can have. */
export function startLimitedService(
  cwd: string,
  settings: Readonly<Record<string, string>>,
  limits: Partial<FixedLimits>,
): Promise<RunningService> {
  return startService(cwd, { ...settings, LIMITS: JSON.stringify(limits) }, "test/harness/limited-service.ts");
}

/** From the kernel's own account; where there is none (not Linux), what a test compares stays at zero. */
function residentBytes(pid: number | undefined): number {
  try {
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1]) * 1024;
  } catch {
    return 0;
  }
}
