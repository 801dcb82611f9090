/** Rounds of load on several servers in turn, and what comes out of them: medians, of ratios too. */
import type { Measured } from "./load.ts";

/** How long each measurement takes, and how many there are. */
export interface Plan {
  readonly seconds: number;
  readonly rounds: number;
}

const warmUpSeconds = 2;

/** A server that one call is sent to. */
export interface LoadedServer {
  readonly load: (seconds: number) => Promise<Measured>;
  /** Processor time of the server so far, in microseconds. */
  readonly cpuMicros: () => number;
}

export interface Target extends LoadedServer {
  readonly name: "bare" | "gateway" | "stock plugin";
}

/** One row of the table for each target of a call on a protocol. */
export interface Scenario {
  readonly name: string;
  readonly targets: readonly Target[];
}

/** What one server did in one round, and the processor time that each request took. */
export interface Round extends Measured {
  readonly cpuMicrosEach: number;
}

export async function measureRound({ load, cpuMicros }: LoadedServer, seconds: number): Promise<Round> {
  const before = cpuMicros();
  const measured = await load(seconds);
  return { ...measured, cpuMicrosEach: (cpuMicros() - before) / (measured.perSecond * seconds) };
}

/** Measures the scenario. Returns one row of the table for each target. */
export async function measureScenario(
  { name, targets }: Scenario,
  { seconds, rounds }: Plan,
): Promise<Record<string, string | number>[]> {
  for (const { load } of targets) await load(warmUpSeconds);
  const results = new Map<string, Round[]>(targets.map((target) => [target.name, []]));
  for (let round = 0; round < rounds; round++) {
    for (const target of targets) results.get(target.name)?.push(await measureRound(target, seconds));
  }
  return targets.map((target) => {
    const of = (name: Target["name"]) => results.get(name) ?? [];
    const own = of(target.name);
    const ratio = (base: Target["name"], divide: (target: Round, base: Round) => number) =>
      median(of(base).map((other, round) => divide(own[round] as Round, other)));
    const speed = (base: Target["name"]) => ratio(base, (a, b) => a.perSecond / b.perSecond).toFixed(2);
    const cost = (base: Target["name"]) => ratio(base, (a, b) => b.cpuMicrosEach / a.cpuMicrosEach).toFixed(2);
    return {
      call: name,
      server: target.name,
      "requests/s": Math.round(median(own.map(({ perSecond }) => perSecond))),
      "p50 ms": median(own.map(({ p50Ms }) => p50Ms)).toFixed(2),
      "p99 ms": median(own.map(({ p99Ms }) => p99Ms)).toFixed(2),
      "CPU µs each": Math.round(median(own.map(({ cpuMicrosEach }) => cpuMicrosEach))),
      "of bare (by CPU)": `${speed("bare")} (${cost("bare")})`,
      ...(target.name === "gateway" &&
        of("stock plugin").length > 0 && { "of stock (by CPU)": `${speed("stock plugin")} (${cost("stock plugin")})` }),
    };
  });
}

export function median(numbers: readonly number[]): number {
  const sorted = numbers.toSorted((a, b) => a - b);
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN;
}
