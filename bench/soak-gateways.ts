/** Gateways on one store, each of which is killed at random and started again. */
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type GatewayProcess, startGatewayProcess } from "./deployment.ts";

export interface GatewaysOptions {
  readonly number: number;
  readonly issuer: { readonly url: string };
  /** Folder of the gateways' output. */
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  /** Milliseconds that a gateway lives before it is killed: drawn evenly from this range. */
  readonly lifeMs: { readonly shortest: number; readonly longest: number };
  /** Numbers from 0 up to 1. */
  readonly random: () => number;
}

export interface Gateways {
  /** Base URLs of those that serve now; the list changes. */
  readonly urls: readonly string[];
  kills(): number;
  /** Ends the killing, and stops every gateway in good order. Resolves with what was not in good order. */
  stop(): Promise<string[]>;
}

/** Starts them; rejects where one does not become ready. The first one makes the key, so it starts alone. */
export async function startGateways(options: GatewaysOptions): Promise<Gateways> {
  const { number, issuer, folder, env, lifeMs, random } = options;
  const urls: string[] = [];
  let kills = 0;
  const ending = new AbortController();

  const start = async (place: number) => {
    const logFile = join(folder, `gateway-${place}.log`);
    const gateway = await startGatewayProcess({ issuer, dataDir: folder, logFile, env });
    urls.push(gateway.listening.url);
    return gateway;
  };
  const remove = ({ listening }: GatewayProcess) => void urls.splice(urls.indexOf(listening.url), 1);

  const live = async (place: number, first: GatewayProcess): Promise<string[]> => {
    let gateway = first;
    for (;;) {
      const life = lifeMs.shortest + random() * (lifeMs.longest - lifeMs.shortest);
      const ended = await delay(life, false, { signal: ending.signal }).catch(() => true);
      if (ended) {
        const exitCode = await gateway.stop();
        return exitCode === 0 ? [] : [`a gateway that was asked to stop ended with ${exitCode}`];
      }
      // Callers that know its address meet a dead one.
      await gateway.stop("SIGKILL");
      kills += 1;
      remove(gateway);
      gateway = await start(place);
    }
  };

  const started = [await start(0)];
  for (let place = 1; place < number; place++) started.push(await start(place));
  const lives = started.map((gateway, place) =>
    live(place, gateway).catch((error: unknown) => [error instanceof Error ? error.message : String(error)]),
  );
  return {
    urls,
    kills: () => kills,
    async stop() {
      ending.abort();
      return (await Promise.all(lives)).flat();
    },
  };
}
