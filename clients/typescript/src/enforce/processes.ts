/**
 * Identifies the process that made a file, and whether it still runs: process ids are reused, so its start time counts
 * too.
 */
import { readFileSync } from "node:fs";

export interface ProcessMark {
  readonly pid: number;
  /** Clock ticks from boot to its start, if the system shows them; else `0`. */
  readonly started: string;
}

let own: ProcessMark | undefined;

export function ownProcess(): ProcessMark {
  own ??= { pid: process.pid, started: startOf(process.pid) };
  return own;
}

/** Whether that process runs. If the system shows no start times, another process with its id counts as it. */
export function isRunning({ pid, started }: ProcessMark): boolean {
  if (!Number.isSafeInteger(pid) || pid <= 0) return false;
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EPERM") return false;
  }
  return startOf(pid) === started;
}

/** Field 22 of proc_pid_stat(5); the name before it may hold spaces and parentheses. */
function startOf(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, "utf8");
    return stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? "0";
  } catch {
    return "0";
  }
}
