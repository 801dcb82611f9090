/** `npm run dev`: a working control plane on this machine, and what to paste next. */
import { resolve } from "node:path";
import { sampleCalls } from "./requests.ts";
import { startStack } from "./stack.ts";

const stop = Promise.withResolvers<void>();
for (const signal of ["SIGINT", "SIGTERM"] as const) process.once(signal, () => stop.resolve());

const stack = await startStack({
  dataDir: resolve("data/dev"),
  port: Number(process.env.PORT ?? 8080),
  opsPort: Number(process.env.OPS_PORT ?? 9090),
  issuer: { port: Number(process.env.ISSUER_PORT ?? 4400) },
  env: { SVC_LOG_LEVEL: "warn" },
}).catch((error: unknown) => {
  // A port that is taken and the like: a line for a person, as the service's own start has.
  process.stderr.write(`${error instanceof Error ? error.message : String(error)}\n`);
  process.exit(1);
});
const { url, opsUrl, issuer } = stack;
const [client] = issuer.clients;
if (client === undefined) throw new Error("the issuer has no client");

const calls = sampleCalls().map(({ route, body }) =>
  body === undefined
    ? `curl -s ${url}${route} -H "authorization: Bearer $TOKEN"`
    : `curl -s ${url}${route} -H "authorization: Bearer $TOKEN" -H 'content-type: application/json' \\\n    -d '${JSON.stringify(body)}'`,
);
process.stdout.write(`
service    ${url}
operator   ${opsUrl}/readyz  ${opsUrl}/metrics
issuer     ${issuer.url}
tenant     ${client.tenantId}, principal ${client.principalId}

A token, good for five minutes:

  TOKEN=$(curl -s -u ${client.clientId}:${client.clientSecret} ${issuer.tokenEndpoint} \\
    -d grant_type=client_credentials -d scope='${client.scopes.join(" ")}' \\
    | sed -E 's/.*"access_token":"([^"]+)".*/\\1/')

Each route over JSON:

  ${calls.join("\n  ")}

The same methods over gRPC:

  npx buf curl --schema gen/image.binpb --protocol grpc --http2-prior-knowledge \\
    -H "authorization: Bearer $TOKEN" ${url}/platform.sdk.v1.DiscoveryService/WhoAmI

Ctrl-C stops everything. Records stay in data/dev.
`);
await stop.promise;
await stack.stop();
