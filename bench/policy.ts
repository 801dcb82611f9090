/**
 * Protection-plan of the gateway, with its token verified and its record durable, beside a peer decision server on the
 * same rules, which does neither.
 *
 * A server is pinned to core 0 with all its threads, or has both cores with `--cores 2`; the load generator is on core
 * 1. Servers are measured in turn, round after round; the table has medians over the rounds, also of ratios. Requests
 * are all alike, or each has new facts ("new facts"), so that no server can have cached the answer; over gRPC the load
 * generator can only repeat one request. Both are warmed up until the gateway's hot code is compiled.
 *
 * `node bench/policy.ts --peer <binary> [--policies 20,200] [--seconds 3] [--rounds 5] [--warm-up 10] [--cores 1]`. The
 * peer's binary is in the npm package `@cerbos/cerbos-linux-x64`.
 */
import { join } from "node:path";
import type { Issuer } from "../dev/issuer.ts";
import { answersOf, benchCall } from "./calls.ts";
import { fetchToken, type GatewayProcess, startBenchIssuer, startGatewayProcess } from "./deployment.ts";
import { type Load, loadHttp1, loadHttp2, numbered, type Turn } from "./load.ts";
import {
  measureBesidePeer,
  type Peer,
  type PeerQuestion,
  type PeerScenario,
  peerFrame,
  peerGrpcPath,
  peerHttpPath,
  peerJson,
  peerOptions,
  peerQuestion,
  requirePeerAllows,
  startPeer,
} from "./policy-peer.ts";
import { peerPolicy, policyFiles, writeFiles } from "./policy-rules.ts";
import { numbersOf, printTable, readOptions, temporaryFolder } from "./run.ts";

const options = readOptions({ ...peerOptions, policies: "20,200" });
const { seconds, rounds, cores } = options;
const plan = { seconds, rounds, warmUpSeconds: options["warm-up"] };
if (options.peer === "") throw new Error("--peer is needed");
const serverCore = cores === 2 ? undefined : 0;
const loadCore = 1;

interface Servers {
  readonly gateway: GatewayProcess;
  readonly peer: Peer;
  readonly token: string;
  readonly question: PeerQuestion;
}

function scenarios(
  directory: string,
  call: ReturnType<typeof benchCall>,
  { gateway, peer, token, question }: Servers,
): readonly PeerScenario[] {
  const authorization = `Bearer ${token}`;
  const target = (
    cpuMicros: () => number,
    loader: typeof loadHttp1,
    load: Pick<Load, "url" | "headers" | "body" | "turns">,
  ) => {
    return { cpuMicros, load: (time: number) => loader({ ...load, seconds: time, core: loadCore, directory }) };
  };
  const json = { "content-type": "application/json" };
  const turns = (url: string, headers: Turn["headers"], body: Buffer) => {
    return { url, headers: {}, turns: [{ headers, body: body.toString("utf8") }] };
  };
  const http = (name: string, ours: Buffer, theirs: Buffer): PeerScenario => ({
    name,
    gateway: target(
      gateway.cpuMicros,
      loadHttp1,
      turns(gateway.listening.url + call.restPath, { ...json, authorization }, ours),
    ),
    peer: target(peer.cpuMicros, loadHttp1, turns(peer.httpUrl + peerHttpPath, json, theirs)),
  });
  const headers = { "content-type": "application/grpc", te: "trailers" };
  const { kind } = question.resource.attr;
  const changing = (body: Buffer) => Buffer.from(body.toString("utf8").replaceAll(String(kind), `${kind}-${numbered}`));
  return [
    http("HTTP", call.json, peerJson(question)),
    http("HTTP, new facts", changing(call.json), changing(peerJson(question))),
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
  const call = benchCall("protection-plan");
  const policyDir = join(directory, `policies-${policies}`);
  writeFiles(policyDir, policyFiles(policies - 1));
  const question = peerQuestion(JSON.parse(call.json.toString("utf8")), issuer.clients[0]?.scopes ?? []);
  const gateway = await startGatewayProcess({
    issuer,
    dataDir: join(directory, `data-${policies}`),
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

using folder = temporaryFolder("policy");
const issuer = await startBenchIssuer();
try {
  const rows = [];
  for (const policies of numbersOf(options.policies))
    rows.push(...(await measureBeside(options.peer, folder.path, issuer, policies)));
  process.stdout.write(`${rounds} rounds of ${seconds} s, ${cores} core(s) a server, Node ${process.version}\n`);
  printTable(rows);
} finally {
  await issuer.stop();
}
