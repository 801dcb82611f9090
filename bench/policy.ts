/**
 * Decisions a second in one thread, by number of policies and tenants. Or, where a peer is given: protection-plan of the
 * gateway, its token verified and its record durable, beside that decision server on the same rules, which does neither.
 *
 * A server is pinned to core 0 with all its threads, or with `--cores 2` has both cores, and the gateway two workers; the
 * load generator is on core 1.
 * Servers are measured in turn, round after round; the table has medians over the rounds, of ratios too. Requests are
 * all alike, or with facts of their own ("new facts") that no server can have an answer for yet; over gRPC the load
 * generator can only repeat itself. Both are loaded for a while before it counts, until the gateway's hot code is compiled.
 *
 * With `--evaluators`, what a fresh decision takes compiled policies and Cedar, by number of policies.
 *
 * `node bench/policy.ts [--evaluators] [--peer <binary>] [--policies 20,200] [--seconds 3] [--rounds 5] [--warm-up 10] [--cores 1]`. The
 * peer's binary is in the npm package `@cerbos/cerbos-linux-x64`.
 */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import type { Issuer } from "../dev/issuer.ts";
import { answersOf, type BenchCall, benchCalls } from "./calls.ts";
import { fetchToken, type GatewayProcess, startBenchIssuer, startGatewayProcess } from "./deployment.ts";
import { type Load, loadHttp1, loadHttp2 } from "./load.ts";
import { numbered } from "./loadtest-questions.ts";
import { measureBesidePeer, type Scenario } from "./peer-rounds.ts";
import { measureDecisions, measureEvaluators } from "./policy-decisions.ts";
import {
  type Peer,
  type PeerQuestion,
  peerFrame,
  peerGrpcPath,
  peerHttpPath,
  peerJson,
  peerQuestion,
  requirePeerAllows,
  startPeer,
} from "./policy-peer.ts";
import { peerPolicy, policyFiles, writeFiles } from "./policy-rules.ts";
import { requireTools } from "./tools.ts";

const { values } = parseArgs({
  options: {
    peer: { type: "string" },
    evaluators: { type: "boolean", default: false },
    policies: { type: "string", default: "20,200" },
    seconds: { type: "string", default: "3" },
    rounds: { type: "string", default: "5" },
    "warm-up": { type: "string", default: "10" },
    cores: { type: "string", default: "1" },
  },
});
const seconds = Number(values.seconds);
const rounds = Number(values.rounds);
const plan = { seconds, rounds, warmUpSeconds: Number(values["warm-up"]) };
const serverCore = values.cores === "2" ? undefined : 0;
const loadCore = 1;

interface Servers {
  readonly gateway: GatewayProcess;
  readonly peer: Peer;
  readonly token: string;
  readonly question: PeerQuestion;
}

function scenarios(
  directory: string,
  call: BenchCall,
  { gateway, peer, token, question }: Servers,
): readonly Scenario[] {
  const json = call.json as Buffer;
  const authorization = `Bearer ${token}`;
  const target = (
    cpuMicros: () => number,
    loader: typeof loadHttp1,
    load: Pick<Load, "url" | "headers" | "body" | "numbered">,
  ) => {
    return { cpuMicros, load: (time: number) => loader({ ...load, seconds: time, core: loadCore, directory }) };
  };
  const http = (name: string, ours: Buffer, theirs: Buffer): Scenario => ({
    name,
    gateway: target(gateway.cpuMicros, loadHttp1, {
      url: gateway.listening.url + call.restPath,
      headers: { authorization, "content-type": "application/json" },
      body: ours,
      numbered,
    }),
    peer: target(peer.cpuMicros, loadHttp1, {
      url: peer.httpUrl + peerHttpPath,
      headers: { "content-type": "application/json" },
      body: theirs,
      numbered,
    }),
  });
  const headers = { "content-type": "application/grpc", te: "trailers" };
  const { kind } = question.resource.attr;
  const changing = (body: Buffer) => Buffer.from(body.toString("utf8").replaceAll(String(kind), `${kind}-${numbered}`));
  return [
    http("HTTP", json, peerJson(question)),
    http("HTTP, new facts", changing(json), changing(peerJson(question))),
    {
      name: "gRPC",
      gateway: target(gateway.cpuMicros, loadHttp2, {
        url: gateway.listening.url + call.rpcPath,
        headers: { ...headers, authorization },
        body: call.frame,
      }),
      peer: target(peer.cpuMicros, loadHttp2, { url: peer.grpcUrl + peerGrpcPath, headers, body: peerFrame(question) }),
    },
  ];
}

async function measureBeside(binary: string, directory: string, issuer: Issuer, policies: number) {
  const call = benchCalls().find(({ name }) => name === "protection-plan");
  if (call?.json === undefined) throw new Error("there is no protection-plan call");
  const policyDir = join(directory, `policies-${policies}`);
  writeFiles(policyDir, policyFiles(policies - 1));
  const question = peerQuestion(JSON.parse(call.json.toString("utf8")), issuer.clients[0]?.scopes ?? []);
  const gateway = await startGatewayProcess({
    issuer,
    dataDir: join(directory, `data-${policies}`),
    logFile: join(directory, `gateway-${policies}.log`),
    env: { SVC_POLICY_DIR: policyDir },
    ...(serverCore !== undefined && { core: serverCore }),
  });
  try {
    const peer = await startPeer(binary, directory, peerPolicy(policies), serverCore);
    try {
      const token = await fetchToken(issuer);
      await requirePeerAllows(peer, question);
      const { json } = await answersOf(gateway.listening.url, token, call);
      if (!JSON.parse(json).decision.allow) throw new Error(`the gateway denies: ${json}`);
      const rows = [];
      for (const scenario of scenarios(directory, call, { gateway, peer, token, question })) {
        rows.push({ policies, ...(await measureBesidePeer(scenario, plan)) });
      }
      return rows;
    } finally {
      await peer.stop();
    }
  } finally {
    await gateway.stop();
  }
}

// biome-ignore lint/suspicious/noConsole: the table is what this program is for
const printTable = console.table;

if (values.evaluators) {
  const sizes = values.policies.split(",").map(Number);
  printTable(
    (await measureEvaluators(sizes, seconds)).map((row) => ({
      rules: row.rules,
      policies: row.policies,
      "compiled µs": row.compiledMicros.toFixed(1),
      "Cedar µs": row.cedarMicros.toFixed(0),
      ratio: (row.cedarMicros / row.compiledMicros).toFixed(1),
      "cached µs": row.cachedMicros.toFixed(1),
      "longest step of compiling, ms": row.longestStepMs.toFixed(0),
    })),
  );
} else if (values.peer === undefined) {
  printTable(
    (await measureDecisions(seconds)).map((row) => ({
      policies: row.policies,
      tenants: row.tenants,
      "load ms": Math.round(row.loadMs),
      "load ms, alike": Math.round(row.loadAlikeMs),
      "cached/s": Math.round(row.cachedPerSecond),
      "new/s, cache full": Math.round(row.newPerSecond),
      "uncached/s": Math.round(row.uncachedPerSecond),
    })),
  );
} else {
  requireTools("wrk", "h2load", "taskset");
  const directory = mkdtempSync(join(tmpdir(), "bench-policy-"));
  const issuer = await startBenchIssuer();
  try {
    const rows = [];
    for (const policies of values.policies.split(",").map(Number)) {
      rows.push(...(await measureBeside(values.peer, directory, issuer, policies)));
    }
    process.stdout.write(
      `${rounds} rounds of ${seconds} s, ${values.cores} core(s) a server, Node ${process.version}\n`,
    );
    printTable(rows);
  } finally {
    await issuer.stop();
    rmSync(directory, { recursive: true });
  }
}
