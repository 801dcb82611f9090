/** Decisions a second in one thread, by number of policies and tenants, with and without the memory of rulings. */
import { posix } from "node:path";
import { monitorEventLoopDelay } from "node:perf_hooks";
import type { Caller } from "../src/base/caller.ts";
import { parsePrincipalId, parseTenantId } from "../src/base/ids.ts";
import { compareBundle } from "../src/policy/check/check.ts";
import type { CompiledEngine } from "../src/policy/engine/bundle-engine.ts";
import type { PolicyQuery } from "../src/policy/engine/decision.ts";
import { compileInTurns, compilePolicyBundle } from "../src/policy/engine/engine.ts";
import type { PolicyBundle } from "../src/policy/load/bundle.ts";
import { loadPolicyDirectory, type PolicyFileSystem } from "../src/policy/load/directory.ts";
import { type Files, overlappingFiles, policyFiles } from "./policy-rules.ts";
import { median } from "./rounds.ts";

/** Rulings that the memory holds. */
const cachedDecisions = 10_000;

export interface DecisionRow {
  readonly policies: number;
  readonly tenants: number;
  /** Milliseconds from files to an engine that decides: where every tenant's policies are its own, and where all have the same. */
  readonly loadMs: number;
  readonly loadAlikeMs: number;
  readonly cachedPerSecond: number;
  /** With a memory that is full, of questions that it never holds. */
  readonly newPerSecond: number;
  /** Without a memory. */
  readonly uncachedPerSecond: number;
}

/** Measures every pair. Each tenant has a set of its own of that many policies, asked in turn. */
export async function measureDecisions(seconds: number): Promise<readonly DecisionRow[]> {
  const rows: DecisionRow[] = [];
  for (const tenants of [1, 100]) {
    for (const policies of [20, 200, 1_000]) rows.push(await measure(policies, tenants, seconds));
  }
  return rows;
}

async function measure(policies: number, tenants: number, seconds: number): Promise<DecisionRow> {
  const names = Array.from({ length: tenants }, (_, index) => `tenant-${index}`);
  const alike = await load(policyFiles(policies, names));
  alike.engine.release();
  const { bundle, engine, loadMs } = await load(policyFiles(policies, names, false));
  const queries = names.map(question);
  const ask = (number: number) => queries[number % queries.length] as PolicyQuery;
  let asked = 0;
  const askAnew = (number: number) => {
    const { claimed, ...query } = ask(number);
    return { ...query, claimed: { ...claimed, resource: { ...claimed.resource, kind: `record-${asked++}` } } };
  };
  const cachedPerSecond = perSecond(engine, ask, seconds);
  for (let number = 0; number < cachedDecisions; number++) engine.decide(askAnew(number));
  const newPerSecond = perSecond(engine, askAnew, seconds);
  const forgetful = engineOf(bundle, 0);
  const uncachedPerSecond = perSecond(forgetful, ask, seconds);
  forgetful.release();
  engine.release();
  return { policies, tenants, loadMs, loadAlikeMs: alike.loadMs, cachedPerSecond, newPerSecond, uncachedPerSecond };
}

export interface EvaluatorRow {
  readonly rules: "kinds" | "overlapping";
  readonly policies: number;
  /** Microseconds of processor time that a fresh decision takes in this thread, without a memory; the medians of rounds. */
  readonly compiledMicros: number;
  readonly cedarMicros: number;
  /** With a memory that has the answer. */
  readonly cachedMicros: number;
  /** The longest time that compiling held the thread, in milliseconds. */
  readonly longestStepMs: number;
}

/** Fresh decisions by compiled policies and by Cedar, in turn, in rounds. */
export async function measureEvaluators(sizes: readonly number[], seconds: number): Promise<readonly EvaluatorRow[]> {
  const rows: EvaluatorRow[] = [];
  for (const rules of ["kinds", "overlapping"] as const) {
    for (const policies of sizes) rows.push(await measureEvaluator(rules, policies, seconds));
  }
  return rows;
}

async function measureEvaluator(
  rules: EvaluatorRow["rules"],
  policies: number,
  seconds: number,
): Promise<EvaluatorRow> {
  const files = rules === "kinds" ? policyFiles(policies) : overlappingFiles(policies);
  const { bundle } = await loadPolicyDirectory("/policies", memoryFileSystem(files));
  if (bundle === undefined) throw new Error("the rules do not load");
  const checked = compareBundle(bundle);
  if (checked.disagreements.size > 0) throw new Error([...checked.disagreements.values()].join("\n"));
  const compile = async (evaluator: "compiled" | "cedar", cached: number) => {
    const { engine } = await compileInTurns(bundle, checked, { evaluator, cachedDecisions: cached });
    if (engine === undefined) throw new Error("the rules do not compile");
    return engine;
  };
  const delay = monitorEventLoopDelay({ resolution: 1 });
  delay.enable();
  const compiled = await compile("compiled", 0);
  delay.disable();
  const [cedar, cached] = [await compile("cedar", 0), await compile("compiled", cachedDecisions)];
  const query = question("tenant");
  const asked = Array.from({ length: 1_000 }, (_, n): PolicyQuery => {
    const { resource, workload } = query.claimed;
    return {
      ...query,
      claimed: {
        ...query.claimed,
        labels: ["confidential", `label-${n % 50}`, `label-${(n * 7) % 50}`],
        attributes: { region: `region-${n % 10}` },
        purpose: `purpose-${n % 20}`,
        workload: { ...workload, application: `application-${n % 30}-payroll` },
        resource: { ...resource, kind: `kind-${n % 40}-${n}` },
      },
    };
  });
  const micros = (engine: CompiledEngine, queries: readonly PolicyQuery[]) => {
    let decisions = 0;
    const began = process.cpuUsage();
    const endMs = performance.now() + seconds * 1_000;
    while (performance.now() < endMs) engine.decide(queries[decisions++ % queries.length] as PolicyQuery);
    const { user, system } = process.cpuUsage(began);
    return (user + system) / decisions;
  };
  // Policies are compiled when they are first looked at.
  for (const one of asked) compiled.decide(one);
  const rounds = Array.from({ length: 3 }, () => ({
    compiled: micros(compiled, asked),
    cedar: micros(cedar, asked),
    cached: micros(cached, asked.slice(0, 10)),
  }));
  for (const engine of [compiled, cedar, cached]) engine.release();
  return {
    rules,
    policies,
    compiledMicros: median(rounds.map((round) => round.compiled)),
    cedarMicros: median(rounds.map((round) => round.cedar)),
    cachedMicros: median(rounds.map((round) => round.cached)),
    longestStepMs: delay.max / 1e6,
  };
}

async function load(files: Files) {
  const beganMs = performance.now();
  const { bundle } = await loadPolicyDirectory("/policies", memoryFileSystem(files));
  if (bundle === undefined) throw new Error("the rules do not load");
  const engine = engineOf(bundle, cachedDecisions);
  return { bundle, engine, loadMs: performance.now() - beganMs };
}

function engineOf(bundle: PolicyBundle, cachedDecisions: number): CompiledEngine {
  const { engine } = compilePolicyBundle(bundle, { cachedDecisions });
  if (engine === undefined) throw new Error("the rules do not compile");
  return engine;
}

/** @param ask makes a question of its number, from 0 */
function perSecond(engine: CompiledEngine, ask: (number: number) => PolicyQuery, seconds: number): number {
  let perSecond = 0;
  let asked = 0;
  for (const durationMs of [seconds * 250, seconds * 1_000]) {
    const beganMs = performance.now();
    let decisions = 0;
    while (performance.now() - beganMs < durationMs) {
      decisions++;
      if (!engine.decide(ask(asked++)).allow) throw new Error("the request is denied");
    }
    perSecond = (decisions * 1_000) / (performance.now() - beganMs);
  }
  return perSecond;
}

function question(tenant: string): PolicyQuery {
  return {
    caller: {
      tenantId: parseTenantId(tenant) as Caller["tenantId"],
      principalId: parsePrincipalId("principal") as Caller["principalId"],
      subject: "subject",
      authSource: "bearer_token",
      scopes: ["platform-api.access", "policy.read"],
    },
    action: "protect",
    claimed: {
      workload: { application: "payroll-export", environment: "production", component: "nightly-writer" },
      resource: { kind: "customer-record", id: "cust-8841", mime_type: "application/pdf" },
      purpose: "quarterly-audit",
      labels: ["confidential"],
      attributes: { region: "eu" },
      content_digest_present: true,
    },
  };
}

function memoryFileSystem(files: Files): PolicyFileSystem {
  const paths = Object.keys(files).map((file) => posix.join("/policies", file));
  return {
    realpath: async (path) => path,
    readdir: async (path) => [
      ...new Set(
        paths.flatMap((file) =>
          file.startsWith(`${path}/`) ? [file.slice(path.length + 1).split("/")[0] as string] : [],
        ),
      ),
    ],
    stat: async (path) => ({ isFile: () => paths.includes(path), isDirectory: () => !paths.includes(path), size: 0 }),
    readFile: async (path) => Buffer.from(files[posix.relative("/policies", path)] ?? "", "utf8"),
  };
}
