/**
 * A log that grows through the service, and the cost of `ledger export` and `ledger verify` on it: time and peak
 * memory. Memory should stay flat as the log grows.
 *
 * `node bench/large-log.ts [--store sqlite|postgres] [--sizes 10000,70000]`. Needs wrk, and Linux's /proc.
 */
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { testStores } from "../test/harness/stores.ts";
import { benchCall } from "./calls.ts";
import { benchOrigin, type GatewayAddresses, startGatewayProcess } from "./deployment.ts";
import { loadHttp1 } from "./load.ts";
import { numbersOf, printTable, readOptions, requireTools } from "./run.ts";
import { startTenants, type Tenants } from "./tenants.ts";

const options = readOptions({ store: "sqlite", sizes: "10000,70000" });
requireTools("wrk", "taskset");
const [, startStore] = testStores.find(([each]) => each.toLowerCase().startsWith(options.store)) ?? [];
if (startStore === undefined) throw new Error("--store is sqlite or postgres");
const loadCore = 1;
const pollMs = 5;

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

/** Sends events until the log has at least `size` leaves. Resolves with their number. */
async function growTo(size: number, { url, ops_url }: GatewayAddresses, tenants: Tenants, folder: string) {
  const call = benchCall("evidence");
  const headers = { authorization: `Bearer ${tenants.tokenOf("tenant-0")}`, "content-type": "application/json" };
  for (;;) {
    const { logs } = (await (await fetch(`${ops_url}/ledger`)).json()) as { logs: readonly { size: number }[] };
    const reached = logs[0]?.size ?? 0;
    if (reached >= size) return reached;
    const load = { url: url + call.restPath, headers, body: call.json, core: loadCore, directory: folder };
    await loadHttp1({ ...load, seconds: 1 });
  }
}

const store = await startStore();
const tenants = await startTenants(1);
try {
  const env = { ...store.settings, SVC_LEDGER_ORIGIN: benchOrigin };
  const rows = [];
  for (const size of numbersOf(options.sizes)) {
    const gateway = await startGatewayProcess({ issuer: tenants.issuer, dataDir: store.folder, env });
    const leaves = await growTo(size, gateway.listening, tenants, store.folder).finally(() => gateway.stop());
    const out = join(store.folder, `export-${size}`);
    const exported = await measureCommand(env, "ledger", "export", "--tenant", "tenant-0", "--out", out);
    const verified = await measureCommand(env, "ledger", "verify");
    rows.push({
      leaves,
      "export s": exported.seconds.toFixed(1),
      "export peak MiB": Math.round(exported.peakMib),
      "verify s": verified.seconds.toFixed(1),
      "verify peak MiB": Math.round(verified.peakMib),
    });
  }
  printTable(rows);
} finally {
  await tenants.stop();
  await store.stop();
}
