/**
 * What the receipts of a bulk call cost: bytes of the answer and processor time of all the gateway's threads for each of
 * 1,000 events, by what the caller asks for, in turn in one run, so that a machine that drifts favours nobody; and the
 * longest turns of the event loop meanwhile. The store is the embedded one, the log as long as the run has made it.
 *
 * `node bench/bulk-receipts.ts [--calls 20] [--rounds 5]`
 */
import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import http from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { sampleCalls } from "../dev/requests.ts";
import { startGatewayProcess } from "./deployment.ts";
import { turnProbe } from "./longest-turn.ts";
import { median } from "./rounds.ts";
import { startTenants } from "./tenants.ts";

const { values } = parseArgs({
  options: { calls: { type: "string", default: "20" }, rounds: { type: "string", default: "5" } },
});
const calls = Number(values.calls);
const rounds = Number(values.rounds);
const size = 1_000;
const details = ["none", "range", "brief", "full"] as const;

const print = (line: string) => void process.stdout.write(`${line}\n`);
const agent = new http.Agent({ keepAlive: true, maxSockets: 1 });
const event = sampleCalls().find(({ route }) => route === "/v1/sdk/evidence")?.body;

function record(url: string, token: string, detail: string): Promise<Buffer> {
  const items = Array.from({ length: size }, () => ({ idempotency_key: randomUUID(), event }));
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json", "x-svc-receipt": detail };
  return new Promise((resolve, reject) => {
    const request = http.request(`${url}/v1/bulk/evidence`, { method: "POST", agent, headers }, (response) => {
      const chunks: Buffer[] = [];
      response.on("data", (chunk) => chunks.push(chunk));
      response.on("end", () => {
        if (response.statusCode === 200) resolve(Buffer.concat(chunks));
        else reject(new Error(`answered ${response.statusCode}`));
      });
    });
    request.on("error", reject);
    request.end(JSON.stringify({ items }));
  });
}

const directory = mkdtempSync(join(tmpdir(), "bench-bulk-receipts-"));
const turns = turnProbe(directory);
const tenants = await startTenants(1);
const gateway = await startGatewayProcess({
  issuer: tenants.issuer,
  dataDir: directory,
  logFile: join(directory, "log"),
  env: { SVC_BULK: "on" },
  nodeOptions: turns.nodeOptions,
});

try {
  const { url } = gateway.listening;
  const token = tenants.tokenOf("tenant-0");
  const micros = new Map<string, number[]>();
  const longestTurns = new Map<string, number[]>();
  const bytes = new Map<string, Buffer>();
  for (let round = -1; round < rounds; round++) {
    for (const detail of details) {
      await turns.longestMs(gateway.pid);
      const before = gateway.cpuMicros();
      for (let call = 0; call < calls; call++) bytes.set(detail, await record(url, token, detail));
      // The first round warms up.
      if (round < 0) continue;
      micros.set(detail, [...(micros.get(detail) ?? []), (gateway.cpuMicros() - before) / calls / size]);
      longestTurns.set(detail, [...(longestTurns.get(detail) ?? []), await turns.longestMs(gateway.pid)]);
    }
  }
  print(
    "| receipts | bytes of the answer, an item | gzip | µs of processor time an item | longest turn, ms: median, worst |",
  );
  print("|---|---|---|---|---|");
  for (const detail of details) {
    const answer = bytes.get(detail) ?? Buffer.alloc(0);
    const packed = gzipSync(answer).length / size;
    const each = median(micros.get(detail) ?? []);
    const longest = longestTurns.get(detail) ?? [];
    print(
      `| ${detail} | ${(answer.length / size).toFixed(0)} | ${packed.toFixed(0)} | ${each.toFixed(1)} | ` +
        `${median(longest).toFixed(1)}, ${Math.max(...longest).toFixed(1)} |`,
    );
  }
} finally {
  agent.destroy();
  await gateway.stop();
  await tenants.stop();
  rmSync(directory, { recursive: true, force: true });
}
