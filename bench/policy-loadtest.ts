/**
 * The gateway beside the peer decision server on the policies and requests of the peer's own load tests, read from a
 * checkout of its repository: a number of sets of each template for the peer, and the same rules as policies of ours.
 * Both answer every question before anything is measured, and the run fails if an answer differs.
 *
 * Requests carry one question each, or all those of a request of the peer's ("whole": a bulk call of ours). They are
 * sent in turn, over HTTP/1.1, unchanged, or each with a new fact that policies read ("new facts"). Servers, cores,
 * rounds and ratios are those of `bench/policy.ts`.
 *
 * `node bench/policy-loadtest.ts --peer <binary> --peer-policies <folder> [--templates classic,multitenant] [--sets 20]
 * [--only <text>] [--seconds 3] [--rounds 5] [--warm-up 10] [--cores 1]`
 */
import { join } from "node:path";
import { type GatewayProcess, startGatewayProcess } from "./deployment.ts";
import { loadHttp1, type Turn } from "./load.ts";
import { cedarFiles } from "./loadtest-cedar.ts";
import {
  type Asked,
  askedOnce,
  askedWhole,
  bulkPath,
  type Principals,
  planPath,
  questionsOf,
  requireAgreement,
  startPrincipals,
  withNewFacts,
} from "./loadtest-questions.ts";
import { type LoadtestSet, loadtestSets, readLoadtest } from "./loadtest-templates.ts";
import { measureBesidePeer, type Peer, peerHttpPath, peerOptions, startPeer } from "./policy-peer.ts";
import { writeFiles } from "./policy-rules.ts";
import { type LoadedServer, numbersOf, printTable, readOptions, temporaryFolder } from "./run.ts";

const options = readOptions({
  ...peerOptions,
  "peer-policies": "",
  templates: loadtestSets.join(","),
  sets: "20",
  only: "",
});
const { peer: binary, "peer-policies": checkout, seconds, rounds, cores } = options;
if (binary === "" || checkout === "") throw new Error("--peer and --peer-policies are needed");
const plan = { seconds, rounds, warmUpSeconds: options["warm-up"] };
const core = cores === 2 ? undefined : 0;
const loadCore = 1;

interface Servers {
  readonly gateway: GatewayProcess;
  readonly peer: Peer;
  readonly principals: Principals;
}

/** Starts both servers, uses them, and stops them. */
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
      env: { SVC_POLICY_DIR: policyDir, SVC_BULK: "on" },
      ...(core !== undefined && { core }),
    });
    try {
      const peer = await startPeer(binary, directory, loadtest.files, core);
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
  const loadtest = readLoadtest(checkout, set, sets);
  const cedar = cedarFiles(loadtest.policies);
  return await beside(directory, loadtest, cedar, async ({ gateway, peer, principals }) => {
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
    const urls = (path: string) => [gateway.listening.url + path, peer.httpUrl + peerHttpPath] as const;
    for (const [call, path, asked] of calls) {
      const { allowed, denied } = await requireAgreement(...urls(path), asked);
      process.stdout.write(`${set}, ${sets} sets, ${call}: both allow ${allowed} and deny ${denied}\n`);
    }
    const rows = [];
    for (const [call, path, asked] of calls.filter(([name]) => name.includes(options.only))) {
      const [gatewayUrl, peerUrl] = urls(path);
      const target = ({ cpuMicros }: GatewayProcess | Peer, url: string, turns: readonly Turn[]): LoadedServer => ({
        cpuMicros,
        load: (seconds) => loadHttp1({ url, headers: {}, turns, seconds, core: loadCore, directory }),
      });
      const [ours, theirs] = [asked.map((each) => each.gateway), asked.map((each) => each.peer)];
      const scenario = {
        name: call,
        gateway: target(gateway, gatewayUrl, ours),
        peer: target(peer, peerUrl, theirs),
      };
      const policies = { templates: set, sets, "Cedar policies": cedar.count, "peer's": loadtest.policies.length };
      rows.push({ ...policies, ...(await measureBesidePeer(scenario, plan)) });
    }
    return rows;
  });
}

const rows = [];
for (const set of loadtestSets.filter((name) => options.templates.split(",").includes(name))) {
  for (const sets of numbersOf(options.sets)) {
    using folder = temporaryFolder("loadtest");
    rows.push(...(await measure(folder.path, set, sets)));
  }
}
process.stdout.write(`${rounds} rounds of ${seconds} s, ${cores} core(s) a server, Node ${process.version}\n`);
printTable(rows);
