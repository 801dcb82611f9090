/** Certificates, keys and client authorities that are replaced while the service runs. */
import { X509Certificate } from "node:crypto";
import { once } from "node:events";
import { chmodSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import https from "node:https";
import { join } from "node:path";
import tls from "node:tls";
import { beforeEach, describe, expect, onTestFinished, test } from "vitest";
import { defaultClient } from "../../dev/issuer.ts";
import { createAuthority, type IssuedCertificate } from "../harness/certificates.ts";
import { folderForFile, replaceFile } from "../harness/folder.ts";
import { gatewayForFile } from "../harness/gateway.ts";
import { h1Request } from "../harness/h1.ts";
import { h2Connect } from "../harness/h2.ts";
import { forTest } from "../harness/lifetimes.ts";
import { shakeHands, startLoad, type TlsIdentity, tlsFetch, whoamiBy, whoamiOn } from "../harness/tls-callers.ts";

const folder = folderForFile("certificates");
const servers = await createAuthority(folder, "servers");
const callers = await createAuthority(folder, "callers");
const partners = await createAuthority(folder, "partners");
const payroll = await callers.issue("payroll");
const partner = await partners.issue("partner");
const serverNamed = (name: string) => servers.issue(name, undefined, "IP:127.0.0.1");
const first = await serverNamed("first");
/** What the service's clock is ahead by. */
let aheadMs = 0;
const daysMs = (days: number) => days * 86_400_000;
const identities = {
  payroll: { ca: servers.cert, cert: payroll.cert, key: payroll.key },
  partner: { ca: servers.cert, cert: partner.cert, key: partner.key },
} satisfies Record<string, TlsIdentity>;

const tokens = { payroll: "", partner: "" };
const paths = { cert: "", key: "", ca: "", opsCert: "", opsKey: "", operators: "" };

const putServer = ({ cert, key }: IssuedCertificate) => {
  replaceFile(paths.cert, cert);
  replaceFile(paths.key, key);
};
/** Puts good files in the place of all three. */
const restore = async (server: IssuedCertificate) => {
  for (const path of [paths.cert, paths.key, paths.ca]) rmSync(path, { recursive: true, force: true });
  putServer(server);
  replaceFile(paths.ca, callers.cert + partners.cert);
  await gateway.app.reload();
};
const shownNow = async (url = gateway.url) => (await shakeHands(url, identities.payroll)).thumbprint;
const reloads = async (what: string) => {
  const text = await (await fetchOps("/metrics")).text();
  const of = (name: string) => Number(new RegExp(`^${name} (\\S+)$`, "m").exec(text)?.[1]);
  return {
    taken: of(`svc_reloads_total\\{what="${what}",outcome="taken"\\}`),
    refused: of(`svc_reloads_total\\{what="${what}",outcome="refused"\\}`),
    stale: of(`svc_reload_stale\\{what="${what}"\\}`),
  };
};

/** Over the TLS of the operator listener. */
const fetchOps = (path: string, headers: Record<string, string> = {}) =>
  tlsFetch(gateway.opsUrl + path, { ca: servers.cert, agent: false, headers });

for (const name of ["cert", "key", "ca", "opsCert", "opsKey", "operators"] as const)
  paths[name] = join(folder, `${name}.pem`);
putServer(first);
replaceFile(paths.ca, callers.cert + partners.cert);
replaceFile(paths.opsCert, first.cert);
replaceFile(paths.opsKey, first.key);
replaceFile(paths.operators, "");
let bound = payroll;
const client = { ...defaultClient(), certificateBound: true };
const clients = ["payroll", "partner"].map((name) => ({ ...client, clientId: name, principalId: name }));
const gateway = await gatewayForFile({
  overrides: { clock: { now: () => Date.now() + aheadMs } },
  issuer: { clients, certificateOf: () => new X509Certificate(bound.cert) },
  env: {
    SVC_PROOF_OF_POSSESSION: "mtls",
    SVC_TLS_CERT: paths.cert,
    SVC_TLS_KEY: paths.key,
    SVC_TLS_CLIENT_CA: paths.ca,
    SVC_OPS_TLS_CERT: paths.opsCert,
    SVC_OPS_TLS_KEY: paths.opsKey,
    SVC_OPS_CREDENTIALS: paths.operators,
  },
});
tokens.payroll = await gateway.token({ clientId: "payroll" });
bound = partner;
tokens.partner = await gateway.token({ clientId: "partner" });

test("no call fails while the certificate is replaced, and new connections get the new one", async () => {
  const second = await serverNamed("second");
  const before = await reloads("tls");
  const load = await forTest(startLoad(gateway.url, identities.payroll, tokens.payroll));
  const hasAll = () => [...load.outcomes.keys()].length === 4;
  await expect.poll(hasAll).toBe(true);
  // One after the other, written in pieces: nothing fits for a moment.
  writeFileSync(paths.cert, second.cert.slice(0, 200));
  writeFileSync(paths.cert, second.cert);
  replaceFile(paths.key, second.key);
  await expect.poll(() => shownNow()).toBe(second.thumbprint);
  const counted = Object.fromEntries(load.outcomes);
  const hasMore = () => Object.entries(counted).every(([name, count]) => (load.outcomes.get(name) ?? 0) > count);
  await expect.poll(hasMore).toBe(true);
  await load.stop();
  expect([...load.outcomes.keys()].sort()).toEqual(
    ["HTTP/1.1 kept", "HTTP/1.1 new", "HTTP/2 kept", "HTTP/2 new"].map((name) => `${name}: status 200`),
  );
  await expect.poll(async () => (await reloads("tls")).taken).toBe(before.taken + 1);
  expect(await reloads("tls")).toMatchObject({ refused: before.refused, stale: 0 });
  const line = gateway.logged.find((text) => text.includes("changed files are in force")) ?? "{}";
  const { settings, what, certificate_sha256, not_after } = JSON.parse(line);
  const { fingerprint256, validToDate } = new X509Certificate(second.cert);
  expect({ settings, what, certificate_sha256, not_after }).toEqual({
    settings: ["SVC_TLS_CERT", "SVC_TLS_KEY", "SVC_TLS_CLIENT_CA"],
    what: "tls",
    certificate_sha256: fingerprint256,
    not_after: validToDate.toISOString(),
  });
});

const other = await serverNamed("other");

test("a connection cannot renegotiate, and so change its client's certificate", async () => {
  const { hostname, port } = new URL(gateway.url);
  const socket = tls.connect({ host: hostname, port: Number(port), ...identities.payroll, maxVersion: "TLSv1.2" });
  await once(socket, "secureConnect");
  const outcome = new Promise((resolve) => {
    socket.once("error", resolve);
    socket.renegotiate({}, (error) => resolve(error ?? "renegotiated"));
  });
  expect(await outcome).toMatchObject({ code: "ERR_SSL_NO_RENEGOTIATION" });
  socket.destroy();
});

describe("a bad certificate file changes nothing, and is logged", () => {
  let good: IssuedCertificate;
  beforeEach(async () => {
    good = await serverNamed("good");
    await restore(good);
    expect(await shownNow()).toBe(good.thumbprint);
  });

  const putOtherAt = (days: number) => {
    putServer(other);
    aheadMs = daysMs(days);
  };
  test.each<[string, () => void, string]>([
    ["a key of another", () => replaceFile(paths.key, other.key), "SVC_TLS_KEY: is not the key of SVC_TLS_CERT"],
    [
      // OpenSSL trusts it, and its end would go undetected.
      "an authority in an unknown form",
      () => replaceFile(paths.ca, callers.cert + partners.cert.replaceAll(" CERTIFICATE", " TRUSTED CERTIFICATE")),
      "SVC_TLS_CLIENT_CA: holds a certificate that",
    ],
    [
      "an authority that is half commented out",
      () => replaceFile(paths.ca, `${callers.cert}# ${partners.cert}`),
      "SVC_TLS_CLIENT_CA: holds a certificate that",
    ],
    ["a key that anyone may write", () => chmodSync(paths.key, 0o602), "SVC_TLS_KEY: is a file of mode 0602"],
    ["a file that is gone", () => rmSync(paths.key), "ENOENT"],
    [
      "a directory",
      () => {
        rmSync(paths.cert);
        mkdirSync(paths.cert);
      },
      "is not a regular file",
    ],
    ["a certificate that expired", () => putOtherAt(2), "the certificate expired on"],
    ["a certificate of tomorrow", () => putOtherAt(-2), "the certificate is not valid before"],
  ])("%s", async (_name, spoil, problem) => {
    const before = await reloads("tls");
    const lines = gateway.logged.length;
    spoil();
    await gateway.app.reload();
    aheadMs = 0;
    expect(await shownNow()).toBe(good.thumbprint);
    expect(await reloads("tls")).toEqual({ taken: before.taken, refused: before.refused + 1, stale: 1 });
    const said = gateway.logged.slice(lines).filter((line) => line.includes("changed files are refused"));
    expect(said.map((line) => JSON.parse(line))).toEqual(
      expect.arrayContaining([
        expect.objectContaining({ level: "error", what: "tls", problem: expect.stringContaining(problem) }),
      ]),
    );
    expect(said.join("")).not.toContain("PRIVATE");
    const agent = new https.Agent({ ...identities.partner });
    expect(await whoamiBy(agent, gateway.url, tokens.partner)).toBe("status 200");
  });
});

describe("a removed client authority", () => {
  beforeEach(() => restore(first));
  const remove = async () => {
    replaceFile(paths.ca, callers.cert);
    await gateway.app.reload();
  };
  const kept = (identity: TlsIdentity) => {
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1, ...identity });
    onTestFinished(() => agent.destroy());
    return agent;
  };
  const connected = (identity: TlsIdentity) => h2Connect(gateway.url, { ...identity });

  test("ends its own connections only", async () => {
    const agents = { payroll: kept(identities.payroll), partner: kept(identities.partner) };
    const sessions = { payroll: await connected(identities.payroll), partner: await connected(identities.partner) };
    const ended = Promise.all([
      new Promise((resolve) => sessions.partner.once("close", resolve)),
      new Promise((resolve) => agents.partner.once("free", (socket) => socket.once("close", resolve))),
    ]);
    let others = 0;
    sessions.payroll.once("close", () => others++);
    agents.payroll.once("free", (socket) => socket.once("close", () => others++));
    for (const name of ["payroll", "partner"] as const) {
      expect(await whoamiBy(agents[name], gateway.url, tokens[name])).toBe("status 200");
      expect(await whoamiOn(sessions[name], tokens[name])).toBe("status 200");
    }
    await remove();
    await ended;
    expect(await whoamiBy(agents.payroll, gateway.url, tokens.payroll)).toBe("status 200");
    expect(await whoamiOn(sessions.payroll, tokens.payroll)).toBe("status 200");
    expect(others).toBe(0);
    expect(await whoamiOn(await connected(identities.partner), tokens.partner)).toBe("proof_of_possession_failed");
    replaceFile(paths.ca, callers.cert + partners.cert);
    await gateway.app.reload();
    expect(await whoamiOn(await connected(identities.partner), tokens.partner)).toBe("status 200");
  });

  test("lets a running call finish, and accepts no other on its connection", async () => {
    const body = JSON.stringify({
      operation: "protect",
      workload: { application: "payroll-export" },
      resource: { kind: "customer-record" },
    });
    const headers = { authorization: `Bearer ${tokens.partner}`, "content-type": "application/json" };
    const { hostname, port } = new URL(gateway.url);
    const socket = tls.connect({ host: hostname, port: Number(port), ...identities.partner });
    onTestFinished(() => void socket.destroy());
    const received: Buffer[] = [];
    const closed = new Promise((resolve) => socket.once("close", resolve));
    socket.on("data", (chunk: Buffer) => received.push(chunk)).on("error", () => {});
    const text = () => Buffer.concat(received).toString();
    const lines = Object.entries(headers).map(([name, value]) => `${name}: ${value}`);
    // The gate has passed when it asks for the body (RFC 9110 §10.1.1).
    const expecting = [`Content-Length: ${body.length}`, "Expect: 100-continue"];
    socket.write(h1Request("POST /v1/sdk/protection-plan", [...lines, ...expecting]));
    const session = await connected(identities.partner);
    const stream = session.request(
      { ":method": "POST", ":path": "/v1/sdk/protection-plan", ...headers, expect: "100-continue" },
      { endStream: false },
    );
    const answer = once(stream.resume(), "response");
    await once(stream, "continue");
    await expect.poll(text).toContain("100 Continue");
    const idle = kept(identities.partner);
    const idleEnded = new Promise((resolve) => idle.once("free", (free) => free.once("close", resolve)));
    expect(await whoamiBy(idle, gateway.url, tokens.partner)).toBe("status 200");
    await remove();
    // By then it has been looked at who is idle.
    await idleEnded;
    const late = whoamiOn(session, tokens.partner).catch(() => "no answer");
    socket.write(body);
    stream.end(body);
    expect((await answer)[0]).toMatchObject({ ":status": 200 });
    await closed;
    expect(text()).toMatch(/HTTP\/1\.1 200 OK[\s\S]*connection: close/i);
    expect(await late).not.toBe("status 200");
    expect(session.closed).toBe(true);
  });

  test.each(["TLSv1.2", "TLSv1.3"] as const)("is not revived by a session of %s", async (version) => {
    const options = { minVersion: version, maxVersion: version } as const;
    const resume = async (identity: TlsIdentity) => {
      const { session } = await shakeHands(gateway.url, identity, options);
      return { ...options, ...(session !== undefined && { session }) };
    };
    const saved = { partner: await resume(identities.partner), payroll: await resume(identities.payroll) };
    expect(await shakeHands(gateway.url, identities.partner, saved.partner)).toMatchObject({ isResumed: true });
    await remove();
    for (const name of ["partner", "payroll"] as const) {
      const { isResumed } = await shakeHands(gateway.url, identities[name], saved[name]);
      expect(isResumed, name).toBe(false);
      const agent = new https.Agent({ ...identities[name], ...saved[name] });
      const outcome = await whoamiBy(agent, gateway.url, tokens[name]);
      expect(outcome).toBe(name === "payroll" ? "status 200" : "proof_of_possession_failed");
    }
  });
});

describe("the operator listener", () => {
  test("reloads its own certificate too", async () => {
    const own = await serverNamed("operators");
    const before = await reloads("ops_tls");
    const since = async () => {
      const { taken, refused, stale } = await reloads("ops_tls");
      return { taken: taken - before.taken, refused: refused - before.refused, stale };
    };
    replaceFile(paths.opsCert, own.cert);
    replaceFile(paths.opsKey, own.key);
    await expect.poll(() => shownNow(gateway.opsUrl)).toBe(own.thumbprint);
    replaceFile(paths.opsKey, first.key);
    await gateway.app.reload();
    expect(await shownNow(gateway.opsUrl)).toBe(own.thumbprint);
    expect(await since()).toEqual({ taken: 1, refused: 1, stale: 1 });
    replaceFile(paths.opsKey, own.key);
    await gateway.app.reload();
    expect(await since()).toEqual({ taken: 1, refused: 1, stale: 0 });
  });

  test("reloads the file of credentials for the logs, and refuses one that other users may read", async () => {
    const { hashOpsToken, formatOpsCredentials } = await import("../../src/credentials/ops-credentials.ts");
    const operator = formatOpsCredentials([{ name: "olga", hash: hashOpsToken("t".repeat(43)) }]);
    const status = async () =>
      (await fetchOps(`/ledger/${"0".repeat(32)}/checkpoint`, { authorization: `Bearer ${"t".repeat(43)}` })).status;
    expect(await status()).toBe(401);
    replaceFile(paths.operators, operator, 0o644);
    await gateway.app.reload();
    expect(await status()).toBe(401);
    replaceFile(paths.operators, operator);
    await gateway.app.reload();
    expect(await status()).toBe(404);
    expect(await reloads("ops_credentials")).toEqual({ taken: 1, refused: 1, stale: 0 });
  });
});
