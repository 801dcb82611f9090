/** The gateway as it is deployed (bundled) or as `npm start` runs it, with a token issuer. */
import { mkdirSync } from "node:fs";
import http from "node:http";
import https from "node:https";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { type Issuer, startIssuer } from "../dev/issuer.ts";
import manifest from "../package.json" with { type: "json" };
import { writeAppFiles } from "../scripts/app-files.ts";
import { type Child, startChild } from "./child.ts";

/** Addresses of a running gateway: base URL, and that of its operator listener. */
export interface GatewayAddresses {
  readonly url: string;
  readonly ops_url: string;
}

export type GatewayProcess = Child<GatewayAddresses>;

const root = join(import.meta.dirname, "..");
const readyTimeoutMs = 300_000;

/** Prefix of a log's origin, before the random part. */
export const benchOrigin = "localhost/bench";

/** Settings of the store and its logs. */
export function storeSettings(dataDir: string) {
  return {
    SVC_STORE: `sqlite:${join(dataDir, "platform.db")}`,
    SVC_LEDGER_KEY: join(dataDir, "ledger.key"),
    SVC_LEDGER_ORIGIN: benchOrigin,
  } as const;
}

/** An issuer whose tokens outlive any run. */
export function startBenchIssuer(): Promise<Issuer> {
  return startIssuer({ tokenLifetimeSeconds: 86_400 });
}

export interface GatewayOptions {
  readonly issuer: Pick<Issuer, "url">;
  readonly dataDir: string;
  /** Default: in `dataDir`. */
  readonly logFile?: string;
  readonly core?: number;
  readonly env?: Readonly<Record<string, string>>;
  /** Default: `built`. */
  readonly program?: Program;
  /** Options for Node itself, such as `--cpu-prof`. */
  readonly nodeOptions?: readonly string[];
}

/** Options that `npm start` gives to Node. */
const startOptions = manifest.scripts.start.split(" ").slice(1, -1);

/**
 * - `built`: the output of `npm run build`, as in the image, with its compile cache beside it;
 * - `read-only`: the same in a folder that cannot be written, as in the image: every start compiles again;
 * - `source`: the checkout, as `npm start` runs it.
 */
export type Program = "built" | "read-only" | "source";

let built: Promise<string> | undefined;

/** Builds the deployed program from the current source, once in each run. Resolves with its entry point. */
export async function builtProgram(): Promise<string> {
  const folder = join(root, "dist");
  built ??= writeAppFiles(folder).then(() => join(folder, "main.js"));
  return await built;
}

/** Starts the gateway and waits until it is ready. */
export async function startGatewayProcess(options: GatewayOptions): Promise<GatewayProcess> {
  const { issuer, dataDir, core, env, nodeOptions = [], program = "built" } = options;
  mkdirSync(dataDir, { recursive: true });
  const gateway = await startChild<GatewayAddresses>({
    command: [...startOptions, ...nodeOptions, program === "source" ? join(root, "src/main.js") : await builtProgram()],
    logFile: options.logFile ?? join(dataDir, "gateway.log"),
    ...(core !== undefined && { core }),
    env: {
      SVC_LISTEN: "127.0.0.1:0",
      SVC_OPS_LISTEN: "127.0.0.1:0",
      SVC_OIDC_ISSUER: issuer.url,
      SVC_PROOF_OF_POSSESSION: "none",
      ...storeSettings(dataDir),
      SVC_POLICY_DIR: join(root, "policies"),
      ...(program === "read-only" && { NODE_DISABLE_COMPILE_CACHE: "1" }),
      ...env,
    },
  });
  await untilReady(gateway.listening.ops_url);
  return gateway;
}

async function untilReady(opsUrl: string): Promise<void> {
  const end = performance.now() + readyTimeoutMs;
  while (performance.now() < end) {
    if ((await statusOf(`${opsUrl}/readyz`, readyTimeoutMs)) === 200) return;
    await delay(2);
  }
  throw new Error(`The gateway is not ready after ${readyTimeoutMs} ms.`);
}

/** An access token of the issuer's first client, or of the named one, with all its scopes. */
export async function fetchToken({ clients, tokenEndpoint }: Issuer, clientId?: string): Promise<string> {
  const client = clients.find((each) => clientId === undefined || each.clientId === clientId);
  if (client === undefined) throw new Error("the issuer has no such client");
  const response = await fetch(tokenEndpoint, {
    method: "POST",
    headers: { authorization: `Basic ${btoa(`${client.clientId}:${client.clientSecret}`)}` },
    body: new URLSearchParams({ grant_type: "client_credentials", scope: client.scopes.join(" ") }),
  });
  const { access_token } = (await response.json()) as { access_token: string };
  return access_token;
}

/**
 * The status of the answer to a GET on a new connection, or the reason why there is none. Any certificate is accepted.
 */
export function statusOf(
  url: string,
  timeoutMs: number,
  headers: Readonly<Record<string, string>> = {},
): Promise<number | string> {
  const { request } = url.startsWith("https:") ? https : http;
  return new Promise((resolve) => {
    const call = request(url, { agent: false, headers, rejectUnauthorized: false, timeout: timeoutMs }, (answer) => {
      answer.resume().once("close", () => resolve(answer.complete ? (answer.statusCode ?? 0) : "half an answer"));
    });
    call.once("timeout", () => call.destroy(new Error("nothing: it hangs")));
    call.once("error", (error) => resolve(error.message));
    call.end();
  });
}
