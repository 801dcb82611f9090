/** `npm run dev`: runs a control plane on this machine and prints commands to paste. */
import { randomBytes } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { stopOnSignal, stopWithParent } from "../src/cli/serve.ts";
import { startedByNpm } from "../src/config/load.ts";
import { settings } from "../src/config/settings.ts";
import { formatOpsCredentials, hashOpsToken } from "../src/credentials/ops-credentials.ts";
import { furtherNames } from "../src/domain/routes.ts";
import { createLogger } from "../src/telemetry/logger.ts";
import { defaultClient } from "./issuer.ts";
import { readableLog } from "./readable-log.ts";
import { sampleCalls } from "./requests.ts";
import { recordSamples } from "./sample-records.ts";
import { type Stack, startStack } from "./stack.ts";

const dataDir = resolve("data/dev");
const secretPath = join(dataDir, "client-secret");
const operatorPath = join(dataDir, "operator-token");
const operatorsPath = join(dataDir, "operators");
const signInPath = join(dataDir, "sign-in.yaml");
const signInSecretPath = join(dataDir, "sign-in-secret");
/** People who can sign in to the console, with any password. */
const people = { olga: ["operator"], audrey: ["auditor:tenant-a"] };
/** A first start records something to look at. */
const isFirst = !existsSync(join(dataDir, "platform.db"));
const shownSettings = "data/dev/settings.yaml";
const ports = {
  PORT: Number(process.env.PORT ?? 8080),
  OPS_PORT: Number(process.env.OPS_PORT ?? 9090),
  ISSUER_PORT: Number(process.env.ISSUER_PORT ?? 4400),
};

const stop = Promise.withResolvers<void>();
stopOnSignal(() => stop.resolve());
if (startedByNpm()) stopWithParent(() => stop.resolve());

const stack: Stack = await start().catch((error: unknown) => {
  process.stderr.write(`${startProblem(error)}\n`);
  process.exit(1);
});

const { url, opsUrl, issuer } = stack;
if (isFirst) await recordSamples({ url, token: await stack.token() });
const consoleLine = existsSync("console/dist/index.html")
  ? `${opsUrl}/console  sign in as ${Object.keys(people).join(" or ")}, or with ${keptSecret(operatorPath)}`
  : "not built: npm run console";
const [client] = issuer.clients;
if (client === undefined) throw new Error("the issuer has no client");

writeFileSync(
  shownSettings,
  `# Written by npm run dev. For commands: npm run cli -- --config ${shownSettings} <command>
SVC_OIDC_ISSUER: ${issuer.url}
SVC_PROOF_OF_POSSESSION: none
SVC_STORE: ${JSON.stringify(`sqlite:${join(dataDir, "platform.db")}`)}
SVC_LEDGER_KEY: ${JSON.stringify(join(dataDir, "ledger.key"))}
SVC_LEDGER_ORIGIN: localhost/dev
SVC_POLICY_DIR: ${JSON.stringify(resolve("policies"))}
`,
);
const plan = sampleCalls().find(({ route }) => route.endsWith("/protection-plan"));
process.stdout.write(`
service    ${url}
explorer   ${url}/explorer
operator   ${opsUrl}/readyz  ${opsUrl}/metrics
console    ${consoleLine}
issuer     ${issuer.url}
tenant     ${client.tenantId}, principal ${client.principalId}

A token, good for five minutes:

  TOKEN=$(curl -s -u ${client.clientId}:${client.clientSecret} ${issuer.tokenEndpoint} \\
    -d grant_type=client_credentials -d scope='${client.scopes.join(" ")}' \\
    | sed -E 's/.*"access_token":"([^"]+)".*/\\1/')

For the programs of docs/clients.md, and for svc-platform:

  export PLATFORM_URL=${url} PLATFORM_ISSUER=${issuer.url}
  export PLATFORM_CLIENT_ID=${client.clientId} PLATFORM_CLIENT_SECRET=$(cat '${secretPath}')
  export PLATFORM_SCOPE='${client.scopes.join(" ")}'

Two calls over JSON, and one over gRPC. The explorer has an example of each route:

  curl -s ${url}/v1/sdk/whoami -H "authorization: Bearer $TOKEN"
  curl -s ${url}${plan?.route} -H "authorization: Bearer $TOKEN" \\
    -H 'content-type: application/json' -d '${JSON.stringify(plan?.body)}'
  npx buf curl --schema gen/image.binpb --protocol grpc --http2-prior-knowledge \\
    -H "authorization: Bearer $TOKEN" ${url}/platform.sdk.v1.DiscoveryService/WhoAmI

Its ledger, in another terminal:

  npm run cli -- --config ${shownSettings} ledger search
  npm run cli -- --config ${shownSettings} ledger verify

Ctrl-C stops everything. Records, the client's secret and the operator's token stay in data/dev. Each call is a line from here on.

`);
await stop.promise;
await stack.stop();

function start(): Promise<Stack> {
  const output = readableLog((text) => void process.stdout.write(text), process.stdout.isTTY === true);
  const clients = [{ ...defaultClient(), clientSecret: keptSecret(secretPath) }];
  const url = `http://127.0.0.1:${ports.OPS_PORT}`;
  const clientSecret = keptSecret(signInSecretPath);
  const signIn = { clientId: "console", clientSecret, redirectUri: `${url}/console/sign-in/callback`, people };
  writeFileSync(
    signInPath,
    `issuer: http://127.0.0.1:${ports.ISSUER_PORT}\nclient_id: console\nclient_secret_file: ${JSON.stringify(signInSecretPath)}\nurl: ${url}\n`,
  );
  return startStack({
    dataDir,
    port: ports.PORT,
    opsPort: ports.OPS_PORT,
    issuer: { port: ports.ISSUER_PORT, clients, signIn },
    env: { ...optional(process.env), SVC_OPS_CREDENTIALS: writeOperators(), SVC_CONSOLE_SIGN_IN: signInPath },
    overrides: {
      // The stack is there before a page is.
      explorerToken: () => stack.token(),
      logger: createLogger({ level: "info", serviceName: "svc-platform-api", destination: output }),
    },
  });
}

/** Features that are off by default are off here too. */
function optional(env: NodeJS.ProcessEnv) {
  const names = furtherNames.map((name) => settings[name].name);
  return Object.fromEntries(names.map((name) => [name, env[name]]));
}

/** One operator, whose token signs in to the console; the one of the previous run. */
function writeOperators(): string {
  const hash = hashOpsToken(keptSecret(operatorPath));
  writeFileSync(operatorsPath, formatOpsCredentials([{ name: "dev", hash }]), { mode: 0o600 });
  return operatorsPath;
}

/** The secret of the previous run, so that a pasted token command keeps working. */
function keptSecret(path: string): string {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 });
  try {
    writeFileSync(path, randomBytes(32).toString("base64url"), { mode: 0o600, flag: "wx" });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EEXIST") throw error;
  }
  return readFileSync(path, "utf8").trim();
}

/** A startup problem as one readable line, like the service's own. */
function startProblem(thrown: unknown): string {
  for (let error = thrown; error instanceof Error; error = error.cause) {
    const { code, port } = error as NodeJS.ErrnoException & { readonly port?: number };
    const name = Object.entries(ports).find(([, own]) => own === port)?.[0];
    if (code === "EADDRINUSE" && name !== undefined)
      return `port ${port} is taken: stop what has it, or say ${name}=<another> npm run dev`;
  }
  return thrown instanceof Error ? thrown.message : String(thrown);
}
