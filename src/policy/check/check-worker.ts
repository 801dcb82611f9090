/** The thread of `check-thread.ts`: checks the one bundle that it is started with. */
import { parentPort, workerData } from "node:worker_threads";
import type { PolicyBundle } from "../load/bundle.ts";
import { type CheckPart, compareBundle } from "./check.ts";

/** Policies that are handed over together: to take them costs the other thread some 10 µs each. */
const policiesTogether = 100;

function* parts(bundle: PolicyBundle): Generator<CheckPart> {
  const { sets, ...rest } = compareBundle(bundle);
  for (const [set, policies] of sets) {
    yield { set, policies: policies.slice(0, policiesTogether) };
    for (let from = policiesTogether; from < policies.length; from += policiesTogether) {
      yield { set, policies: policies.slice(from, from + policiesTogether) };
    }
  }
  yield { rest };
}

const remaining = parts(workerData as PolicyBundle);
const handOver = () => parentPort?.postMessage(remaining.next().value);
parentPort?.on("message", handOver);
handOver();
