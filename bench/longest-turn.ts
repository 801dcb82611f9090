/** The longest turn of a gateway's event loop, as seen from inside. */
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

/** What a gateway is started with, and what its event loop did since it was last asked. */
export interface TurnProbe {
  readonly nodeOptions: readonly string[];
  /** The longest turn since the last call, in milliseconds of processor time. */
  longestMs(pid: number): Promise<number>;
}

/** Makes the probe of one gateway, with a file in that directory. */
export function turnProbe(directory: string): TurnProbe {
  const file = join(directory, "longest-turn");
  return {
    nodeOptions: ["--import", `data:text/javascript,${encodeURIComponent(probe(file))}`],
    async longestMs(pid) {
      rmSync(file, { force: true });
      process.kill(pid, "SIGUSR2");
      for (;;) {
        await delay(5);
        try {
          return JSON.parse(readFileSync(file, "utf8"));
        } catch {
          // Not written yet, or not all of it.
        }
      }
    },
  };
}

/**
 * Runs in the main thread of the gateway. At each signal it writes the most processor time that the thread took between
 * two turns of a timer that is always due. Other threads that want the core do not count.
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
