/** `doctor` says what is wrong with a deployment, and what to do about it. */

import { execFile } from "node:child_process";
import { generateKeyPairSync } from "node:crypto";
import { chownSync, copyFileSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createHttpServer } from "node:http";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeEach, describe, expect, test, vi } from "vitest";
import { type Findings, runCheck } from "../../../src/cli/doctor/finding.ts";
import { manualClock, storeIn } from "../../contract/ledger-records.ts";
import { forTest } from "../../harness/lifetimes.ts";
import { freePort, listenOnLoopback } from "../../harness/loopback.ts";
import { newTestKey } from "../../harness/tokens.ts";
import {
  directory,
  eachWithStore,
  erasing,
  execute,
  fileOf,
  makeRecord,
  openLedger,
  policiesOf,
  removeDatabase,
  run,
  served,
} from "./surroundings.ts";

const policies = join(import.meta.dirname, "../../../policies");

eachWithStore();
beforeEach(async () => {
  vi.stubEnv("SVC_POLICY_DIR", policiesOf("little"));
  vi.stubEnv("SVC_LEDGER_ORIGIN", "ledger.example");
  vi.stubEnv("SVC_PROOF_OF_POSSESSION", "none");
  await askIssuer(startIssuer());
});

/** Address of the server, which listens until the test ends. */
const listen = async (server: Server) => `127.0.0.1:${(await forTest(listenOnLoopback(server))).port}`;

/** An issuer whose clock differs by so much. */
async function startIssuer(offMs = 0, keys: readonly object[] = [newTestKey("ES256", "a").publicJwk]): Promise<string> {
  const server = createHttpServer(({ url }, response) => {
    response.setHeader("date", new Date(Date.now() + offMs).toUTCString());
    response.end(JSON.stringify(url === "/keys" ? { keys } : { issuer: own, jwks_uri: `${own}/keys` }));
  });
  const own = `http://${await listen(server)}`;
  return own;
}

const askIssuer = async (url: string | Promise<string>) => vi.stubEnv("SVC_OIDC_ISSUER", await url);
function askIssuers(issuers: Readonly<Record<string, object>>): void {
  vi.stubEnv("SVC_OIDC_ISSUER", undefined);
  vi.stubEnv("SVC_OIDC_ISSUERS", fileOf("issuers.json", JSON.stringify({ issuers })));
}

/** One that takes connections and says nothing. */
const startSilent = () => listen(createServer((socket) => void socket.on("error", () => {}).resume()));

const serve = (nowMs = Date.now()) => served(["alice"], manualClock(nowMs));

async function doctor(...options: string[]) {
  const { out, code } = await run("doctor", "--json", ...options);
  const { ok, version, findings } = JSON.parse(out) as {
    ok: boolean;
    version: string;
    findings: { check: string; status: string; detail: string; remedy?: string }[];
  };
  const wrong = findings.filter(({ status }) => status === "failed" || status === "warning");
  return { code, ok, version, findings, wrong };
}

test("finds nothing wrong with a correct deployment, and writes nothing", async () => {
  vi.stubEnv("SVC_POLICY_DIR", policies);
  const before = await doctor();
  expect([before.code, before.wrong]).toEqual([0, []]);
  await serve();
  const { code, ok, version, findings, wrong } = await doctor();
  expect({ code, ok, version, wrong }).toEqual({ code: 0, ok: true, version: "0.1.0", wrong: [] });
  expect(findings.map(({ check, status }) => `${check} ${status}`)).toEqual([
    "runtime ok",
    "settings ok",
    "files ok",
    "issuer ok",
    "clock ok",
    "witnesses skipped",
    "store ok",
    "policy ok",
  ]);
  expect((await run("doctor")).out).toContain("ok       store     logs: 1, leaves: 2");
});

test("a time that an operator accepted is no failure", async () => {
  await serve(Date.now() + 1_800_000);
  const found = (await doctor()).wrong;
  expect(found).toMatchObject([{ check: "clock", remedy: expect.stringContaining("`ledger clock accept`") }]);
  const accepted = await run("ledger", "clock", "accept", ...erasing, "--json");
  const log = { tenant_id: "alice", origin: expect.any(String), accepted_time: expect.any(String) };
  expect(JSON.parse(accepted.out)).toEqual({ ok: true, logs: [log] });
  expect((await doctor()).wrong).toEqual([]);
  await serve();
});

describe("reports", () => {
  /** By the finding: how it is made wrong, what is said of it, and what is to be done. */
  const cases: Readonly<Record<string, readonly [prepare: () => unknown, detail: RegExp, remedy?: RegExp]>> = {
    "failed settings: a setting that is misspelt": [() => vi.stubEnv("SVC_LISTN", "x"), /SVC_LISTN/],
    "failed settings: a list of clients that is none": [
      () => sessionRoute({ clients: "none" }),
      /^SVC_SESSION_CLIENTS: is not JSON/,
    ],
    "failed settings: a session key of a kind that is not taken": [
      () => sessionRoute({ key: generateKeyPairSync("rsa", { modulusLength: 2_048 }).privateKey }),
      /^SVC_SESSION_KEY: .*neither P-256 nor Ed25519/,
    ],
    "failed settings: malformed credentials of operators": [
      () => vi.stubEnv("SVC_OPS_CREDENTIALS", fileOf("operators", "alice")),
      /^SVC_OPS_CREDENTIALS: line 1/,
    ],
    "failed settings: authorities of the collector that cannot be read": [
      () => [
        vi.stubEnv("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector.example"),
        vi.stubEnv("OTEL_EXPORTER_OTLP_CERTIFICATE", join(directory, "missing.pem")),
      ],
      /^OTEL_EXPORTER_OTLP_CERTIFICATE: cannot be read/,
    ],
    "failed issuer: an issuer that is down": [
      async () => askIssuer(`http://127.0.0.1:${await freePort()}`),
      /cannot be fetched/,
      /^start the issuer/,
    ],
    "failed issuer: an issuer at another path": [
      async () => {
        const server = createHttpServer((_, response) => void response.writeHead(404).end());
        await askIssuer(`http://${await listen(server)}/realm`);
      },
      /cannot be fetched/,
      /^correct the path of the issuer/,
    ],
    "failed issuer: one of several issuers": [
      async () => {
        const down = { "http://127.0.0.1:1": { tenants: { fixed: "b" } } };
        askIssuers({ [await startIssuer()]: { tenants: { fixed: "a" } }, ...down });
      },
      /^http:\/\/127\.0\.0\.1:1: .*cannot be fetched/,
    ],
    "failed issuer: an issuer that is asked about tokens, and takes any": [
      async () => {
        const endpoint = `http://${await listen(createHttpServer((_, response) => void response.end('{"active":true}')))}`;
        const secret = fileOf("secret", "a secret of the test");
        const introspection = { endpoint, client_id: "svc", client_secret_file: secret };
        askIssuers({ "https://login.example": { tenants: { fixed: "a" }, introspection } });
      },
      /^https:\/\/login\.example: it calls a token active that was never issued/,
    ],
    "failed issuer: an issuer of another name": [
      async () => askIssuer(`${await startIssuer()}/`),
      /names another issuer/,
      /^set the issuer as the `issuer` member/,
    ],
    "failed issuer: an issuer without keys": [() => askIssuer(startIssuer(0, [])), /no signature keys/],
    "failed clock: a clock that is behind": [() => askIssuer(startIssuer(60_000)), /differ by 60 s|differ by 59 s/],
    "failed clock: a log that is ahead of the clock": [() => serve(Date.now() + 600_000), /the newest record is of/],
    "failed witnesses: a witness that is down": [
      () => vi.stubEnv("SVC_WITNESSES", JSON.stringify({ "w.example/w+1c25f8a4+AAAA": "http://127.0.0.1:1/" })),
      /does not answer: \w+/,
    ],
    "failed store: a store that is missing": [
      async () => void [await serve(), removeStore()],
      /is missing, and its anchor/,
    ],
    "failed store: a store in a mistyped folder": [
      async () => void [await serve(), vi.stubEnv("SVC_STORE", `sqlite:${join(directory, "typo", "platform.db")}`)],
      /^SVC_STORE: the folder .*typo is missing, and the ledger key/,
    ],
    "warning store: a new store for an older key": [
      async () => void [await serve(), removeStore(), removeAnchor()],
      /does not exist yet: the first start creates it, and the ledger key is older/,
      /^correct SVC_STORE/,
    ],
    "failed store: a folder as the key of a new store": [
      () => mkdirSync(storeIn(directory).keyPath),
      /^SVC_LEDGER_KEY: .* is a directory, not a regular file/,
    ],
    "failed store: a store that is no database": [
      async () => void [await serve(), removeStore(), writeFileSync(storeIn(directory).path, "x".repeat(4_096))],
      /^SVC_STORE: file is not a database/,
    ],
    "failed store: an anchor that is damaged": [
      async () => void [await serve(), removeAnchor(), writeFileSync(storeIn(directory).anchorPath, "x".repeat(4_096))],
      /^SVC_ANCHOR: .*the anchor cannot be used/,
    ],
    "failed store: an anchor that is lost": [async () => void [await serve(), removeAnchor()], /anchor is missing/],
    "failed store: a key that is missing": [
      async () => void [await serve(), rmSync(storeIn(directory).keyPath)],
      /SVC_LEDGER_KEY: .* is missing/,
    ],
    "failed store: a key that cannot be read": [
      async () => void [await serve(), writeFileSync(storeIn(directory).keyPath, "no key")],
      /^SVC_LEDGER_KEY: .* holds no private key/,
      /^put the right file there/,
    ],
    "failed store: another key": [
      async () => void [await serve(), rmSync(storeIn(directory).keyPath), await run("keys", "generate")],
      /does not have the key/,
    ],
    "failed store: a store that was copied to another": [
      async () => void [await serve(), execute("INSERT INTO store_copy VALUES (1, 'source', 'other', 'first', 1)")],
      /^SVC_STORE: is sealed: it was copied to the store other/,
      /^set SVC_STORE to the store that continues the logs/,
    ],
    "failed store: an older store beside a newer -wal file": [
      async () => {
        const { path } = storeIn(directory);
        await serve();
        copyFileSync(path, `${path}.older`);
        await serve();
        const ledger = await openLedger();
        await ledger.append(makeRecord("alice"));
        copyFileSync(`${path}-wal`, `${path}.log`);
        await ledger.close();
        copyFileSync(`${path}.older`, path);
        copyFileSync(`${path}.log`, `${path}-wal`);
      },
      /^SVC_STORE: .* do not belong together: the file is an older copy/,
      /^put the right file there/,
    ],
    "failed store: a store of another origin": [
      async () => void [await serve(), vi.stubEnv("SVC_LEDGER_ORIGIN", "elsewhere.example")],
      /^SVC_LEDGER_ORIGIN: is elsewhere\.example, but .* prefix ledger\.example/,
      /^set it to the prefix of the logs/,
    ],
    "failed store: a database that is down": [
      () => vi.stubEnv("SVC_STORE", "postgres://u:secret@127.0.0.1:1/d"),
      /^SVC_STORE: connect ECONNREFUSED/,
      /^start the database, or correct its port/,
    ],
    "failed policy: policies that do not parse": [
      () => vi.stubEnv("SVC_POLICY_DIR", policiesOf("policies", { "broken.cedar": "permit (" })),
      /broken\.cedar/,
    ],
    "warning settings: a variable of traces that is passed over": [
      () => vi.stubEnv("OTEL_TRACES_EXPORTER", "zipkin"),
      /^OTEL_TRACES_EXPORTER: /,
    ],
    "warning issuer: an issuer of which a key is left out": [
      async () => {
        const { publicJwk } = newTestKey("ES256", "a");
        await askIssuer(startIssuer(0, [publicJwk, { ...publicJwk, kid: "b", y: publicJwk.x }]));
      },
      /publishes 1 signature keys; keys of the issuer are left out: "b" cannot be imported/,
    ],
    "warning clock: a clock that is a little ahead": [() => askIssuer(startIssuer(-15_000)), /differ by 1[3-6] s/],
  };

  test.each(Object.entries(cases))("%s", async (name, [prepare, detail, remedy = /./]) => {
    await prepare();
    const [, status, check] = /^(\w+) (\w+): /.exec(name) ?? [];
    const { code, ok, findings, wrong } = await doctor();
    const [said, toDo] = [detail, remedy].map((words) => expect.stringMatching(words));
    expect(wrong).toContainEqual({ status, check, detail: said, remedy: toDo });
    expect([code, ok]).toEqual(status === "failed" ? [1, false] : [0, true]);
    expect(JSON.stringify(findings)).not.toContain("secret@");
  });

  test("a folder that cannot be written to", async () => {
    const closed = join(directory, "closed");
    mkdirSync(closed, { mode: 0o500 });
    vi.stubEnv("SVC_STORE", `sqlite:${join(closed, "platform.db")}`);
    // Root may write everywhere: the command runs as another user then.
    const user = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : undefined;
    if (user !== undefined) for (const path of [directory, closed]) chownSync(path, user.uid, user.gid);
    const program = join(import.meta.dirname, "../../../src/cli/cli.ts");
    const ran = promisify(execFile)(process.execPath, [program, "doctor", "--json"], { ...user, env: process.env });
    const { stdout } = await ran.catch((error: { readonly stdout: string }) => error);
    const findings: readonly { readonly status: string }[] = JSON.parse(stdout).findings;
    expect(findings.filter(({ status }) => status === "failed")).toMatchObject([{ check: "files" }]);
  });

  const sessionRoute = ({ clients = '{"clients":[]}', key = generateKeyPairSync("ed25519").privateKey }) => {
    vi.stubEnv("SVC_SESSION_CLIENTS", fileOf("clients.json", clients));
    vi.stubEnv("SVC_SESSION_KEY", fileOf("session.pem", key.export({ type: "pkcs8", format: "pem" }) as string));
  };
  const removeStore = () => removeDatabase(storeIn(directory).path);
  const removeAnchor = () => removeDatabase(storeIn(directory).anchorPath);
});

test("ends in its time, whatever does not answer", async () => {
  const silent = await startSilent();
  vi.stubEnv("SVC_STORE", `postgres://u:secret@${silent}/d`);
  await askIssuer(`http://${silent}`);
  vi.stubEnv("SVC_WITNESSES", JSON.stringify({ "w.example/w+1c25f8a4+AAAA": `http://${silent}/` }));
  const { code, wrong } = await doctor("--timeout", "1");
  expect(code).toBe(1);
  expect(wrong.map(({ check }) => check)).toEqual(["issuer", "witnesses", "store"]);
  for (const { remedy } of wrong) expect(remedy).toBeDefined();
});

test("a check that does not end in time says what it has found", async () => {
  const look = (found: Findings) => {
    found.warning("one thing", "a remedy");
    return new Promise<never>(() => {});
  };
  const found = await runCheck("slow", { look, remedy: "wait" }, () => undefined as never, AbortSignal.abort());
  expect(found.map(({ detail }) => detail)).toEqual(["one thing", "no answer in time"]);
});

test.each(["0", "301", "1.5", "x", "-1"])("--timeout %s is refused", async (timeout) => {
  expect((await run("doctor", `--timeout=${timeout}`)).err).toContain("must be 1 to 300 seconds");
});
