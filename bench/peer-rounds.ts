/** Rounds of load on the gateway and on the peer in turn, and the row of the table that comes out of them. */
import { type LoadedServer, measureRound, median, type Plan, type Round } from "./rounds.ts";

/** One row of the table. */
export interface Scenario {
  readonly name: string;
  readonly gateway: LoadedServer;
  readonly peer: LoadedServer;
}

/** How long both are loaded before it counts, how long each measurement takes, and how many there are. */
export interface PeerPlan extends Plan {
  readonly warmUpSeconds: number;
}

/** Measures the scenario. Returns its row; ratios over 1 are in the gateway's favour. */
export async function measureBesidePeer(
  { name, gateway, peer }: Scenario,
  { seconds, rounds, warmUpSeconds }: PeerPlan,
): Promise<Record<string, string | number>> {
  for (const { load } of [gateway, peer]) await load(warmUpSeconds);
  const results: { readonly gateway: Round; readonly peer: Round }[] = [];
  for (let round = 0; round < rounds; round++) {
    results.push({ gateway: await measureRound(gateway, seconds), peer: await measureRound(peer, seconds) });
  }
  const of = (read: (round: (typeof results)[number]) => number) => median(results.map(read));
  return {
    call: name,
    "gateway/s": Math.round(of(({ gateway }) => gateway.perSecond)),
    "peer/s": Math.round(of(({ peer }) => peer.perSecond)),
    ratio: of(({ gateway, peer }) => gateway.perSecond / peer.perSecond).toFixed(2),
    "ratio by CPU": of(({ gateway, peer }) => peer.cpuMicrosEach / gateway.cpuMicrosEach).toFixed(2),
    "gateway p99 ms": of(({ gateway }) => gateway.p99Ms).toFixed(1),
    "peer p99 ms": of(({ peer }) => peer.p99Ms).toFixed(1),
    "gateway CPU µs": Math.round(of(({ gateway }) => gateway.cpuMicrosEach)),
    "peer CPU µs": Math.round(of(({ peer }) => peer.cpuMicrosEach)),
  };
}
