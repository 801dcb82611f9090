/**
 * Every package, built once: its driver against the conformance suite and, with proofs of possession, a real issuer
 * and gateway; and its programs, compiled in empty folders with what its archive installs, against a gateway with
 * mutual TLS and a real issuer. Each makes all eight calls, tells a person what is wrong, waits for a gateway that
 * restarts, and all ask and are answered the same.
 */
import { randomBytes, randomFillSync } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { cases } from "../../clients/conformance/cases/index.ts";
import { startDriver } from "../../clients/conformance/driver.ts";
import type { DriverRequest } from "../../clients/conformance/protocol.ts";
import { runCases } from "../../clients/conformance/suite.ts";
import { defaultClient } from "../../dev/issuer.ts";
import { systemClock } from "../../src/base/clock.ts";
import { parseRecordId, parseTenantId, systemRandom } from "../../src/base/ids.ts";
import type { StoredRecord } from "../../src/ledger/ports/record.ts";
import { formatVerifierKey } from "../../src/ledger/tlog/note-keys.ts";
import { openSqliteStores } from "../../src/stores/sqlite/open-ledger.ts";
import { storeIn } from "../contract/ledger-records.ts";
import { gatewayForFile } from "../harness/gateway.ts";
import { forFile } from "../harness/lifetimes.ts";
import { archiveOf } from "./clients-builds.ts";
import { type Deployment, platformEnv, root, startDeployment } from "./clients-deployment.ts";
import { type Command, clientPackages, type Run, startCommand } from "./clients-programs.ts";

const answered = { answer: { caller: { principalId: defaultClient().principalId } } };
const buildTimeoutMs = 600_000;
const deployment = await forFile(startDeployment());
/** Without TLS, as `npm run dev` is. */
const plain = await gatewayForFile();
/** How the programs are started: the shell's as it is, the others once their packages are installed. */
const starts = new Map<string, Command>([["shell", [join(root, "examples/clients/shell/main.sh")]]]);
const packages = clientPackages.map(({ language }) => language);
const languages = [...packages, "shell"];
/** Without nonces, and with them. */
const dpopDeployments = await Promise.all([false, true].map(startDpopDeployment));
/** Ids of records by route, as each program printed them. */
const recorded = new Map<string, Readonly<Record<string, string>>>();

function start(language: string, env: Readonly<Record<string, string>> = {}) {
  const command = starts.get(language);
  if (command === undefined) throw new Error(`${language} is not installed`);
  return startCommand(command, deployment.clientEnv(env));
}
const run = (...program: Parameters<typeof start>): Promise<Run> => start(...program).done;

const uuid = "([0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[0-9a-f]{4}-[0-9a-f]{12})";
const expectedLines = [
  /^whoami payroll-service of tenant-a$/,
  /^capabilities 8 routes$/,
  /^bootstrap embedded_local_library$/,
  new RegExp(`^protection-plan allow true ${uuid}$`),
  new RegExp(`^policy-resolve allow true ${uuid}$`),
  new RegExp(`^key-access-plan allow true ${uuid}$`),
  new RegExp(`^artifact-register accepted true ${uuid}$`),
  new RegExp(`^evidence accepted true ${uuid}$`),
];

describe.each(clientPackages)("the package for $language", ({ language, install, drivers }) => {
  test("is built by one command", { timeout: buildTimeoutMs }, () => void archiveOf(language));

  test("is installed from its archive in an empty folder, where its programs compile strictly", {
    timeout: buildTimeoutMs,
  }, async () => {
    const folder = join(deployment.folder, language);
    await mkdir(folder);
    const { start, readme } = await install(folder);
    starts.set(language, start);
    if (readme === undefined) return;
    const answered = { code: 0, stdout: expect.stringMatching(readme.prints), stderr: "" };
    for (const env of [deployment.clientEnv(), platformEnv(plain)])
      expect(await startCommand(readme.start, env).done).toEqual(answered);
  });

  test.each(drivers.map(({ command }) => [command.at(-1), command] as const))(
    "proves possession of its key to a real issuer and gateway, with nonces and without: %s",
    async (_name, driver) => {
      for (const { drive } of dpopDeployments)
        expect(await drive(driver)).toMatchObject([answered, { steps: [answered, answered] }]);
    },
  );
});

describe.each(languages)("the program in %s", (language) => {
  test("makes all eight calls", async () => {
    const { code, stdout, stderr } = await run(language);
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    const lines = stdout.trimEnd().split("\n");
    expect(lines.length).toBe(expectedLines.length);
    for (const [i, expected] of expectedLines.entries()) expect(lines[i]).toMatch(expected);
    const ids = lines.slice(3).map((line) => [line.split(" ", 1)[0], line.split(" ").at(-1)]);
    recorded.set(language, Object.fromEntries(ids));
  });

  test("reports a wrong certificate", async () => {
    const { cert, key } = deployment.certificates.stranger;
    const { code, stderr } = await run(language, { PLATFORM_CERT: cert, PLATFORM_KEY: key });
    expect(code).toBe(1);
    expect(stderr).toMatch(/proof_of_possession_failed/);
    expect(stderr).toMatch(/certificate/);
    expect(stderr).toMatch(/request id: \S+/);
  });

  test("reports the missing scope", async () => {
    const { code, stdout, stderr } = await run(language, { PLATFORM_SCOPE: "platform-api.access" });
    expect(code).toBe(1);
    expect(stdout).toMatch(/^whoami/);
    expect(stderr).toMatch(/scopes too: policy\.read$/m);
  });

  test("reports that the issuer does not know the client", async () => {
    const { code, stderr } = await run(language, { PLATFORM_CLIENT_SECRET: "wrong" });
    expect(code).toBe(1);
    expect(stderr).toMatch(/invalid_client/);
    expect(stderr).not.toMatch(/trying again/);
  });
});

/** Several at a time: most of a case is waiting. */
describe("the conformance suite", () => {
  const drivers = clientPackages.flatMap(({ drivers }) => drivers);
  test.concurrent.each(drivers.map((driver) => [driver.command.at(-1), driver] as const))(
    "is passed in every case: %s",
    { timeout: buildTimeoutMs },
    async (_name, { command, lacks = [] }) => {
      const results = await runCases(command, { except: lacks });
      expect(results.filter(({ problem }) => problem !== undefined)).toEqual([]);
      const asked = cases.filter(({ name }) => !lacks.some((part) => name.includes(part)));
      expect(results.length).toBeGreaterThan(asked.length);
    },
  );
});

test.each(packages)("%s verifies its receipt with the log's key, and with no other", async (language) => {
  const [key = "", ...others] = (await deployment.cli("keys", "show", "--tenant", "tenant-a")).trim().split("\n");
  expect(others).toEqual([]);
  const good = await run(language, { PLATFORM_LOG_KEY: key });
  expect(good).toMatchObject({ code: 0, stdout: expect.stringMatching(/^receipt leaf \d+ of localhost\/clients\//m) });
  // A key of the same name that another party made.
  const foreign = formatVerifierKey(key.split("+")[0] as string, randomFillSync(new Uint8Array(32)));
  const bad = await run(language, { PLATFORM_LOG_KEY: foreign });
  expect(bad).toMatchObject({ code: 1, stderr: expect.stringMatching(/./) });
});

// One after the other: each waits as long as its calls may take, which is less than all of them need to start.
test.each(languages)("%s waits for a gateway that restarts", async (language) => {
  expect(await deployment.stopGateway()).toBe(0);
  const program = start(language);
  await expect.poll(program.errors).toMatch(/trying again in|Will retry in/);
  await deployment.startGateway();
  const { code, stderr } = await program.done;
  expect({ code, stderr: code === 0 ? "" : stderr }).toEqual({ code: 0, stderr: "" });
});

test("every language records the same request with the same digest, and gets the same answer", async () => {
  await deployment.stopGateway();
  const records = await recordsOf(deployment, recorded);
  expect([...records.keys()]).toEqual(languages);
  for (const route of ["protection-plan", "policy-resolve", "key-access-plan"]) {
    const seen = [...records.values()].map((byRoute) => byRoute[route]);
    const [first] = seen;
    expect(first?.request_digest).toMatch(/^(sha256:)?\S+/);
    for (const record of seen) {
      expect(record?.request_digest).toBe(first?.request_digest);
      expect(record?.request).toEqual(first?.request);
      expect(record?.outcome).toEqual(first?.outcome);
    }
  }
  // These cite a decision, of which each program has its own.
  for (const route of ["artifact-register", "evidence"]) {
    const seen = [...records.values()].map((byRoute) => uncited(byRoute[route]));
    for (const record of seen) expect(record).toEqual(seen[0]);
  }
});

function uncited(record: StoredRecord | undefined): unknown {
  const request = record?.request as Record<string, unknown> | undefined;
  expect(request?.decision_id).toMatch(/./);
  return { request: { ...request, decision_id: "" }, outcome: record?.outcome };
}

async function recordsOf(
  { folder }: Deployment,
  ids: ReadonlyMap<string, Readonly<Record<string, string>>>,
): Promise<Map<string, Record<string, StoredRecord>>> {
  const options = { originPrefix: "localhost/clients", clock: systemClock, random: systemRandom };
  const { ledger } = await openSqliteStores({ ...storeIn(folder), ...options });
  onTestFinished(() => ledger.close());
  const tenant = parseTenantId("tenant-a");
  const found = new Map<string, Record<string, StoredRecord>>();
  for (const [language, byRoute] of ids) {
    const records: Record<string, StoredRecord> = {};
    for (const [route, id] of Object.entries(byRoute)) {
      const recordId = parseRecordId(id);
      if (tenant === undefined || recordId === undefined) throw new Error(`${id} is no record id`);
      const record = await ledger.find(tenant, recordId);
      if (typeof record === "string") throw new Error(`the record of ${route} from ${language} is ${record}`);
      records[route] = record;
    }
    found.set(language, records);
  }
  return found;
}

/** A real issuer that binds tokens to their key, and a real gateway. With nonces, the gateway asks for one of its own in every proof (RFC 9449 section 9). */
async function startDpopDeployment(withNonces: boolean) {
  const nonceKey = join(deployment.folder, "nonce.key");
  if (withNonces) await writeFile(nonceKey, randomBytes(32).toString("base64"), { mode: 0o600 });
  const client = { ...defaultClient(), dpopBound: true };
  const gateway = await gatewayForFile({
    issuer: { clients: [client] },
    env: { SVC_PROOF_OF_POSSESSION: "dpop", ...(withNonces && { SVC_DPOP_NONCE_KEY: nonceKey }) },
  });
  const { clientId: client_id, clientSecret: client_secret, scopes } = client;
  const request: DriverRequest = {
    case: "dpop",
    base_url: gateway.url,
    tls: {},
    token: { issuer: gateway.issuer.url, client_id, client_secret, scopes },
    dpop: true,
    options: {
      deadline_ms: 20_000,
      max_attempts: 1,
      initial_backoff_ms: 100,
      max_backoff_ms: 100,
      receipts: "brief",
    },
    steps: [{ call: "whoami" }, { call: "concurrent", calls: [{ call: "whoami" }, { call: "capabilities" }] }],
  };
  return {
    /** What a driver answers to a call, and then to two at once. */
    async drive(command: readonly string[]) {
      const driver = startDriver(command);
      try {
        return (await driver.ask(request, 60_000)).steps;
      } finally {
        await driver.end();
      }
    },
  };
}
