/**
 * The longest turn of the event loop while a gateway under load reloads every tenant's policies, beside the longest
 * under the same load alone: `node bench/policy-stalls.ts [--policies 1000] [--tenants 100] [--reloads 5]`. Every
 * tenant has its own policies, and each reload has new ones.
 */
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { benchCall } from "./calls.ts";
import { startGatewayProcess } from "./deployment.ts";
import { policyFiles, writeFiles } from "./policy-rules.ts";
import { median, readOptions, temporaryFolder } from "./run.ts";
import { startTenants } from "./tenants.ts";

const options = readOptions({ policies: 1_000, tenants: 100, reloads: 5 });
/** Concurrent callers. */
const callers = 16;

/**
 * Runs in the main thread of the gateway. At each signal it writes the most processor time that the thread used between
 * two turns of a timer that is always due. Other threads that compete for the core do not count.
 */
const probe = (file: string) => `
  import { isMainThread } from "node:worker_threads";
  import { writeFileSync } from "node:fs";
  if (isMainThread) {
    let longest = 0;
    let before = process.threadCpuUsage();
    setInterval(() => {
      const now = process.threadCpuUsage();
      longest = Math.max(longest, now.user + now.system - before.user - before.system);
      before = now;
    }, 1).unref();
    process.on("SIGUSR2", () => {
      writeFileSync(${JSON.stringify(file)}, JSON.stringify(longest / 1e3));
      longest = 0;
    });
  }`;

using folder = temporaryFolder("stalls");
const directory = folder.path;
const policyDir = join(directory, "policies");
const turnFile = join(directory, "longest-turn");
const tenants = await startTenants(options.tenants);

const publish = (edition: number) =>
  writeFiles(policyDir, policyFiles(options.policies, tenants.ids, false, `-${edition}`));

publish(0);
const gateway = await startGatewayProcess({
  issuer: tenants.issuer,
  dataDir: directory,
  env: { SVC_POLICY_DIR: policyDir },
  nodeOptions: ["--import", `data:text/javascript,${encodeURIComponent(probe(turnFile))}`],
});

async function loaded(): Promise<number> {
  const text = await (await fetch(`${gateway.listening.ops_url}/metrics`)).text();
  return Number(/^svc_policy_loads_total\{result="loaded"\} (\d+)$/m.exec(text)?.[1]);
}

/** The gateway's longest turn since the last call, in milliseconds of processor time. */
async function longest(): Promise<number> {
  rmSync(turnFile, { force: true });
  process.kill(gateway.pid, "SIGUSR2");
  for (;;) {
    await delay(5);
    try {
      return JSON.parse(readFileSync(turnFile, "utf8"));
    } catch {
      // Not written yet, or incomplete.
    }
  }
}

let answers = 0;
let isOver = false;
async function ask(first: number): Promise<void> {
  const call = benchCall("protection-plan");
  for (let at = first; !isOver; at++) {
    const authorization = `Bearer ${tenants.tokenOf(tenants.ids[at % tenants.ids.length] as string)}`;
    const headers = { authorization, "content-type": "application/json" };
    const body = new Uint8Array(call.json);
    const response = await fetch(gateway.listening.url + call.restPath, { method: "POST", headers, body });
    await response.arrayBuffer();
    if (response.status !== 200) throw new Error(`answered ${response.status}`);
    answers++;
  }
}

try {
  const asking = Promise.all(Array.from({ length: callers }, (_, at) => ask(at)));
  // A failed answer ends the whole run.
  asking.catch(() => {});
  await delay(3_000);
  const alone: number[] = [];
  const meanwhile: number[] = [];
  const seconds: number[] = [];
  for (let edition = 1; edition <= options.reloads; edition++) {
    await longest();
    await delay(3_000);
    alone.push(await longest());
    publish(edition);
    const beganMs = performance.now();
    const before = await loaded();
    process.kill(gateway.pid, "SIGHUP");
    while ((await loaded()) === before) await Promise.race([delay(100), asking]);
    seconds.push((performance.now() - beganMs) / 1_000);
    meanwhile.push(await longest());
  }
  isOver = true;
  await asking;
  const show = (name: string, all: readonly number[], unit: string) =>
    process.stdout.write(`${name}: ${median(all).toFixed(1)} ${unit}, at most ${Math.max(...all).toFixed(1)}\n`);
  show("longest turn alone", alone, "ms");
  show("longest turn of a reload", meanwhile, "ms");
  show("a reload", seconds, "s");
  process.stdout.write(`${answers} answers\n`);
} finally {
  isOver = true;
  await gateway.stop();
  await tenants.stop();
}
