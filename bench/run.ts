/** Shared by all measurements: options, a folder, rounds on servers in turn, and the table. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Measured } from "./load.ts";

type Options = Readonly<Record<string, string | number | boolean>>;
type Read<Defaults extends Options> = {
  readonly [Name in keyof Defaults]: Defaults[Name] extends number
    ? number
    : Defaults[Name] extends boolean
      ? boolean
      : string;
};

/** Options of the command line, each of its default's type. */
export function readOptions<const Defaults extends Options>(defaults: Defaults): Read<Defaults> {
  const options = Object.entries(defaults).map(([name, value]) => {
    return [name, { type: typeof value === "boolean" ? "boolean" : "string" } as const];
  });
  const values: Readonly<Record<string, unknown>> = parseArgs({ options: Object.fromEntries(options) }).values;
  const read = Object.entries(defaults).map(([name, value]) => {
    const given = values[name] ?? value;
    return [name, typeof value === "number" ? Number(given) : given];
  });
  return Object.fromEntries(read) as Read<Defaults>;
}

/** Numbers separated by commas. */
export function numbersOf(text: string): readonly number[] {
  return text.split(",").map(Number);
}

/** A folder that is removed at the end of the block that declares it. */
export function temporaryFolder(name: string): Disposable & { readonly path: string } {
  const path = mkdtempSync(join(tmpdir(), `bench-${name}-`));
  return { path, [Symbol.dispose]: () => rmSync(path, { recursive: true, force: true }) };
}

// biome-ignore lint/suspicious/noConsole: a table is what these programs are for
export const printTable: (rows: readonly Readonly<Record<string, unknown>>[]) => void = console.table;

export function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}

/** The 50th and 99th percentile. */
export function quantiles(timesMs: readonly number[]): { readonly p50Ms: number; readonly p99Ms: number } {
  const sorted = timesMs.toSorted((a, b) => a - b);
  const at = (share: number) => sorted[Math.ceil(sorted.length * share) - 1] ?? Number.NaN;
  return { p50Ms: at(0.5), p99Ms: at(0.99) };
}

/** Duration and number of measurements, and duration of the warm-up. */
export interface Plan {
  readonly seconds: number;
  readonly rounds: number;
  readonly warmUpSeconds: number;
}

/** A server under one kind of load. */
export interface LoadedServer {
  readonly load: (seconds: number) => Promise<Measured>;
  /** Processor time of the server so far, in microseconds. */
  readonly cpuMicros: () => number;
}

/** Result of one server in one round, with the processor time of each request in microseconds. */
export interface Round extends Measured {
  readonly cpuMicrosEach: number;
}

/** Results of one server, round by round. */
export interface Rounds {
  readonly all: readonly Round[];
  median(read: (round: Round) => number): number;
  /**
   * Requests a second relative to the other server, and in parentheses the same by processor time: medians of ratios.
   */
  of(other: Rounds): string;
}

/** Loads the servers in turn, round after round. Resolves with the rounds of each, in their order. */
export async function measureInTurn(
  servers: readonly LoadedServer[],
  { seconds, rounds, warmUpSeconds }: Plan,
): Promise<readonly Rounds[]> {
  for (const { load } of servers) await load(warmUpSeconds);
  const all: Round[][] = servers.map(() => []);
  for (let round = 0; round < rounds; round++) {
    for (const [at, { load, cpuMicros }] of servers.entries()) {
      const before = cpuMicros();
      const measured = await load(seconds);
      const count = measured.count ?? measured.perSecond * seconds;
      all[at]?.push({ ...measured, cpuMicrosEach: (cpuMicros() - before) / count });
    }
  }
  return all.map(roundsOf);
}

function roundsOf(all: readonly Round[]): Rounds {
  const ratio = (other: Rounds, divide: (own: Round, other: Round) => number) =>
    median(other.all.map((theirs, round) => divide(all[round] as Round, theirs))).toFixed(2);
  return {
    all,
    median: (read) => median(all.map(read)),
    of(other) {
      const speed = ratio(other, (a, b) => a.perSecond / b.perSecond);
      return `${speed} (${ratio(other, (a, b) => b.cpuMicrosEach / a.cpuMicrosEach)})`;
    },
  };
}
