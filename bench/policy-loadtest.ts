/**
 * The gateway beside the peer decision server on the policies and requests of the peer's own load tests, which are read from
 * a checkout of its repository: so many sets of each template for the peer, and as many policies of ours, made of the same
 * rules. Every question is asked of both before anything is measured, and the run fails where an answer differs.
 *
 * Requests carry one question each, or all those of a request of the peer's ("whole": a bulk call of ours). They come in turn,
 * over HTTP/1.1, as they are, or with a fact of their own that policies read ("new facts"). Servers, cores, rounds and ratios
 * are those of `bench/policy.ts`.
 *
 * `node bench/policy-loadtest.ts --peer <binary> --peer-policies <folder> [--templates classic,multitenant] [--sets 20]
 * [--only <text>] [--seconds 3] [--rounds 5] [--warm-up 10] [--cores 1]`
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type GatewayProcess, startGatewayProcess } from "./deployment.ts";
import { loadHttp1, type Turn } from "./load.ts";
import { cedarFiles } from "./loadtest-cedar.ts";
import {
  type Asked,
  askedOnce,
  askedWhole,
  bulkPath,
  numbered,
  type Principals,
  planPath,
  questionsOf,
  requireAgreement,
  startPrincipals,
  withNewFacts,
} from "./loadtest-questions.ts";
import { randomQuestions } from "./loadtest-random.ts";
import { type LoadtestSet, loadtestSets, readLoadtest } from "./loadtest-templates.ts";
import { measureBesidePeer } from "./peer-rounds.ts";
import { type Peer, peerHttpPath, startPeer } from "./policy-peer.ts";
import { writeFiles } from "./policy-rules.ts";
import type { LoadedServer } from "./rounds.ts";
import { requireTools } from "./tools.ts";

const { values } = parseArgs({
  options: {
    peer: { type: "string" },
    "peer-policies": { type: "string" },
    templates: { type: "string", default: loadtestSets.join(",") },
    sets: { type: "string", default: "20" },
    only: { type: "string", default: "" },
    seconds: { type: "string", default: "3" },
    rounds: { type: "string", default: "5" },
    "warm-up": { type: "string", default: "10" },
    cores: { type: "string", default: "1" },
  },
});
const { peer: binary, "peer-policies": checkout } = values;
if (binary === undefined || checkout === undefined) throw new Error("--peer and --peer-policies are needed");
requireTools("wrk", "taskset");
const plan = {
  seconds: Number(values.seconds),
  rounds: Number(values.rounds),
  warmUpSeconds: Number(values["warm-up"]),
};
const core = values.cores === "2" ? undefined : 0;
const loadCore = 1;

/** Questions that both sides are asked besides those of the requests. */
const randomCount = 1_000;

interface Servers {
  readonly gateway: GatewayProcess;
  readonly peer: Peer;
  readonly principals: Principals;
}

/** Starts both, uses them, and stops them. */
async function beside<T>(
  directory: string,
  loadtest: ReturnType<typeof readLoadtest>,
  ours: ReturnType<typeof cedarFiles>,
  use: (servers: Servers) => Promise<T>,
): Promise<T> {
  const policyDir = join(directory, "policies");
  writeFiles(policyDir, ours.files);
  const principals = await startPrincipals();
  try {
    const gateway = await startGatewayProcess({
      issuer: principals.issuer,
      dataDir: directory,
      logFile: join(directory, "gateway.log"),
      env: { SVC_POLICY_DIR: policyDir, SVC_BULK: "on" },
      ...(core !== undefined && { core }),
    });
    try {
      const peer = await startPeer(binary as string, directory, loadtest.files, core);
      try {
        return await use({ gateway, peer, principals });
      } finally {
        await peer.stop();
      }
    } finally {
      await gateway.stop();
    }
  } finally {
    await principals.stop();
  }
}

async function measure(directory: string, set: LoadtestSet, sets: number) {
  const loadtest = readLoadtest(checkout as string, set, sets);
  const ours = cedarFiles(loadtest.policies);
  return await beside(directory, loadtest, ours, async ({ gateway, peer, principals }) => {
    const { requests } = loadtest;
    const single = questionsOf(requests);
    const fresh = (all: typeof requests) => all.map((request) => withNewFacts(set, request));
    const once = (all: typeof requests) => all.map((request) => askedOnce(request, principals));
    const whole = (all: typeof requests) => all.map((request) => askedWhole(request, principals));
    const calls: readonly (readonly [string, string, readonly Asked[]])[] = [
      ["one question", planPath, once(single)],
      ["one question, new facts", planPath, once(fresh(single))],
      ["whole", bulkPath, whole(requests)],
      ["whole, new facts", bulkPath, whole(fresh(requests))],
    ];
    // In the words of the first set, so that a good part of them meets a rule.
    const random = once(randomQuestions(readLoadtest(checkout as string, set, 1), randomCount));
    const urls = (path: string) => [gateway.listening.url + path, peer.httpUrl + peerHttpPath] as const;
    for (const [call, path, asked] of [...calls, ["at random", planPath, random] as const]) {
      const { allowed, denied } = await requireAgreement(...urls(path), asked);
      process.stdout.write(`${set}, ${sets} sets, ${call}: both allow ${allowed} and deny ${denied}\n`);
    }
    const rows = [];
    for (const [call, path, asked] of calls.filter(([name]) => name.includes(values.only))) {
      const [gatewayUrl, peerUrl] = urls(path);
      const target = (
        { cpuMicros }: Pick<LoadedServer, "cpuMicros">,
        url: string,
        turns: readonly Turn[],
      ): LoadedServer => ({
        cpuMicros,
        load: (seconds) => loadHttp1({ url, headers: {}, turns, numbered, seconds, core: loadCore, directory }),
      });
      const scenario = {
        name: call,
        gateway: target(
          gateway,
          gatewayUrl,
          asked.map((each) => each.gateway),
        ),
        peer: target(
          peer,
          peerUrl,
          asked.map((each) => each.peer),
        ),
      };
      const policies = { templates: set, sets, "Cedar policies": ours.count, "peer's": loadtest.policies.length };
      rows.push({ ...policies, ...(await measureBesidePeer(scenario, plan)) });
    }
    return rows;
  });
}

const rows = [];
for (const set of loadtestSets.filter((name) => values.templates.split(",").includes(name))) {
  for (const sets of values.sets.split(",").map(Number)) {
    const directory = mkdtempSync(join(tmpdir(), "bench-loadtest-"));
    try {
      rows.push(...(await measure(directory, set, sets)));
    } finally {
      rmSync(directory, { recursive: true });
    }
  }
}
process.stdout.write(
  `${plan.rounds} rounds of ${plan.seconds} s, ${values.cores} core(s) a server, Node ${process.version}\n`,
);
// biome-ignore lint/suspicious/noConsole: the table is what this program is for
console.table(rows);
