/** A short form of `npm run soak -- --fuzz`: whatever comes, the service neither ends nor fails, and serves the next. */
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { folderForFile } from "../harness/folder.ts";
import { type FuzzOptions, fuzzConnection, noCounts } from "../harness/fuzz/connection.ts";
import { h1Exchange, h1Request } from "../harness/h1.ts";
import { issuerForFile } from "../harness/issuer-for-file.ts";
import { forFile } from "../harness/lifetimes.ts";
import { everyApi } from "../harness/methods.ts";
import { type RunningService, serviceSettings, startService } from "../harness/process.ts";

const seed = 20;
const connections = 250;
const certificates = join(import.meta.dirname, "../unit/config/fixtures");
const issuer = await issuerForFile();
const directory = folderForFile("fuzz");
const [cert, certKey] = [join(certificates, "server.crt.pem"), join(certificates, "server.key.pem")];
const tls = { SVC_TLS_CERT: cert, SVC_TLS_KEY: certKey, SVC_OPS_TLS_CERT: cert, SVC_OPS_TLS_KEY: certKey };
const start = (settings: Readonly<Record<string, string>>, name: string) => {
  const own = join(directory, name);
  mkdirSync(own);
  return forFile(startService(own, { ...serviceSettings(own, issuer.url), ...everyApi, ...settings }));
};
const services = [await start({}, "plain"), await start(tls, "tls")];
const [service, operator, tlsService, tlsOperator] = services.flatMap(({ url, opsUrl }) =>
  [url, opsUrl].map((each) => Number(new URL(each).port)),
) as [number, number, number, number];
const scope = "platform-api.access policy.read artifacts.write evidence.write keys.use decisions.delegate";
const authorization = `Bearer ${issuer.token({ scope })}`;
const options: FuzzOptions = { seed, authorization, ports: { service, operator, tlsService, tlsOperator } };

test(`${connections} fuzzed connections do not harm the service`, { timeout: 60_000 }, async () => {
  const counts = noCounts();
  let next = 0;
  const one = async () => {
    while (next < connections) await fuzzConnection(next++, options, counts);
  };
  await Promise.all(Array.from({ length: 16 }, one));
  process.stdout.write(`seed ${seed}: ${JSON.stringify(counts)}\n`);
  const [plain] = services as [RunningService];
  expect((await h1Exchange(plain.url, h1Request("GET /v1/sdk/whoami", [])))?.status).toBe(401);
  expect((await h1Exchange(plain.opsUrl, h1Request("GET /livez", [])))?.status).toBe(200);
  for (const { lines, errors } of services) {
    expect(lines.filter((line) => /"level":"(error|fatal)"/.test(line))).toEqual([]);
    expect(errors()).toBe("");
  }
  // A peer that left without a GOAWAY may have to be cut off, which is 1; nothing is left over.
  for (const { child } of services) child.kill("SIGTERM");
  for (const { code } of await Promise.all(services.map(({ ended }) => ended))) expect([0, 1]).toContain(code);
});
