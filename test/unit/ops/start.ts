/** An operator listener for a test, closed with it. */
import { onTestFinished } from "vitest";
import { systemClock } from "../../../src/base/clock.ts";
import { systemTimers } from "../../../src/base/timers.ts";
import { createOpsListener } from "../../../src/ops/listener.ts";
import { createLogger } from "../../../src/telemetry/logger.ts";

export async function startOps(options: Partial<Parameters<typeof createOpsListener>[0]> = {}) {
  const lines: string[] = [];
  const destination = { write: (line: string) => void lines.push(line) };
  const listener = createOpsListener({
    serviceName: "svc",
    checks: [],
    metrics: { expose: async () => ({ contentType: "text/plain; version=0.0.4", body: "a 1\n" }) },
    loopback: true,
    logger: createLogger({ level: "info", serviceName: "svc", destination }),
    clock: systemClock,
    onDefect: (error) => {
      throw error;
    },
    timers: systemTimers,
    random: (bytes) => bytes.fill(7),
    ...options,
  });
  onTestFinished(() => listener.close());
  const { port } = await listener.listen({ host: "127.0.0.1", port: 0 });
  const url = `http://127.0.0.1:${port}`;
  return { url, lines, request: (path: string, init?: RequestInit) => fetch(url + path, init) };
}
