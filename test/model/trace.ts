/** Traces of one log, a line for each action with the state after it; and their replay against docs/model/append.qnt. */
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { TenantId } from "../../src/base/ids.ts";
import type { Machine } from "../simulation/machine.ts";
import type { Oracle } from "../simulation/oracle.ts";

export interface TraceLine {
  readonly step: number;
  readonly action: "commit" | "advance" | "answer";
  /** Of a commit: who wrote, and what stands for each of its records. */
  readonly by?: string;
  readonly records?: readonly number[];
  /** Of an answer: its leaf, and the size of its tree. */
  readonly leaf?: number;
  readonly tree?: number;
  /** Leaves of the log, and of those what its anchor has noted. */
  readonly size: number;
  readonly anchor: number;
}

/** Follows the log of one tenant through a run. */
export function traceOf(tenantId: TenantId, oracle: Oracle, machine: Machine): readonly TraceLine[] {
  const lines: TraceLine[] = [];
  const numbers = new Map<string, number>();
  let [size, anchor] = [0, 0];
  const advance = () => {
    const noted = oracle.truth?.anchored(tenantId) ?? anchor;
    if (noted === anchor) return;
    anchor = noted;
    lines.push({ step: machine.steps, action: "advance", size, anchor });
  };
  oracle.onChange = (of, committed) => {
    if (of !== tenantId) return;
    const records = (oracle.histories.get(of)?.leaves.slice(size) ?? []).map(({ recordId }) => {
      const number = numbers.get(recordId) ?? numbers.size;
      numbers.set(recordId, number);
      return number;
    });
    size = committed;
    lines.push({ step: machine.steps, action: "commit", by: machine.actor, records, size, anchor });
    advance();
  };
  oracle.onAnswer = (of, leaf, tree) => {
    if (of !== tenantId) return;
    advance();
    lines.push({ step: machine.steps, action: "answer", leaf, tree, size, anchor });
  };
  return lines;
}

/** Runs Quint's own program; nothing is downloaded: its simulator in TypeScript is part of the package. */
export function quint(command: "run" | "test", file: string, ...options: readonly string[]) {
  const program = createRequire(import.meta.url).resolve("@informalsystems/quint/dist/src/cli.js");
  const given = ["--no-warnings", program, command, file, "--backend", "typescript", ...options];
  const { status, stdout, stderr } = spawnSync(process.execPath, given, { encoding: "utf8" });
  return { isFine: status === 0, output: stdout + stderr };
}

export const modelFile = new URL("../../docs/model/append.qnt", import.meta.url).pathname;

/** More in one run are too deep for Quint's parser. Whether one is allowed depends on the store and its anchor alone. */
const actionsPerRun = 100;

/** Whether the model allows the trace; the output says what it does not. */
export function replay(lines: readonly TraceLine[]): ReturnType<typeof quint> {
  const starts = Array.from({ length: Math.ceil(lines.length / actionsPerRun) }, (_, i) => i * actionsPerRun);
  const runs = starts.map((start) => {
    const store = lines.slice(0, start).flatMap(({ records = [] }) => records);
    const steps = lines.slice(start, start + actionsPerRun).map(stepOf);
    return `  run from${start}Test = begin([${store.join(", ")}], ${lines[start - 1]?.anchor ?? 0})
${steps.join("\n")}
    .expect(nothingLost and exactlyOnce and oneHistory and behindAnchor)`;
  });
  const text = `${readFileSync(modelFile, "utf8")}
module trace {
  import append.*
${runs.join("\n")}
}
`;
  const folder = mkdtempSync(join(tmpdir(), "trace-"));
  try {
    const file = join(folder, "trace.qnt");
    writeFileSync(file, text);
    return quint("test", file, "--main", "trace", "--max-samples", "1");
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function stepOf({ action, by, records = [], leaf, tree, size, anchor }: TraceLine): string {
  const taken = {
    commit: `lock("${by}", [${records.join(", ")}])).then(commit("${by}")`,
    advance: `advance(${anchor})`,
    answer: `answer(${leaf}, ${tree})`,
  };
  return `    .then(${taken[action]}).expect(store.length() == ${size} and anchor == ${anchor})`;
}
