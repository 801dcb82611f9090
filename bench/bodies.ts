/**
 * Memory of the gateway under floods of large request bodies, and what each flood was answered:
 * `node bench/bodies.ts`. The process may be limited from outside, as a container is.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { bodyFloods } from "./body-floods.ts";
import { fetchToken, startBenchIssuer, startGatewayProcess } from "./deployment.ts";

const mebibyte = 1024 * 1024;

const dataDir = mkdtempSync(join(tmpdir(), "svc-bodies-"));
const issuer = await startBenchIssuer();
const gateway = await startGatewayProcess({ issuer, dataDir, logFile: join(dataDir, "log") });
try {
  const token = await fetchToken(issuer);
  const { url, ops_url: opsUrl } = gateway.listening;
  let peakBytes = 0;
  const watch = setInterval(() => {
    peakBytes = Math.max(peakBytes, gateway.residentBytes());
  }, 20);
  process.stdout.write("| flood | answers | resident at most, MiB |\n|---|---|---|\n");
  for (const [name, run] of bodyFloods(url, token)) {
    peakBytes = 0;
    const outcomes = await run();
    await delay(100);
    const answers = [...outcomes].map(([outcome, count]) => `${count} × ${outcome}`).join(", ");
    process.stdout.write(`| ${name} | ${answers} | ${Math.round(peakBytes / mebibyte)} |\n`);
  }
  clearInterval(watch);
  // Of callers who have gone by now.
  await delay(2_000);
  const left = /^svc_body_bytes_in_flight \d+$/m.exec(await (await fetch(`${opsUrl}/metrics`)).text())?.[0];
  process.stdout.write(`\nAfterwards: ${left}\n`);
} finally {
  await gateway.stop();
  await issuer.stop();
  process.stdout.write(readFileSync(join(dataDir, "log"), "utf8").includes('"level":"fatal"') ? "fatal line\n" : "");
  rmSync(dataDir, { recursive: true });
}
