/**
 * The longest turn of the event loop while a gateway under load takes up every tenant's policies anew, beside the longest
 * under the same load alone: `node bench/policy-stalls.ts [--policies 1000] [--tenants 100] [--reloads 5]`.
 * Every tenant's policies are its own, and each reload has others.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { parseArgs } from "node:util";
import { benchCalls } from "./calls.ts";
import { startGatewayProcess } from "./deployment.ts";
import { turnProbe } from "./longest-turn.ts";
import { policyFiles } from "./policy-rules.ts";
import { median } from "./rounds.ts";
import { startTenants } from "./tenants.ts";

const { values } = parseArgs({
  options: {
    policies: { type: "string", default: "1000" },
    tenants: { type: "string", default: "100" },
    reloads: { type: "string", default: "5" },
  },
});
const reloads = Number(values.reloads);
/** Callers that wait for their answers. */
const callers = 16;

const directory = mkdtempSync(join(tmpdir(), "bench-stalls-"));
const policyDir = join(directory, "policies");
const tenants = await startTenants(Number(values.tenants));

function publish(edition: number): void {
  const files = policyFiles(Number(values.policies), tenants.ids, false, `-${edition}`);
  for (const [path, text] of Object.entries(files)) {
    mkdirSync(dirname(join(policyDir, path)), { recursive: true });
    writeFileSync(join(policyDir, path), text);
  }
}

publish(0);
const probe = turnProbe(directory);
const gateway = await startGatewayProcess({
  issuer: tenants.issuer,
  dataDir: directory,
  logFile: join(directory, "gateway.log"),
  // Taken up when it is told to.
  env: { SVC_POLICY_DIR: policyDir },
  nodeOptions: probe.nodeOptions,
});

async function loaded(): Promise<number> {
  const text = await (await fetch(`${gateway.listening.ops_url}/metrics`)).text();
  return Number(/^svc_policy_loads_total\{result="loaded"\} (\d+)$/m.exec(text)?.[1]);
}

const longest = () => probe.longestMs(gateway.pid);

let answers = 0;
let isOver = false;
async function ask(first: number): Promise<void> {
  const call = benchCalls().find(({ name }) => name === "protection-plan");
  if (call?.json === undefined) throw new Error("there is no protection-plan call");
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
  // A failed answer ends the run, and not only the caller.
  asking.catch(() => {});
  await delay(3_000);
  const alone: number[] = [];
  const meanwhile: number[] = [];
  const seconds: number[] = [];
  for (let edition = 1; edition <= reloads; edition++) {
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
  rmSync(directory, { recursive: true });
}
