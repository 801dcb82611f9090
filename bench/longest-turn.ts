/** The longest turns of a gateway's event loops, as seen from inside. */
import { readFileSync, rmSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";

/** What a gateway is started with, and what the threads of its event loops did since it was last asked. */
export interface TurnProbe {
  readonly nodeOptions: readonly string[];
  /** The longest turn since the last time, in milliseconds of processor time; of workers too. */
  longestMs(pid: number): Promise<number>;
  /** The same of each thread, by name: `main`, `worker-1` and so on. */
  longestOfEachMs(pid: number): Promise<Readonly<Record<string, number>>>;
}

/** Makes the probe of one gateway, with a file in that directory. */
export function turnProbe(directory: string): TurnProbe {
  const file = join(directory, "longest-turn");
  async function longestOfEachMs(pid: number): Promise<Record<string, number>> {
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
  }
  return {
    nodeOptions: ["--import", `data:text/javascript,${encodeURIComponent(probe(file))}`],
    async longestMs(pid) {
      return Math.max(...Object.values(await longestOfEachMs(pid)));
    },
    longestOfEachMs,
  };
}

/**
 * Runs in each thread of the gateway that has an event loop for callers, and in the main thread: writes the most processor
 * time that the thread has taken between two turns of a timer that is always due, from one signal to the next. Who else
 * wants the core does not count.
 */
const probe = (file: string) => `
  import { BroadcastChannel, isMainThread, threadName } from "node:worker_threads";
  import { writeFileSync } from "node:fs";
  if (isMainThread || /^worker-\\d+$/.test(threadName)) {
    let longest = 0;
    let before = process.threadCpuUsage();
    setInterval(() => {
      const now = process.threadCpuUsage();
      longest = Math.max(longest, now.user + now.system - before.user - before.system);
      before = now;
    }, 1).unref();
    const took = () => {
      const ms = longest / 1e3;
      longest = 0;
      return ms;
    };
    const threads = new BroadcastChannel("longest-turn");
    threads.unref();
    if (!isMainThread) threads.onmessage = ({ data }) => data === "say" && threads.postMessage([threadName, took()]);
    else process.on("SIGUSR2", () => {
      const said = { main: took() };
      threads.onmessage = ({ data: [thread, ms] }) => {
        said[thread] = ms;
      };
      threads.postMessage("say");
      setTimeout(() => writeFileSync(${JSON.stringify(file)}, JSON.stringify(said)), ${answersAfterMs});
    });
  }`;

/** Until then every worker has said what it took. */
const answersAfterMs = 300;
