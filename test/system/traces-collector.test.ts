/** A third-party collector takes the service's spans, and hands them on as they were. */
import { execFileSync, spawn } from "node:child_process";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { gatewayForFile, rest } from "../harness/gateway.ts";
import { freePort } from "../harness/loopback.ts";
import { startOtlpReceiver, tracedBy } from "../harness/otlp.ts";
import { pythonForFile } from "../harness/python.ts";

/** A collector written in Rust; the wheel carries its program. */
const tools = await pythonForFile("rotel==0.0.1a15");
const where = "import rotel, os; print(os.path.join(os.path.dirname(rotel.__file__), 'rotel-agent'))";
const program = (await tools.run("python", ["-c", where])).trim();
execFileSync("chmod", ["+x", program]);
const behind = await startOtlpReceiver();
afterAll(() => behind.stop());
const [http, grpc] = await Promise.all([freePort(), freePort()]);
const options = [
  ...["--otlp-http-endpoint", `127.0.0.1:${http}`, "--otlp-grpc-endpoint", `127.0.0.1:${grpc}`],
  ...["--exporter", "otlp", "--otlp-exporter-protocol", "http", "--otlp-exporter-endpoint", behind.url],
  ...["--batch-timeout", "100ms", "--log-file", join(tools.folder, "rotel.log")],
];
const collector = spawn(program, ["start", ...options], { stdio: "ignore" });
afterAll(() => void collector.kill());
const url = `http://127.0.0.1:${http}`;
while ((await fetch(`${url}/v1/traces`).catch(() => undefined)) === undefined) {
  if (collector.exitCode !== null) throw new Error(`the collector ended with ${collector.exitCode}`);
  await delay(50);
}
const gateway = await gatewayForFile(tracedBy({ OTEL_EXPORTER_OTLP_ENDPOINT: url }));

test("the spans of every route arrive, in the trace of their caller", async () => {
  const token = await gateway.token();
  const calls = sampleCalls();
  for (const [i, { route, body }] of calls.entries()) {
    const headers = { traceparent: `00-${(i + 1).toString(16).padStart(32, "0")}-00f067aa0ba902b7-01` };
    const { status } = await rest(gateway.url + route, { token, headers, ...(body !== undefined && { body }) });
    expect([route, status]).toEqual([route, 200]);
  }
  const servers = () => behind.spans.filter(({ kind }) => kind === "SPAN_KIND_SERVER");
  await expect.poll(() => servers().length, { timeout: 60_000 }).toBe(calls.length);
  for (const [i, { route, body }] of calls.entries()) {
    const traceId = (i + 1).toString(16).padStart(32, "0");
    const span = servers().find((each) => each.traceId === traceId);
    expect(span).toMatchObject({
      name: `${body === undefined ? "GET" : "POST"} ${route}`,
      parentSpanId: "00f067aa0ba902b7",
    });
    const parts = behind.spans.filter((each) => each.traceId === traceId && each.parentSpanId === span?.spanId);
    expect(parts.length).toBeGreaterThan(0);
  }
});
