/** One run: a seed, and as many steps as asked for. */
import { join } from "node:path";
import { tenant } from "../contract/ledger-records.ts";
import { type TraceLine, traceOf } from "../model/trace.ts";
import { installMachine } from "./machine.ts";
import { disk } from "./node-sqlite.ts";
import { preload } from "./node-threads.ts";
import { PostgresStorage, SqliteStorage } from "./storage.ts";
import { climateOf, type Trouble, World } from "./world.ts";

const storeKinds = ["sqlite", "postgres"] as const;
export type StoreKind = (typeof storeKinds)[number];

export interface RunOptions {
  readonly seed: number;
  readonly steps: number;
  /** Called with a line for each event. */
  readonly note: (line: string) => void;
  /** Troubles that are left out. */
  readonly without?: ReadonlySet<Trouble>;
  /** The kind of store; drawn from the seed if absent. */
  readonly store?: StoreKind | undefined;
  /** Whether its trace is wanted: then the store is one with an anchor. */
  readonly isTraced?: boolean;
}

export interface Ran {
  readonly steps: number;
  readonly acknowledgements: number;
  readonly violation: string | undefined;
  /** Of the first tenant's log. */
  readonly trace: readonly TraceLine[];
}

await preload(new URL("../../src/stores/sqlite/worker.ts", import.meta.url));
const directory = join("/dev/shm", `simulation-${process.pid}`);

let uncaught: ((error: unknown) => void) | undefined;
process.on("unhandledRejection", (error) => uncaught?.(error));

export async function runSeed({ seed, steps, note, without, store, isTraced }: RunOptions): Promise<Ran> {
  const machine = installMachine(seed);
  const say = (line: string) => note(line.replaceAll(directory, ""));
  disk.reset();
  uncaught = (error) => machine.fail(error);
  const weather = climateOf(machine);
  const climate = { ...weather, troubles: new Set([...weather.troubles].filter((one) => without?.has(one) !== true)) };
  const drawn = machine.random.pick(storeKinds);
  const kind = isTraced === true ? "sqlite" : (store ?? drawn);
  const isWitnessed = climate.witnesses === "awaited";
  const storage = kind === "postgres" ? new PostgresStorage(directory, isWitnessed) : new SqliteStorage(directory);
  const world = new World(machine, storage, climate, (line) => say(`${machine.steps} ${line}`));
  say(
    `${kind}, ${climate.gateways} gateways, ${climate.tenants} tenants, witnesses ${climate.witnesses}; ${[...climate.troubles].join(" ")}`,
  );
  const trace = traceOf(tenant("tenant-0"), world.oracle, machine);
  const step = async () => {
    const isAny = await machine.step();
    world.check();
    return isAny;
  };
  let violation: string | undefined;
  try {
    world.begin();
    while (machine.steps < steps && (await step()));
    await world.recover(step);
  } catch (error) {
    violation =
      error instanceof Error
        ? error.name === "Violation"
          ? error.message
          : (error.stack ?? String(error))
        : String(error);
  }
  for (const each of [...machine.processes.values()]) each.kill();
  storage.close();
  return { steps: machine.steps, acknowledgements: world.oracle.acknowledgements, violation, trace };
}
