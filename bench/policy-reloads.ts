/**
 * Whether memory stays flat while the policy set is replaced: a gateway takes a changed directory over and over, every
 * fourth time a bad one, and is asked for decisions all the while. `node bench/policy-reloads.ts [--reloads 1000]`. Ends
 * with 1 where memory grew by more than `allowedGrowth` after the first fifth, or an answer was refused.
 */
import { cpSync, mkdtempSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { benchCalls } from "./calls.ts";
import { fetchToken, type GatewayProcess, startBenchIssuer, startGatewayProcess } from "./deployment.ts";
import { median } from "./rounds.ts";

const { values } = parseArgs({ options: { reloads: { type: "string", default: "1000" } } });
const reloads = Number(values.reloads);
/** Share by which the median of the last fifth may exceed that of the second: garbage comes and goes. */
const allowedGrowth = 0.1;

const directory = mkdtempSync(join(tmpdir(), "bench-reloads-"));
const policyDir = join(directory, "policies");
cpSync(join(import.meta.dirname, "../policies"), policyDir, { recursive: true });

/** A set that differs from every other by its number; every fourth does not parse. */
function publish(number: number): void {
  const text =
    number % 4 === 3
      ? `// ${number}\npermit (`
      : `@id("number")\n@required_actions("number-${number}")\npermit (principal, action, resource);\n`;
  writeFileSync(join(directory, "new"), text);
  renameSync(join(directory, "new"), join(policyDir, "default", "number.cedar"));
}

async function settled(gateway: GatewayProcess): Promise<number> {
  const text = await (await fetch(`${gateway.listening.ops_url}/metrics`)).text();
  const counts = text.matchAll(/^svc_policy_loads_total\{result="(?:loaded|refused)"\} (\d+)$/gm);
  return [...counts].reduce((sum, [, count]) => sum + Number(count), 0);
}

const issuer = await startBenchIssuer();
const gateway = await startGatewayProcess({
  issuer,
  dataDir: directory,
  logFile: join(directory, "gateway.log"),
  env: { SVC_POLICY_DIR: policyDir },
});
try {
  const call = benchCalls().find(({ name }) => name === "protection-plan");
  if (call?.json === undefined) throw new Error("there is no protection-plan call");
  const headers = { authorization: `Bearer ${await fetchToken(issuer)}`, "content-type": "application/json" };
  const body = new Uint8Array(call.json);
  let answers = 0;
  const residentMiB: number[] = [];
  for (let reload = 0; reload < reloads; reload++) {
    publish(reload);
    while ((await settled(gateway)) < reload + 2) {
      const response = await fetch(gateway.listening.url + call.restPath, { method: "POST", headers, body });
      await response.arrayBuffer();
      if (response.status !== 200) throw new Error(`answered ${response.status}`);
      answers++;
    }
    residentMiB.push(gateway.residentBytes() / 1024 ** 2);
    if (process.stderr.isTTY) process.stderr.write(`\r${reload + 1} of ${reloads} `);
  }
  const fifth = (index: number) => median(residentMiB.slice((index * reloads) / 5, ((index + 1) * reloads) / 5));
  const growth = fifth(4) / fifth(1) - 1;
  const fifths = [0, 1, 2, 3, 4].map((index) => fifth(index).toFixed(0)).join(", ");
  process.stdout.write(`\n${reloads} reloads, ${answers} answers; median RSS of each fifth in MiB: ${fifths}\n`);
  process.exitCode = growth <= allowedGrowth ? 0 : 1;
} finally {
  await gateway.stop();
  await issuer.stop();
  rmSync(directory, { recursive: true });
}
