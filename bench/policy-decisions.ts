/** Decisions a second in one thread, by number of policies and tenants, with and without the memory of rulings. */
import { posix } from "node:path";
import type { Caller } from "../src/base/caller.ts";
import { parsePrincipalId, parseTenantId } from "../src/base/ids.ts";
import type { CompiledEngine } from "../src/policy/engine/bundle-engine.ts";
import type { PolicyQuery } from "../src/policy/engine/decision.ts";
import { compilePolicyBundle } from "../src/policy/engine/engine.ts";
import type { PolicyBundle } from "../src/policy/load/bundle.ts";
import { loadPolicyDirectory, type PolicyFileSystem } from "../src/policy/load/directory.ts";
import { type Files, policyFiles } from "./policy-rules.ts";

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
