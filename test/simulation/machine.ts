/**
 * A machine whose time, randomness, threads and disks are simulated. One seed decides everything: which event comes when,
 * what fails, and which bytes are random. `install` puts its timers in the place of the runtime's, so that the product's
 * own code runs unchanged.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { Clock } from "../../src/base/clock.ts";
import type { RandomFill } from "../../src/base/ids.ts";
import { type Random, randomOf } from "../harness/fuzz/random.ts";

interface Event {
  readonly dueMs: number;
  /** Shown by a debugger. */
  readonly name: string;
  action: (() => void) | undefined;
}

/** What a process may no longer do once it is dead. Thrown out of whatever it is doing. */
export class DeathError extends Error {
  override readonly name = "DeathError";
}

/** A process of the machine: it may die at any moment, and then nothing that it does has an effect any more. */
export class Process {
  readonly name: string;
  readonly clock: Clock;
  /** By how much its clock is wrong. Milliseconds. */
  skewMs = 0;
  isAlive = true;
  /** Whether its disk operations may fail. */
  hasFaults = false;
  readonly #onDeath: (() => void)[] = [];

  constructor(name: string, machine: Machine) {
    this.name = name;
    this.clock = { now: () => Math.floor(machine.nowMs + this.skewMs) };
  }

  onDeath(action: () => void): void {
    this.#onDeath.push(action);
  }

  kill(): void {
    if (!this.isAlive) return;
    this.isAlive = false;
    for (const action of this.#onDeath) action();
  }
}

const realImmediate = setImmediate;
const running = new AsyncLocalStorage<Process>();

export class Machine {
  readonly random: Random & { readonly fill: RandomFill };
  nowMs = Date.UTC(2026, 0, 2, 3, 4, 5);
  /** Events so far. */
  steps = 0;
  /** Who did something last. */
  actor = "";
  readonly processes = new Map<string, Process>();
  /** Probability that one operation on a disk fails, of a process with faults. */
  diskFaults = 0;
  /** Of those that fail, how many end the process. */
  deaths = 0;
  /** Probability that one message of a process with faults to a database is the last of its connection, or is late. */
  databaseFaults = 0;
  /** Those to come, in their order. */
  readonly #events: Event[] = [];
  #scheduled = 0;
  #later: Error | undefined;

  constructor(seed: number) {
    const random = randomOf(seed, 0);
    this.random = {
      ...random,
      fill: (bytes) => {
        bytes.set(random.bytes(bytes.length));
        return bytes;
      },
    };
  }

  newProcess(name: string): Process {
    const process = new Process(`${name}#${this.#scheduled}`, this);
    this.processes.set(process.name, process);
    process.onDeath(() => this.processes.delete(process.name));
    return process;
  }

  /** Does something as a process does it: what it opens meanwhile belongs to that. */
  as<Result>(process: Process, work: () => Result): Result {
    this.actor = process.name;
    return running.run(process, work);
  }

  /** Whose code opens connections and threads now. */
  get current(): Process | undefined {
    return running.getStore();
  }

  /** How long something takes: mostly little, sometimes long. Milliseconds. */
  latencyMs(typicalMs = 2): number {
    const long = this.random.chance(0.02) ? 50 : 1;
    return typicalMs * long * (0.1 + this.random.below(1_000) / 500);
  }

  after(delayMs: number, name: string, action: () => void): () => void {
    const event: Event = { dueMs: this.nowMs + Math.max(0, delayMs), name, action };
    this.#scheduled += 1;
    const before = this.#events.findLastIndex(({ dueMs }) => dueMs <= event.dueMs);
    this.#events.splice(before + 1, 0, event);
    return () => {
      event.action = undefined;
    };
  }

  /** An error that no part of the product caught: it would end its process. */
  fail(error: unknown): void {
    this.#later ??= error instanceof Error ? error : new Error(String(error));
  }

  /** Lets the next event happen, and all that follows from it at once. False: there is none. Throws what was not caught. */
  async step(): Promise<boolean> {
    let event = this.#events.shift();
    while (event !== undefined && event.action === undefined) event = this.#events.shift();
    if (event === undefined) return false;
    this.nowMs = Math.max(this.nowMs, event.dueMs);
    this.steps += 1;
    try {
      event.action?.();
    } catch (error) {
      this.fail(error);
    }
    await new Promise((resolve) => realImmediate(resolve));
    if (this.#later !== undefined) throw this.#later;
    return true;
  }

  /** Takes the place of the runtime's timers and clocks. */
  install(): void {
    const timers = {
      setTimeout: (action: (...given: unknown[]) => void, delayMs = 0, ...given: unknown[]) => {
        const cancel = this.after(delayMs, "timer", () => action(...given));
        return { unref: () => {}, ref: () => {}, cancel };
      },
      clearTimeout: (timer?: { cancel(): void }) => timer?.cancel(),
      setImmediate: (action: (...given: unknown[]) => void, ...given: unknown[]) => {
        this.after(this.random.below(4) === 0 ? this.latencyMs() : 0, "soon", () => action(...given));
      },
    };
    Object.assign(globalThis, timers);
    performance.now = () => this.nowMs;
  }
}

let installed: Machine | undefined;

/** The machine that the modules in the place of the runtime's are part of. */
export function machine(): Machine {
  if (installed === undefined) throw new Error("No machine is installed.");
  return installed;
}

export function installMachine(seed: number): Machine {
  installed = new Machine(seed);
  installed.install();
  return installed;
}
