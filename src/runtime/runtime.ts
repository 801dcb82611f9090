/** What a service asks of its JavaScript runtime, so that it starts fast and stays small while it has little to do. */
import "./compile-cache.js";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/**
 * To be called before anything else is imported. Code is compiled, and types are stripped, once for each version of a
 * file. The two flags only move work and memory:
 *
 * - the policy engine's WebAssembly is optimized when it has proved to be hot, not while a small policy set is checked
 *   (by default the optimizer spends 300 ms and 40 MiB on code that runs at start-up only). The budget is spent by bytes
 *   of code: of Cedar's parser, whose functions have 55 kB each, 100 MB are gone after some twenty policies;
 * - the young generation does not grow over what start-up leaves behind (35 MiB by default). `startUpIsOver` ends that.
 */
export function prepareRuntime(): void {
  setFlagsFromString("--wasm-tiering-budget=2000000000");
  setFlagsFromString("--semi-space-growth-factor=1");
}

/**
 * To be called when the service listens. What start-up alone needed is given back (about 18 MiB; V8 would keep it until
 * there is load), and from now on the young generation grows with the load.
 */
export function startUpIsOver(): void {
  setFlagsFromString("--expose-gc");
  const gc = runInNewContext("gc") as (options: object) => void;
  gc({ type: "major", flavor: "last-resort", execution: "sync" });
  setFlagsFromString("--semi-space-growth-factor=2");
}
