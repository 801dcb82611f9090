/**
 * A log of many records over 30 days: time of the first page of a search, by the question, as the operator listener and
 * `ledger search` ask it; and time and peak memory of `ledger export` and `ledger verify`, which should stay flat as the
 * log grows.
 *
 * `node bench/large-log.ts [--store sqlite|postgres] [--records 1000000] [--rounds 5]`. Needs Linux's /proc.
 */
import { spawn } from "node:child_process";
import { randomFillSync } from "node:crypto";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { newRecordId, parsePrincipalId, parseRequestId, parseTenantId, type RandomFill } from "../src/base/ids.ts";
import { contentAddress } from "../src/base/text-forms.ts";
import type { Ledger, PublishedLogs } from "../src/ledger/ports/ledger.ts";
import type { NewRecord } from "../src/ledger/ports/record.ts";
import type { SearchPage } from "../src/ledger/ports/search.ts";
import { parseSearch, type SearchParameter } from "../src/ledger/search/search-query.ts";
import { openPostgresStores } from "../src/stores/postgres/open-ledger.ts";
import { migratePostgres } from "../src/stores/postgres/schema.ts";
import { openSqliteStores } from "../src/stores/sqlite/open-ledger.ts";
import { targetOf } from "../test/contract/ledger-postgres-fixture.ts";
import { startPostgres } from "../test/harness/postgres.ts";
import { benchOrigin } from "./deployment.ts";
import { printTable, quantiles, readOptions, temporaryFolder } from "./run.ts";

const options = readOptions({ store: "sqlite", records: 1_000_000, rounds: 5 });
const random: RandomFill = (bytes) => randomFillSync(bytes);
const pollMs = 5;
const periodMs = 30 * 86_400_000;
const endMs = Date.now();
/** Appends that are under way at once. */
const inFlight = 512;
const principals = 40;
const resources = 5_000;
/** One record in so many is a denial, and one has an alert. */
const denialEvery = 20;
const alertEvery = 1_000;

const clock = { nowMs: endMs - periodMs, now: () => clock.nowMs };

function good<Value>(value: Value | undefined): Value {
  if (value === undefined) throw new Error("malformed value");
  return value;
}

const policies = "{}";
const revision = contentAddress(policies);
const tenantId = good(parseTenantId("tenant"));
const requestId = good(parseRequestId("0198d2a0-1111-7222-8333-444444444444"));
const callers = Array.from({ length: principals }, (_, at) => ({
  principal_id: good(parsePrincipalId(`principal-${at}`)),
  subject: `service-account-${at}`,
  auth_source: "bearer_token" as const,
}));
/** The last accesses, without evidence so far. */
const open: NewRecord[] = [];

/** Every other record is a decision; most of the others cite one of the decisions before. */
function recordAt(number: number): NewRecord {
  clock.nowMs = endMs - periodMs + Math.floor((number * periodMs) / options.records);
  const recordId = newRecordId(clock, random);
  const about = {
    resource: { kind: "invoice", id: `invoice-${Math.floor(number / 2) % resources}` },
    labels: ["pii", "eu"],
  };
  const common = { recordId, tenantId, requestId, caller: good(callers[Math.floor(number / 2) % principals]) };
  const cited = number % 2 === 1 ? open.shift() : undefined;
  if (cited !== undefined)
    return {
      ...common,
      kind: "evidence",
      route: "/v1/sdk/evidence",
      caller: cited.caller,
      request: { ...about, decision_id: cited.recordId, event_type: "access", outcome: "completed" },
      outcome: { accepted: true, citation: "matched" },
    };
  const allow = number % denialEvery !== 0;
  const record: NewRecord = {
    ...common,
    kind: "decision",
    route: "/v1/sdk/policy-resolve",
    request: { ...about, operation: "access", workload: { application: "billing" }, purpose: "monthly run" },
    outcome: {
      allow,
      reasons: [allow ? "tenant/readers" : "tenant/eu-residency"],
      ...(number % alertEvery === 0 && { alerts: ["break-glass"] }),
      policy_revision: revision,
    },
    policyRevision: revision,
  };
  // One access in ten gets no evidence.
  if (allow && number % 10 !== 2) open.push(record);
  return record;
}

async function fill(ledger: Ledger): Promise<void> {
  await ledger.keepPolicyRevision(revision, policies);
  let number = 0;
  await Promise.all(
    Array.from({ length: inFlight }, async () => {
      while (number < options.records) await ledger.append(recordAt(number++));
    }),
  );
}

const questions: readonly (readonly [string, Readonly<Partial<Record<SearchParameter, string>>>])[] = [
  ["newest first", { newest: "true", summary: "true", limit: "50" }],
  ["of a principal", { newest: "true", summary: "true", limit: "50", principal: "principal-6" }],
  ["of a principal that has none", { newest: "true", summary: "true", limit: "50", principal: "principal-x" }],
  ["denials", { newest: "true", summary: "true", limit: "50", outcome: "deny" }],
  [
    "denials of a principal",
    { newest: "true", summary: "true", limit: "50", outcome: "deny", principal: "principal-0" },
  ],
  ["about a resource", { newest: "true", summary: "true", limit: "50", resource_id: "invoice-4242" }],
  ["with an alert", { newest: "true", summary: "true", limit: "50", alert: "break-glass" }],
  ["counted by principal, of a day", { last: "1d", count_by: "principal" }],
  ["counted by principal", { count_by: "principal" }],
  ["counted by day", { count_by: "day" }],
  ["denials counted by reason", { outcome: "deny", count_by: "reason" }],
  ["decisions with their evidence, 1,000", { newest: "true", summary: "true", limit: "1000", outcome: "allow" }],
  ["oldest decisions with their evidence", { summary: "true", limit: "100", outcome: "allow" }],
];

async function measure(ledger: Ledger & PublishedLogs): Promise<void> {
  const rows = [];
  for (const [question, parameters] of questions) {
    const criteria = parseSearch(parameters, endMs);
    if (!("limit" in criteria)) throw new Error(JSON.stringify(criteria));
    const timesMs: number[] = [];
    const before = process.cpuUsage();
    let page: SearchPage | undefined;
    for (let round = 0; round < options.rounds; round++) {
      const began = performance.now();
      page = await ledger.search({ ...criteria, tenantId });
      timesMs.push(performance.now() - began);
    }
    const { user, system } = process.cpuUsage(before);
    let pages = 1;
    const began = performance.now();
    for (let next = page?.next; next !== undefined && criteria.countBy !== undefined; pages++)
      next = (await ledger.search({ ...criteria, tenantId, after: next })).next;
    const restMs = pages === 1 ? 0 : performance.now() - began;
    rows.push({
      question,
      "found or counted": page?.counted?.records ?? page?.found.length,
      "least ms": Math.min(...timesMs).toFixed(1),
      "p50 ms": quantiles(timesMs).p50Ms.toFixed(1),
      "processor ms here": ((user + system) / 1_000 / options.rounds).toFixed(1),
      "pages of all": pages,
      "all s": (restMs / 1_000).toFixed(1),
    });
  }
  printTable(rows);
}

/** Runs a command of the program. Rejects with its output if it fails. */
async function measureCommand(env: Readonly<Record<string, string>>, ...args: string[]) {
  const cli = join(import.meta.dirname, "../src/cli/cli.ts");
  const began = performance.now();
  const child = spawn(process.execPath, [cli, ...args], {
    env: { PATH: process.env.PATH ?? "", ...env },
    stdio: ["ignore", "ignore", "pipe"],
  });
  let errors = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    errors += text;
  });
  let code: number | null | undefined;
  child.once("close", (exitCode) => {
    code = exitCode;
  });
  let peakMib = 0;
  while (code === undefined) {
    peakMib = Math.max(peakMib, peakOf(child.pid));
    await delay(pollMs);
  }
  if (code !== 0) throw new Error(`${args.join(" ")} ended with ${code}:\n${errors}`);
  return { seconds: (performance.now() - began) / 1_000, peakMib };
}

/** Peak resident memory so far, in MiB (proc(5), VmHWM); 0 if the process has ended. */
function peakOf(pid: number | undefined): number {
  try {
    return Number(/^VmHWM:\s+(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/status`, "utf8"))?.[1] ?? 0) / 1024;
  } catch {
    return 0;
  }
}

async function measureCommands(env: Readonly<Record<string, string>>): Promise<void> {
  const out = join(folder.path, "export");
  const rows = [];
  for (const command of [["export", "--tenant", tenantId, "--out", out], ["verify"]]) {
    const { seconds, peakMib } = await measureCommand(env, "ledger", ...command);
    rows.push({ command: `ledger ${command[0]}`, s: seconds.toFixed(1), "peak MiB": Math.round(peakMib) });
  }
  printTable(rows);
}

using folder = temporaryFolder("large-log");
const keyPath = join(folder.path, "ledger.key");
const opening = { originPrefix: benchOrigin, clock, random };
const server =
  options.store === "postgres" ? await startPostgres({ settings: { shared_buffers: "128MB" } }) : undefined;
try {
  const databaseUrl = await server?.createDatabase();
  if (databaseUrl !== undefined) await migratePostgres({ target: targetOf(databaseUrl), random });
  const path = join(folder.path, "platform.db");
  const ledger =
    databaseUrl === undefined
      ? (await openSqliteStores({ ...opening, path, anchorPath: `${path}.anchor`, keyPath })).ledger
      : (await openPostgresStores({ ...opening, target: targetOf(databaseUrl), keyPath })).ledger;
  try {
    await fill(ledger);
    await measure(ledger);
  } finally {
    await ledger.close();
  }
  await measureCommands({
    SVC_LEDGER_ORIGIN: benchOrigin,
    SVC_LEDGER_KEY: keyPath,
    ...(databaseUrl === undefined
      ? { SVC_STORE: `sqlite:${path}`, SVC_ANCHOR: `${path}.anchor` }
      : { SVC_STORE: databaseUrl }),
  });
} finally {
  await server?.stop();
}
