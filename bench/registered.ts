/**
 * What it costs that a policy reads what was registered: the same protection plan, which names an artifact, where no policy
 * reads it; where one does, of an artifact that was registered; and of artifacts that nobody registered, each another. On
 * SQLite and PostgreSQL, in turn, so that a machine that drifts favours nobody: look at the ratios.
 *
 * `node bench/registered.ts [--seconds 3] [--rounds 5]`
 */
import { createHash, randomFillSync } from "node:crypto";
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { sampleCalls } from "../dev/requests.ts";
import { migratePostgres } from "../src/stores/postgres/schema/migrate.ts";
import { targetOf } from "../test/contract/ledger-postgres-fixture.ts";
import { startPostgres } from "../test/harness/postgres.ts";
import { type GatewayProcess, startGatewayProcess } from "./deployment.ts";
import { loadHttp1, type Measured } from "./load.ts";
import { median } from "./rounds.ts";
import { startTenants } from "./tenants.ts";
import { requireTools } from "./tools.ts";

const { values } = parseArgs({
  options: { seconds: { type: "string", default: "3" }, rounds: { type: "string", default: "5" } },
});
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);
const [serverCore, loadCore] = [0, 1];
const warmUpSeconds = 2;
const registered = `sha256:${createHash("sha256").update("registered").digest("hex")}`;
/** Stands for a digest of each request's own; the value of a digest may be any text. */
const ofNobody = "sha256:of-nobody";
const reading = `@id("reads-what-was-registered")
forbid (principal, action, resource)
when { context has registered && context.registered.labels_ever.contains("a label that nothing has") };
`;

interface Case {
  readonly name: string;
  readonly gateway: GatewayProcess;
  readonly digest: string;
}

const bodyOf = (route: string, more: object) => ({
  ...sampleCalls().find((call) => call.route === route)?.body,
  ...more,
});

requireTools("wrk", "taskset");
const directory = mkdtempSync(join(tmpdir(), "bench-registered-"));
const server = await startPostgres({ settings: { shared_buffers: "128MB" } });
const tenants = await startTenants(1);
try {
  const token = tenants.tokenOf("tenant-0");
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const policies = join(directory, "policies");
  cpSync(join(import.meta.dirname, "../policies"), policies, { recursive: true });
  writeFileSync(join(policies, "platform", "reads-registered.cedar"), reading);

  const start = async (store: "SQLite" | "PostgreSQL", name: string, more: Readonly<Record<string, string>>) => {
    const dataDir = join(directory, `${store} ${name}`.replaceAll(" ", "-"));
    mkdirSync(dataDir);
    const url = store === "SQLite" ? undefined : await server.createDatabase();
    if (url !== undefined)
      await migratePostgres({ target: targetOf(url), random: (bytes: Uint8Array) => randomFillSync(bytes) });
    const gateway = await startGatewayProcess({
      issuer: tenants.issuer,
      dataDir,
      logFile: join(dataDir, "log"),
      core: serverCore,
      env: { ...more, ...(url !== undefined && { SVC_STORE: url }) },
    });
    const route = "/v1/sdk/artifact-register";
    const body = JSON.stringify(bodyOf(route, { artifact_digest: registered }));
    const { status } = await fetch(gateway.listening.url + route, { method: "POST", headers, body });
    if (status !== 200) throw new Error(`registering is answered with ${status}`);
    return gateway;
  };
  const load = ({ gateway, digest }: Case, seconds: number): Promise<Measured> => {
    const route = "/v1/sdk/protection-plan";
    const body = Buffer.from(JSON.stringify(bodyOf(route, { artifact_digest: digest })));
    const numbered = digest === ofNobody ? { numbered: ofNobody.slice("sha256:".length) } : {};
    return loadHttp1({
      url: gateway.listening.url + route,
      headers,
      body,
      ...numbered,
      seconds,
      core: loadCore,
      directory,
    });
  };

  const rows: Record<string, string | number>[] = [];
  for (const store of ["SQLite", "PostgreSQL"] as const) {
    const plain = await start(store, "plain", {});
    const reader = await start(store, "reader", { SVC_POLICY_DIR: policies });
    const cases: readonly Case[] = [
      { name: "no policy reads it", gateway: plain, digest: registered },
      { name: "read, of one that was registered", gateway: reader, digest: registered },
      { name: "read, of those that nobody registered", gateway: reader, digest: ofNobody },
    ];
    for (const each of cases) await load(each, warmUpSeconds);
    const results = new Map<string, (Measured & { readonly cpuMicrosEach: number })[]>();
    for (let round = 0; round < rounds; round++) {
      for (const each of cases) {
        const before = each.gateway.cpuMicros();
        const measured = await load(each, seconds);
        const cpuMicrosEach = (each.gateway.cpuMicros() - before) / (measured.perSecond * seconds);
        results.set(each.name, [...(results.get(each.name) ?? []), { ...measured, cpuMicrosEach }]);
      }
    }
    const base = results.get("no policy reads it") ?? [];
    for (const [name, own] of results) {
      const ratio = median(own.map(({ perSecond }, round) => perSecond / (base[round]?.perSecond ?? Number.NaN)));
      rows.push({
        store,
        plan: name,
        "plans/s": Math.round(median(own.map(({ perSecond }) => perSecond))),
        "of one that reads nothing": ratio.toFixed(2),
        "p50 ms": median(own.map(({ p50Ms }) => p50Ms)).toFixed(2),
        "p99 ms": median(own.map(({ p99Ms }) => p99Ms)).toFixed(2),
        "CPU µs each": Math.round(median(own.map(({ cpuMicrosEach }) => cpuMicrosEach))),
      });
    }
    await plain.stop();
    await reader.stop();
  }
  process.stdout.write(`${rounds} rounds of ${seconds} s, Node ${process.version}\n`);
  // biome-ignore lint/suspicious/noConsole: the table is what this program is for
  console.table(rows);
} finally {
  await tenants.stop();
  await server.stop();
  rmSync(directory, { recursive: true, force: true });
}
