/** A server in its own process, as an operator would run it. */
import { type ChildProcess, spawn } from "node:child_process";
import { closeSync, openSync, readFileSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";

export interface ChildOptions {
  /** Script and arguments for Node. */
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  /** File for the output of the process: a pipe to this process would use the load generator's core. */
  readonly logFile: string;
  /** Core that the process and all its threads are pinned to; any if absent. */
  readonly core?: number;
}

export interface Child<Listening> {
  /** What the process logged when it began to listen. */
  readonly listening: Listening;
  readonly pid: number;
  /** Resident memory now, in bytes. */
  residentBytes(): number;
  /** Processor time of all its threads so far, in microseconds. */
  cpuMicros(): number;
  /** Sends the signal and resolves with the exit code when the process has ended; null if a signal ended it. */
  stop(signal?: NodeJS.Signals): Promise<number | null>;
}

const startTimeoutMs = 300_000;

/** Starts a program, with its output in a file, pinned to a core if one is given. */
export function startProgram(command: readonly string[], { env, logFile, core }: Omit<ChildOptions, "command">) {
  const log = openSync(logFile, "w");
  const pin = core === undefined ? [] : ["taskset", "--cpu-list", String(core)];
  const [program, ...args] = [...pin, ...command] as [string, ...string[]];
  const child = spawn(program, args, { env: { PATH: process.env.PATH ?? "", ...env }, stdio: ["ignore", log, log] });
  closeSync(log);
  const ended = new Promise<number | null>((resolve, reject) => {
    child.once("exit", resolve);
    child.once("error", reject);
  });
  const stop = (signal: NodeJS.Signals = "SIGTERM") => {
    child.kill(signal);
    return ended;
  };
  return { child, stop, ended, cpuMicros: () => cpuMicros(child.pid as number) };
}

/**
 * Starts the process and waits for its line with `"message":"listening"`. Rejects with its output if it ends before.
 */
export async function startChild<Listening>(options: ChildOptions): Promise<Child<Listening>> {
  const { child, stop, cpuMicros } = startProgram([process.execPath, ...options.command], options);
  return {
    listening: await untilListening<Listening>(child, options.logFile),
    pid: child.pid as number,
    residentBytes: () => residentBytes(child.pid as number),
    cpuMicros,
    stop,
  };
}

async function untilListening<Listening>(child: ChildProcess, logFile: string): Promise<Listening> {
  const end = performance.now() + startTimeoutMs;
  while (performance.now() < end) {
    const output = readFileSync(logFile, "utf8");
    const line = output.split("\n").find((candidate) => candidate.includes('"message":"listening"'));
    if (line !== undefined) return JSON.parse(line) as Listening;
    if (child.exitCode !== null) throw new Error(`The server ended with ${child.exitCode}:\n${output}`);
    await delay(2);
  }
  child.kill("SIGKILL");
  throw new Error(`The server does not listen after ${startTimeoutMs} ms; its output is in ${logFile}.`);
}

function residentBytes(pid: number): number {
  const line = /^VmRSS:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"));
  if (line?.[1] === undefined) throw new Error(`process ${pid} shows no memory`);
  return Number(line[1]) * 1024;
}

/**
 * Processor time of all threads of the process so far. From fields 14 and 15 of `/proc/<pid>/stat`, which count in
 * hundredths of a second (proc(5), USER_HZ).
 */
export function cpuMicros(pid: number): number {
  const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
  // The name, field 2, is in parentheses and may hold spaces.
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * 10_000;
}
