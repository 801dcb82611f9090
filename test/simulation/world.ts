/** A world: gateways on one store, clients, operators and witnesses, and everything that goes wrong. */
import { createHash } from "node:crypto";
import type { TenantId } from "../../src/base/ids.ts";
import type { Timers } from "../../src/base/timers.ts";
import type { ServiceLedger } from "../../src/ledger/append/ledger.ts";
import type { OpenSharedAnchor } from "../../src/ledger/ports/anchor.ts";
import type { NewRecord } from "../../src/ledger/ports/record.ts";
import { logNameOf } from "../../src/ledger/tlog/log-name.ts";
import { parseCosignerKey } from "../../src/ledger/witness/cosignature.ts";
import { parseWitnessSize, type WitnessAnswer } from "../../src/ledger/witness/witness-log.ts";
import { Witnesses } from "../../src/ledger/witness/witnesses.ts";
import { recordMaker, tenant } from "../contract/ledger-records.ts";
import { type WitnessCore, witnessCore } from "../harness/witness.ts";
import { DeathError, type Machine, type Process } from "./machine.ts";
import { disk } from "./node-sqlite.ts";
import { type Call, type Fate, Oracle } from "./oracle.ts";
import type { SqliteStorage } from "./storage.ts";

/** What may go wrong, each with a switch. */
export const troubles = [
  "disk",
  "crashes",
  "power",
  "copies",
  "swaps",
  "network",
  "witness-faults",
  "witness-keys",
  "clocks",
  "rotations",
  "erasures",
  "holds",
  "backups",
  "damage",
  "poison",
  "groups",
  "reads",
  "audits",
] as const;
export type Trouble = (typeof troubles)[number];

export interface Climate {
  readonly gateways: number;
  readonly tenants: number;
  readonly clients: number;
  readonly witnesses: "none" | "beside" | "awaited";
  readonly troubles: ReadonlySet<Trouble>;
}

/** Each run has another part of everything that may go wrong: what hides behind one fault is found without it. */
export function climateOf({ random }: Machine): Climate {
  const isCalm = random.chance(0.15);
  const wanted = troubles.filter((trouble) => random.chance(0.55) && trouble !== "damage");
  const calm: readonly Trouble[] = ["groups", "reads", "damage", "poison", "holds", "erasures"];
  return {
    gateways: 1 + random.below(3),
    tenants: 1 + random.below(3),
    clients: 2 + random.below(6),
    witnesses: isCalm ? "none" : random.pick(["none", "none", "beside", "awaited"]),
    troubles: new Set(isCalm ? calm : wanted),
  };
}

interface Gateway {
  readonly name: string;
  process: Process | undefined;
  ledger: ServiceLedger | undefined;
  skewMs: number;
}

interface SimulatedWitness {
  core: WitnessCore;
  name: string;
  seed: number;
  isDown: boolean;
}

const statement = { operator: "operator", reason: "a simulated reason" };

export class World {
  readonly oracle = new Oracle();
  readonly #machine: Machine;
  readonly #storage: SqliteStorage;
  readonly #climate: Climate;
  readonly #tenants: readonly TenantId[];
  readonly #gateways: readonly Gateway[];
  readonly #witnesses: readonly SimulatedWitness[];
  readonly #open: Call[] = [];
  /** The gateways of the calls that wait for an answer. */
  readonly #asked = new Set<{ readonly process: Process }>();
  /** `calm`: it is to recover now. */
  #mode: "normal" | "older copy" | "swapped" | "calm" = "normal";
  #isOperating = false;
  #sick: TenantId | undefined;
  #hasLostPower = false;
  #keys = 0;
  readonly note: (line: string) => void;

  constructor(machine: Machine, storage: SqliteStorage, climate: Climate, note: (line: string) => void) {
    this.#machine = machine;
    this.#storage = storage;
    this.#climate = climate;
    this.note = note;
    this.#tenants = Array.from({ length: climate.tenants }, (_, i) => tenant(`tenant-${i}`));
    this.#gateways = Array.from({ length: climate.gateways }, (_, i) => {
      return { name: `g${i}`, process: undefined, ledger: undefined, skewMs: 0 };
    });
    const count = climate.witnesses === "none" ? 0 : 3;
    this.#witnesses = Array.from({ length: count }, (_, i) => this.#newWitness(`witness.example/w${i}`, i + 1));
    if (climate.witnesses === "awaited") this.oracle.cosigned = (tenantId, size) => this.#isCosigned(tenantId, size);
    this.oracle.witnesses = () => this.#witnesses.flatMap(({ core }) => parseCosignerKey(core.key) ?? []);
    if (this.#may("power")) disk.isWatched = true;
    machine.diskFaults = this.#may("disk") ? machine.random.pick([0.0002, 0.001, 0.004]) : 0;
    machine.deaths = machine.random.pick([0, 0.3]);
    machine.databaseFaults = this.#may("disk") ? machine.random.pick([0.005, 0.02]) : 0;
  }

  #may(trouble: Trouble): boolean {
    return this.#climate.troubles.has(trouble);
  }

  get #random() {
    return this.#machine.random;
  }

  begin(): void {
    for (const gateway of this.#gateways) this.#start(gateway);
    for (let i = 0; i < this.#climate.clients; i++) this.#tick("client", 40, () => this.#client());
    this.#tick("operator", 400, () => this.#operator());
    if (this.#witnesses.length > 0) this.#tick("witness", 700, () => this.#witness());
  }

  /** Looks at everything. */
  check(): void {
    this.oracle.look();
    if (this.#machine.steps % 256 === 0) this.oracle.lookAtRecords();
  }

  #tick(name: string, typicalMs: number, action: () => void): void {
    this.#machine.after(this.#machine.latencyMs(typicalMs), name, () => {
      if (this.#mode === "calm") return;
      action();
      this.#tick(name, typicalMs, action);
    });
  }

  // ---- gateways

  #start(gateway: Gateway): void {
    const process = this.#machine.newProcess(gateway.name);
    Object.assign(gateway, { process, ledger: undefined });
    process.skewMs = gateway.skewMs;
    process.hasFaults = this.#mode !== "calm";
    this.note(`${process.name} starts`);
    const { random } = this.#machine;
    const limits = {
      maxQueuedPerTenant: random.pick([3, 16]),
      maxRecordsPerWrite: random.pick([2, 8]),
      gatherTurns: random.below(3),
      tenantsAnsweredAtOnce: 1 + random.below(3),
      maxWritesInFlight: 1 + random.below(3),
      ...(random.chance(0.2) && { maxWaitMs: 2_000 }),
    };
    this.#storage.open(process, { openAnchor: this.#openAnchor(process), limits }).then(
      (ledger) => {
        if (!process.isAlive) return;
        gateway.ledger = ledger;
        this.note(`${process.name} serves`);
        if (this.oracle.truth === undefined && this.#mode !== "older copy")
          this.oracle.lookAgain(this.#storage.truth());
      },
      (error: unknown) => {
        if (!process.isAlive || error instanceof DeathError) return this.#restart(gateway, process);
        this.note(`${process.name} does not start: ${String(error)}`);
        const isRefused = (error as Error).name === "IncompatibleStoreError";
        if (isRefused && (this.#mode === "normal" || this.#mode === "calm"))
          this.#machine.fail(new Error(`a sound store is refused: ${String(error)}`));
        this.#restart(gateway, process);
      },
    );
  }

  #kill(gateway: Gateway): void {
    if (gateway.process === undefined) return;
    this.note(`${gateway.process.name} dies`);
    const { process } = gateway;
    process.kill();
    gateway.ledger = undefined;
    this.#restart(gateway, process);
  }

  #restart(gateway: Gateway, process: Process): void {
    process.kill();
    if (gateway.process !== process) return;
    gateway.process = undefined;
    gateway.ledger = undefined;
    this.#machine.after(this.#machine.latencyMs(100), "restart", () => {
      if (gateway.process === undefined) this.#start(gateway);
    });
  }

  #killAll(): void {
    for (const gateway of this.#gateways) this.#kill(gateway);
  }

  // ---- clients

  #client(): void {
    const gateway = this.#random.pick(this.#gateways);
    const { ledger, process } = gateway;
    if (ledger === undefined || process === undefined) return;
    const { random } = this.#machine;
    if (this.#may("reads") && random.chance(0.25)) {
      this.#read(ledger, process);
      return;
    }
    if (this.#may("poison") && random.chance(this.#isCalm ? 0.1 : 0.03)) {
      this.#poison(ledger, process);
      return;
    }
    const calls = this.#may("groups") && random.chance(0.2) ? this.#group() : [this.#nextCall()];
    this.#machine.after(this.#machine.latencyMs(), "request", () => {
      // What else a gateway writes shares transactions with its records.
      if (process.isAlive && random.chance(0.2)) this.#keepPolicy(ledger, process);
      // A retry that overtakes its first call.
      if (process.isAlive && random.chance(0.1) && calls.every(({ isRetried }) => isRetried)) {
        const isAnother = random.chance(0.3);
        this.#ask(ledger, process, isAnother ? calls.map((call) => ({ ...call, payload: "another" })) : calls);
      }
      if (process.isAlive) this.#ask(ledger, process, calls);
      else this.#askLater(...calls);
    });
  }

  #nextCall(): Call {
    const { random } = this.#machine;
    const again =
      this.#open.length > 0 && random.chance(0.4)
        ? this.#open.splice(random.below(this.#open.length), 1)[0]
        : undefined;
    if (again !== undefined) return { ...again, ...this.oracle.known(again.tenantId, again.key) };
    // Some logs begin late.
    const tenantId = random.pick(this.#tenants.slice(0, 1 + Math.floor(this.#machine.steps / 300)));
    const fate = random.chance(0.15) ? this.#anyFate() : undefined;
    if (fate !== undefined) {
      const { key } = fate;
      // Without a key for retries a call is a new one: it is not asked again.
      if (fate.isRetried) {
        const payload = random.chance(0.7) ? `p-${key}` : "another";
        return { tenantId: fate.tenantId, key, payload, isRetried: true, ...this.oracle.known(fate.tenantId, key) };
      }
    }
    return this.#newCall(tenantId);
  }

  #newCall(tenantId: TenantId, isRetried = this.#random.chance(0.8)): Call {
    const key = `k${this.#keys++}`;
    return { tenantId, key, payload: `p-${key}`, isRetried, ...this.oracle.known(tenantId, key) };
  }

  /** A record that was acknowledged; more often one that was erased. */
  #anyFate(): Fate | undefined {
    const wanted = this.#random.below(4);
    const erased = wanted === 0 ? this.#fates(({ isBack }) => isBack) : undefined;
    return erased ?? this.#fates(({ erasure }) => wanted > 1 || erasure !== "none");
  }

  #group(): readonly Call[] {
    const first = this.#nextCall();
    const more = Array.from({ length: 1 + this.#random.below(3) }, () => this.#newCall(first.tenantId));
    return [first, ...more];
  }

  #record(process: Process, { tenantId, key, payload, isRetried }: Call): NewRecord {
    const digest = (text: string) => createHash("sha256").update(text).digest("hex");
    return recordMaker(process.clock, this.#random.fill)(tenantId, {
      request: { key, payload },
      ...(isRetried && {
        idempotency: { scope: digest(key), payloadDigest: `sha256:${digest(payload)}`, answer: { key } },
      }),
    });
  }

  #ask(ledger: ServiceLedger, process: Process, calls: readonly Call[]): void {
    const records = calls.map((call) => this.#record(process, call));
    const [first] = calls as readonly [Call];
    if (calls.length === 1) {
      this.#hear(process, first, ledger.append(records[0] as NewRecord));
      return;
    }
    const group = ledger.group(first.tenantId);
    const enter = group.enter(records.length) ?? Promise.resolve();
    const answers = enter.then(() => {
      const added = records.map((record, place) => group.add(place, record));
      group.commit().then(
        () => group.leave(),
        () => group.leave(),
      );
      return added;
    });
    calls.forEach((call, place) => {
      this.#hear(
        process,
        call,
        answers.then((added) => added[place] as (typeof added)[number]),
      );
    });
  }

  #askLater(...calls: readonly Call[]): void {
    this.#open.push(...calls.filter(({ isRetried }) => isRetried));
  }

  #hear(process: Process, call: Call, answer: ReturnType<ServiceLedger["append"]>): void {
    // A client that hears nothing asks again later; a gateway that lives says something.
    let isOpen = true;
    const asked = { process };
    this.#asked.add(asked);
    const giveUp = () => {
      this.#asked.delete(asked);
      if (isOpen) this.#askLater(call);
      isOpen = false;
    };
    const cancel = this.#machine.after(60_000, "client gives up", () => {
      if (process.isAlive) this.#machine.fail(new Error(`${call.tenantId}: ${call.key} is never answered`));
      giveUp();
    });
    const later = (name: string, action: () => void) => {
      if (!process.isAlive) return giveUp();
      this.#machine.after(this.#machine.latencyMs(), name, () => {
        cancel();
        if (this.#may("network") && this.#random.chance(0.05)) return giveUp();
        this.#asked.delete(asked);
        isOpen = false;
        action();
      });
    };
    answer.then(
      (appended) => {
        if (!process.isAlive) return giveUp();
        this.#guard(() => this.oracle.leaves(call.tenantId, appended));
        later("answer", () =>
          this.#guard(() => {
            this.note(`${call.tenantId} ${call.key} is leaf ${appended.leafIndex} by ${process.name}`);
            this.oracle.answered(call, appended);
          }),
        );
      },
      (error: { readonly reason?: unknown }) =>
        later("refusal", () =>
          this.#guard(() => {
            this.note(`${call.tenantId} ${call.key} is refused by ${process.name}: ${String(error)}`);
            if (this.#isCalm && call.tenantId !== this.#sick && error.reason === "store_unavailable")
              this.oracle.fail(
                `${call.tenantId} is refused, though nothing fails but ${String(this.#sick)}: ${String(error)}`,
              );
            if (this.oracle.refused(call, error.reason, error)) this.#askLater(call);
          }),
        ),
    );
  }

  /** Whether nothing but one tenant's log may fail. */
  get #isCalm(): boolean {
    return this.#may("damage");
  }

  /** What the oracle finds ends the run, wherever it is found. */
  #guard(check: () => unknown): void {
    try {
      check();
    } catch (error) {
      this.#machine.fail(error);
    }
  }

  #read(ledger: ServiceLedger, process: Process): void {
    const fate = this.#anyFate();
    if (fate === undefined) return;
    if (this.#random.chance(0.5)) {
      const { erasure } = fate;
      this.#observe(process, ledger.find(fate.tenantId, fate.recordId), (found) =>
        this.oracle.found(fate, erasure, found),
      );
      return;
    }
    const history = this.oracle.histories.get(fate.tenantId);
    if (history === undefined) return;
    const { bound, origin } = history;
    this.#observe(process, ledger.checkpoint(logNameOf(origin)), (note) => {
      if (note === undefined) return this.oracle.fail(`log ${origin} is not found`);
      return this.oracle.published(note, bound);
    });
  }

  #observe<Result>(process: Process, promise: Promise<Result>, check: (result: Result) => unknown): void {
    promise.then(
      (result) => {
        if (process.isAlive) this.#guard(() => check(result));
      },
      (error: { readonly reason?: unknown }) => {
        if (process.isAlive && error.reason !== "store_unavailable") this.#machine.fail(error);
      },
    );
  }

  /** A record whose id is taken: it alone is refused. */
  #poison(ledger: ServiceLedger, process: Process): void {
    const known = [...this.oracle.acknowledged.values()];
    if (known.length === 0) return;
    const { tenantId, recordId } = this.#random.pick(known);
    const record = recordMaker(process.clock, this.#random.fill)(tenantId, { recordId, request: {} });
    ledger.append(record).then(
      () => this.#machine.fail(new Error("a record whose id is taken was acknowledged")),
      (error: { readonly reason?: string }) => {
        if (!["internal", "store_unavailable", "overloaded"].includes(error.reason ?? "")) this.#machine.fail(error);
      },
    );
  }

  #keepPolicy(ledger: ServiceLedger, process: Process): void {
    const content = `policy ${this.#random.below(8)}`;
    const revision = `sha256:${createHash("sha256").update(content).digest("hex")}`;
    this.#observe(process, ledger.keepPolicyRevision(revision, content), () => {});
  }

  // ---- operators

  #operator(): void {
    const { random } = this.#machine;
    if (this.#mode === "older copy" || this.#mode === "swapped") {
      if (random.chance(0.4)) this.#putBack();
      else this.#crash();
      return;
    }
    const actions: readonly (readonly [Trouble, () => void])[] = [
      ["crashes", () => this.#crash()],
      ["clocks", () => this.#jump()],
      ["backups", () => this.#storage.backUp()],
      ["backups", () => this.#storage.backUp()],
      ["copies", () => this.#replace(false)],
      ["swaps", () => this.#replace(true)],
      ["power", () => this.#losePower()],
      ["rotations", () => this.#rotate()],
      ["erasures", () => this.#administer((process) => this.#erase(process))],
      ["erasures", () => this.#administer((process) => this.#erase(process))],
      ["erasures", () => this.#administer((process) => this.#reapply(process))],
      ["erasures", () => this.#bringBack()],
      ["holds", () => this.#administer((process) => this.#hold(process))],
      ["holds", () => this.#administer((process) => this.#release(process))],
      ["audits", () => void this.#audit()],
      ["damage", () => this.#damage()],
    ];
    const [trouble, action] = random.pick(actions);
    if (this.#may(trouble)) action();
  }

  #crash(): void {
    this.#kill(this.#random.pick(this.#gateways));
  }

  #jump(): void {
    const gateway = this.#random.pick(this.#gateways);
    gateway.skewMs = this.#random.below(240_000) - 120_000;
    if (gateway.process !== undefined) gateway.process.skewMs = gateway.skewMs;
    this.note(`the clock of ${gateway.name} jumps to ${gateway.skewMs} ms`);
  }

  #replace(isOpen: boolean): void {
    // A copy is found out where the anchor is ahead of it; one that lost power may be behind.
    if (this.#isOperating || this.#hasLostPower || this.oracle.truth === undefined) return;
    this.oracle.look();
    if (!isOpen) {
      this.#killAll();
      this.oracle.truth = undefined;
    }
    const isWitnessed = (tenantId: TenantId, size: number) => this.#isCosigned(tenantId, size);
    if (!this.#storage.replace(isOpen, this.#tenants, isWitnessed)) {
      if (!isOpen) this.oracle.lookAgain(this.#storage.truth());
      return;
    }
    this.note(isOpen ? "the store is swapped for an older copy" : "an older copy stands in the store's place");
    this.#mode = isOpen ? "swapped" : "older copy";
  }

  #putBack(): void {
    if (this.#mode === "older copy") this.#killAll();
    // What was begun in the meantime is of the copy.
    this.note("the newest store is back");
    this.#storage.restore();
    if (this.#mode === "older copy") this.oracle.lookAgain(this.#storage.truth());
    this.#mode = "normal";
  }

  #losePower(): void {
    if (this.#isOperating) return;
    this.note("the power goes");
    this.#killAll();
    const hasServed = this.oracle.truth !== undefined;
    this.oracle.truth = undefined;
    this.#hasLostPower = true;
    if (this.#storage.losePower() && hasServed) this.oracle.lookAgain(this.#storage.truth());
  }

  #rotate(): void {
    this.note("the key is rotated");
    this.#storage.rotate();
    this.#crash();
  }

  #damage(): void {
    const [first] = this.#tenants;
    if (this.#sick !== undefined || this.#tenants.length < 2 || this.#machine.steps < 100) return;
    if (this.oracle.truth === undefined || !this.#storage.damage(first as TenantId)) return;
    this.#sick = first;
    this.note(`the log of ${first} is damaged`);
  }

  /** An operator's command: a process for itself, one at a time. */
  #administer(work: (process: Process) => Promise<void>): void {
    if (this.#isOperating || this.#mode !== "normal" || this.oracle.truth === undefined) return;
    const process = this.#machine.newProcess("operator");
    process.hasFaults = true;
    this.#isOperating = true;
    const ends = (error?: unknown) => {
      process.kill();
      this.#isOperating = false;
      if (error === undefined) return;
      const { name, reason } = error as { readonly name?: string; readonly reason?: string };
      const isExpected =
        reason === "store_unavailable" || name === "DeathError" || name === "AnchorFileError" || name === "Error";
      if (!(isExpected || (this.#sick !== undefined && name === "UnsoundLogError"))) this.#machine.fail(error);
    };
    try {
      work(process).then(() => ends(), ends);
    } catch (error) {
      ends(error);
    }
  }

  #fates(wanted: (fate: Fate) => boolean): Fate | undefined {
    const found = [...this.oracle.acknowledged.values()].filter(wanted);
    return found.length === 0 ? undefined : this.#random.pick(found);
  }

  async #erase(process: Process): Promise<void> {
    const held = this.#random.chance(0.3) ? this.#fates(({ isHeld }) => isHeld) : undefined;
    const fate = held ?? this.#fates(({ isBack }) => !isBack);
    if (fate === undefined || fate.tenantId === this.#sick) return;
    const { tenantId, recordId, leafIndex, isHeld } = fate;
    // What a backup of today would bring back.
    this.oracle.truth?.remains(tenantId, recordId, leafIndex);
    const before = fate.erasure;
    if (fate.erasure === "none" && !isHeld) fate.erasure = "asked";
    this.note(`${fate.key} is to be erased${isHeld ? ", and is held" : ""}`);
    const result = await (await this.#storage.administration(process)).erase(tenantId, [recordId], statement);
    if (result === undefined) return;
    if ("erased" in result) {
      if (isHeld && before === "none") this.oracle.fail(`${tenantId}: ${fate.key} is held, and was erased`);
      fate.erasure = "done";
      this.note(`${fate.key} is erased`);
    } else if (!isHeld && !result.refused.every(({ why }) => why === "held" && fate.holdUnknown))
      this.oracle.fail(`${tenantId}: ${fate.key} is not erased: ${JSON.stringify(result)}`);
    else if (before === "none") fate.erasure = "none";
  }

  async #reapply(process: Process): Promise<void> {
    const back = [...this.oracle.acknowledged.values()].filter(({ isBack }) => isBack);
    const result = await (await this.#storage.administration(process)).reapplyErasures(undefined, statement);
    if (result === undefined || result.failure !== undefined) return;
    for (const fate of back) {
      if (fate.isHeld || fate.tenantId === this.#sick) continue;
      fate.isBack = false;
    }
    this.note("erasures are carried out again");
  }

  #bringBack(): void {
    if (this.#isOperating || this.#mode !== "normal" || this.oracle.truth === undefined) return;
    const fate = this.#fates(({ erasure, isBack }) => erasure === "done" && !isBack);
    if (fate === undefined || !this.#storage.bringBack(fate.tenantId, fate.recordId, fate.leafIndex)) return;
    fate.isBack = true;
    this.note(`${fate.key} is back from a backup`);
  }

  async #hold(process: Process): Promise<void> {
    const fate = this.#fates(({ erasure }) => erasure === "none");
    if (fate === undefined) return;
    const { tenantId, recordId } = fate;
    fate.holdUnknown = true;
    const hold = await (await this.#storage.administration(process)).placeHold({
      tenantId,
      recordId,
      reason: "a matter",
    });
    if (hold === undefined) return;
    if (typeof hold === "string") this.oracle.fail(`${tenantId}: ${fate.key} cannot be held: ${hold}`);
    fate.isHeld = true;
    this.note(`${fate.key} is held`);
  }

  async #release(process: Process): Promise<void> {
    const fate = this.#fates(({ isHeld }) => isHeld);
    if (fate === undefined || fate.tenantId === this.#sick) return;
    // From here on it may be erased, whatever the outcome.
    fate.isHeld = false;
    const released = await (await this.#storage.administration(process)).releaseHold(
      fate.tenantId,
      fate.recordId,
      statement,
    );
    fate.holdUnknown = false;
    if (released === undefined) this.oracle.fail(`${fate.tenantId}: the hold on ${fate.key} is gone`);
    this.note(`${fate.key} is held no more`);
  }

  async #audit(): Promise<void> {
    if (this.#mode !== "normal" || this.oracle.truth === undefined) return;
    const isBack = this.#fates((fate) => fate.isBack) !== undefined;
    try {
      const problems = await this.#storage.audit(this.#machine.nowMs + 120_000, this.#sick);
      if (problems.length > 0 && !isBack) this.oracle.fail(`the audit finds: ${problems.join("; ")}`);
    } catch (error) {
      this.#machine.fail(error);
    }
  }

  // ---- witnesses

  #newWitness(name: string, seed: number): SimulatedWitness {
    const core = witnessCore({ logKeys: this.#storage.keys, name, seed }, () => this.#machine.nowMs);
    return { core, name, seed, isDown: false };
  }

  #witness(): void {
    const witness = this.#random.pick(this.#witnesses);
    if (this.#may("witness-faults")) witness.isDown = !witness.isDown && this.#random.chance(0.4);
    if (this.#may("witness-keys") && this.#random.chance(0.1)) {
      const { seen } = witness.core;
      witness.seed += 10;
      witness.core = witnessCore(
        { logKeys: this.#storage.keys, name: witness.name, seed: witness.seed },
        () => this.#machine.nowMs,
      );
      for (const [origin, checkpoint] of seen) witness.core.seen.set(origin, checkpoint);
      this.note(`${witness.name} has another key`);
    }
  }

  #isCosigned(tenantId: TenantId, size: number): boolean {
    const origin = this.oracle.histories.get(tenantId)?.origin ?? "";
    return this.#witnesses.filter(({ core }) => (core.seen.get(origin)?.size ?? 0) >= size).length >= 2;
  }

  #openAnchor(process: Process): OpenSharedAnchor | undefined {
    if (this.#witnesses.length === 0) return undefined;
    const timers: Timers = { after: (delayMs, action) => this.#machine.after(delayMs, "witness timer", action) };
    const trusted = this.#witnesses.map((witness) => {
      const verifier = parseCosignerKey(witness.core.key);
      if (verifier === undefined) throw new Error("The witness has no key.");
      return { verifier, client: { addCheckpoint: (body: string) => this.#exchange(process, witness, body) } };
    });
    return async (store, signer) => {
      const logs = { ...store, sign: signer.sign.bind(signer) };
      const awaited = this.#climate.witnesses === "awaited";
      const witnesses = new Witnesses({
        witnesses: trusted,
        quorum: 2,
        awaited,
        logs,
        clock: process.clock,
        timers,
      });
      await witnesses.start();
      return witnesses;
    };
  }

  #exchange(process: Process, witness: SimulatedWitness, body: string): Promise<WitnessAnswer> {
    const { random } = this.#machine;
    const isFaulty = this.#may("witness-faults");
    return new Promise((resolve, reject) => {
      const timeout = this.#machine.after(2_000, "exchange timeout", () =>
        reject(new Error("no answer within 2000 ms")),
      );
      const isLost = () => witness.isDown || (isFaulty && random.chance(0.05));
      if (!process.isAlive || isLost()) return;
      this.#machine.after(this.#machine.latencyMs(), "at the witness", () => {
        this.#guard(() => this.oracle.signed(body.slice(body.indexOf("\n\n") + 2), witness.name));
        const { status, text = "" } = witness.core.judge(body);
        if (isLost()) return;
        this.#machine.after(this.#machine.latencyMs(), "witness answers", () => {
          if (!process.isAlive) return;
          timeout();
          if (status === 200) resolve({ kind: "cosigned", lines: text });
          else if (status === 409) resolve({ kind: "conflict", size: parseWitnessSize(text) });
          else if (status === 422) resolve({ kind: "inconsistent" });
          else reject(new Error(`status ${status}`));
        });
      });
    });
  }

  // ---- the end

  /** Ends all trouble, and waits until every sound tenant is served again. Then everything must be in order. */
  async recover(step: () => Promise<unknown>): Promise<void> {
    if (this.#mode === "older copy" || this.#mode === "swapped") this.#putBack();
    this.#mode = "calm";
    for (let waited = 0; this.#isOperating && waited < 20_000; waited++) await step();
    this.#machine.diskFaults = 0;
    for (const witness of this.#witnesses) witness.isDown = false;
    // A gateway that lives answers every call, with a refusal at least.
    while ([...this.#asked].some(({ process }) => process.isAlive)) await step();
    for (const gateway of this.#gateways) this.#kill(gateway);
    const waiting = new Set(this.#tenants.filter((tenantId) => tenantId !== this.#sick));
    const done = new Set<TenantId>();
    const ask = (tenantId: TenantId) => {
      const [gateway] = this.#gateways as readonly [Gateway];
      const again = () => void this.#machine.after(500, "last call", () => ask(tenantId));
      const { ledger, process } = gateway;
      if (ledger === undefined || process === undefined) return again();
      const call = this.#newCall(tenantId, true);
      ledger.append(this.#record(process, call)).then((appended) => {
        this.#guard(() => {
          this.oracle.leaves(tenantId, appended);
          this.oracle.answered(call, appended);
        });
        done.add(tenantId);
      }, again);
    };
    for (const tenantId of waiting) ask(tenantId);
    for (let waited = 0; done.size < waiting.size; waited++) {
      await step();
      if (waited > 30_000)
        this.oracle.fail(`${[...waiting].filter((one) => !done.has(one))} cannot be served any more`);
    }
    const operator = this.#machine.newProcess("operator");
    let isReapplied = false;
    void this.#reapply(operator).then(() => {
      isReapplied = true;
    });
    while (!isReapplied) await step();
    operator.kill();
    this.oracle.look();
    this.oracle.lookAtRecords();
    const problems = await this.#storage.audit(this.#machine.nowMs + 240_000, this.#sick);
    if (problems.length > 0) this.oracle.fail(`the last audit finds: ${problems.join("; ")}`);
    for (const { process } of this.#gateways) process?.kill();
  }
}
