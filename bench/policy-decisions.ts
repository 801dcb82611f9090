/** Decisions a second in one thread, by number of policies and tenants, with and without the memory of rulings. */
import { posix } from "node:path";
import type { Caller } from "../src/base/caller.ts";
import { parsePrincipalId, parseTenantId } from "../src/base/ids.ts";
import type { PolicyQuery } from "../src/policy/decision.ts";
import { loadPolicyDirectory, type PolicyFileSystem } from "../src/policy/directory.ts";
import { type CompiledEngine, compilePolicyBundle } from "../src/policy/engine.ts";
import { type Files, policyFiles } from "./policy-rules.ts";

export interface DecisionRow {
  readonly policies: number;
  readonly tenants: number;
  /** Milliseconds from files to an engine that decides. */
  readonly loadMs: number;
  readonly cachedPerSecond: number;
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
  const files = policyFiles(policies, names);
  const beganMs = performance.now();
  const cached = await engineOf(files, 10_000);
  const loadMs = performance.now() - beganMs;
  const queries = names.map(question);
  const cachedPerSecond = perSecond(cached, queries, seconds);
  cached.release();
  const uncached = await engineOf(files, 0);
  const uncachedPerSecond = perSecond(uncached, queries, seconds);
  uncached.release();
  return { policies, tenants, loadMs, cachedPerSecond, uncachedPerSecond };
}

async function engineOf(files: Files, cachedRulings: number): Promise<CompiledEngine> {
  const { bundle } = await loadPolicyDirectory("/policies", memoryFileSystem(files));
  const compiled = bundle && compilePolicyBundle(bundle, { cachedRulings });
  if (compiled?.engine === undefined) throw new Error("the rules do not compile");
  return compiled.engine;
}

function perSecond(engine: CompiledEngine, queries: readonly PolicyQuery[], seconds: number): number {
  let perSecond = 0;
  for (const durationMs of [seconds * 250, seconds * 1_000]) {
    const beganMs = performance.now();
    let decisions = 0;
    while (performance.now() - beganMs < durationMs) {
      const query = queries[decisions++ % queries.length] as PolicyQuery;
      if (!engine.decide(query).allow) throw new Error("the request is denied");
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
    readFile: async (path) => Buffer.from(files[posix.relative("/policies", path)] ?? "", "utf8"),
  };
}
