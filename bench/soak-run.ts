/** Mixed load of many tenants on gateways that share a store and are killed at random; then a check of all promises. */
import { generateKeyPairSync, randomFillSync } from "node:crypto";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { TenantId } from "../src/base/ids.ts";
import { hashSecret } from "../src/credentials/client-secret.ts";
import { formatClientFile } from "../src/credentials/session-clients.ts";
import { formatVerifierKey, type NoteVerifier, parseVerifierKey } from "../src/ledger/tlog/note-keys.ts";
import { readKeyFile } from "../src/stores/files/key-file.ts";
import type { TestStore } from "../test/harness/stores.ts";
import { benchOrigin, type GatewayProcess, startGatewayProcess } from "./deployment.ts";
import { type Called, type SoakClient, startCallers } from "./soak-callers.ts";
import { verifyRecords } from "./soak-records.ts";
import { startTenants } from "./tenants.ts";

export interface SoakOptions {
  readonly store: TestStore;
  readonly gateways: number;
  readonly tenants: number;
  readonly callers: number;
  /** Minimum duration. If a promise was not tested by then, the run continues for up to three times this. */
  readonly durationMs: number;
  readonly lifeMs: { readonly shortest: number; readonly longest: number };
  readonly seed: number;
  readonly onProgress?: (kills: number, acknowledged: number) => void;
}

export interface SoakReport {
  readonly kills: number;
  readonly called: Called;
  /** Records in the logs, acknowledged or not. */
  readonly records: number;
  readonly problems: readonly string[];
}

const progressMs = 500;

/** Runs it. The caller keeps or removes what remains of the store. */
export async function runSoak(options: SoakOptions): Promise<SoakReport> {
  const { store, durationMs } = options;
  const random = randomFrom(options.seed);
  const tenants = await startTenants(options.tenants);
  const client = { tenantId: tenants.ids[0] as string, clientId: "soak", secret: "soak".padEnd(43, ".") };
  const files = await writeSessionFiles(store.folder, client);
  const settings = { ...store.settings, SVC_LEDGER_ORIGIN: benchOrigin };
  try {
    const gateways = await startGateways({
      number: options.gateways,
      issuer: tenants.issuer,
      folder: store.folder,
      env: { ...settings, ...files },
      lifeMs: options.lifeMs,
      random,
    });
    const { urls } = gateways;
    const callers = startCallers({
      number: options.callers,
      urls,
      tenants: tenants.ids,
      tokenOf: tenants.tokenOf,
      client,
      verifierOf: trustedKey(store.settings.SVC_LEDGER_KEY),
      random,
    });
    const startedMs = performance.now();
    const { called: soFar } = callers;
    const untested = () => [soFar.acknowledged.length, soFar.keyed.size, soFar.repeated, soFar.sessions].includes(0);
    const isOver = (ranMs: number) => ranMs >= (untested() ? 3 * durationMs : durationMs);
    while (!isOver(performance.now() - startedMs) && soFar.problems.length === 0) {
      await delay(progressMs);
      options.onProgress?.(gateways.kills(), soFar.acknowledged.length);
    }
    const called = await callers.stop();
    const stopped = await gateways.stop();
    const { records, problems } = await verifyRecords(settings, called);
    const all = [...called.problems, ...stopped, ...problems];
    return { kills: gateways.kills(), called, records, problems: all };
  } finally {
    await tenants.stop();
  }
}

/** The key of the deployment, under the name of each log. */
function trustedKey(path: string): (origin: string) => NoteVerifier {
  const verifiers = new Map<string, NoteVerifier>();
  return (origin) => {
    const known = verifiers.get(origin);
    if (known !== undefined) return known;
    const [signing] = readKeyFile(path) ?? [];
    const verifier = signing && parseVerifierKey(formatVerifierKey(origin, signing.publicKey));
    if (verifier === undefined) throw new Error(`${path} has no key`);
    verifiers.set(origin, verifier);
    return verifier;
  };
}

/** Numbers from 0 up to 1, repeatable by seed (mulberry32). */
function randomFrom(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

interface GatewaysOptions {
  readonly number: number;
  readonly issuer: { readonly url: string };
  readonly folder: string;
  readonly env: Readonly<Record<string, string>>;
  /** Milliseconds that a gateway lives before it is killed: uniform in this range. */
  readonly lifeMs: { readonly shortest: number; readonly longest: number };
  readonly random: () => number;
}

/** Starts the gateways; rejects if one does not become ready. The first one creates the key, so it starts alone. */
async function startGateways(options: GatewaysOptions) {
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
      // Callers that still have its address get no answer.
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
    urls: urls as readonly string[],
    kills: () => kills,
    /** Stops killing, and shuts every gateway down. Resolves with problems of the shutdown. */
    async stop() {
      ending.abort();
      return (await Promise.all(lives)).flat();
    },
  };
}

const scopes = ["platform-api.access", "policy.read", "keys.use", "artifacts.write", "evidence.write"];

/** Writes the files of the session route into the folder; returns the settings that name them. */
async function writeSessionFiles(folder: string, { tenantId, clientId, secret }: SoakClient) {
  const [clientsPath, keyPath] = [join(folder, "clients.json"), join(folder, "session.key")];
  const hashed = await hashSecret(secret, (bytes) => randomFillSync(bytes));
  const client = { tenantId: tenantId as TenantId, clientId, scopes, secret: hashed };
  writeFileSync(clientsPath, formatClientFile([client]), { mode: 0o600 });
  const { privateKey } = generateKeyPairSync("ed25519");
  writeFileSync(keyPath, privateKey.export({ format: "pem", type: "pkcs8" }), { mode: 0o600 });
  return {
    SVC_SESSION_CLIENTS: clientsPath,
    SVC_SESSION_KEY: keyPath,
    // Callers act as if behind an ingress on this machine and name the client address.
    SVC_TRUSTED_PROXIES: "127.0.0.1",
  } as const;
}
