/** The life of the process: what it starts with, what it refuses to start with, and how it ends. */
import { once } from "node:events";
import { chmodSync, copyFileSync, mkdtempSync, symlinkSync, writeFileSync } from "node:fs";
import net from "node:net";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import tls from "node:tls";
import { toBinary } from "@bufbuild/protobuf";
import { beforeEach, describe, expect, test } from "vitest";
import { sampleCalls } from "../../dev/requests.ts";
import { folderForFile } from "../harness/folder.ts";
import { frame, refusalInTrailers } from "../harness/grpc.ts";
import { h1Connect, h1Request, refusesConnections } from "../harness/h1.ts";
import { h2Call, h2Connect } from "../harness/h2.ts";
import { issuerForFile } from "../harness/issuer-for-file.ts";
import { forTest } from "../harness/lifetimes.ts";
import { listenOnLoopback } from "../harness/loopback.ts";
import { methodOn, requestFromRest } from "../harness/methods.ts";
import { serviceSettings, spawnService, startService } from "../harness/process.ts";

const whoami = methodOn("/v1/sdk/whoami");
const evidence = methodOn("/v1/sdk/evidence");
const evidenceBody = sampleCalls().find(({ route }) => route === evidence.restPath)?.body;
const folder = folderForFile("life");
let directory: string;
let settings: Record<string, string>;

const issuer = await issuerForFile();
beforeEach(() => {
  directory = mkdtempSync(join(folder, "test-"));
  settings = serviceSettings(directory, issuer.url);
});

const start = (more: Readonly<Record<string, string>> = {}) =>
  forTest(startService(directory, { ...settings, ...more }));
const spawn = (environment: Readonly<Record<string, string>>, program?: string) =>
  forTest(spawnService(directory, environment, program));

const token = () => issuer.token({ scope: "platform-api.access policy.read evidence.write" });

describe("starting", () => {
  test("is refused with wrong, weak or unknown settings, all named at once, and no value repeated", async () => {
    const service = await spawn({
      ...settings,
      SVC_LISTEN: "0.0.0.0:0",
      SVC_OIDC_ISSUER: "http://issuer.example/secret-value",
      SVC_LOG_LEVEL: "secret-value",
      SVC_STORE_TIMEOUT_MS: "0",
      SVC_LISTN: "secret-value",
      SVC_TLS_KEY: "/nowhere/secret-value",
    });
    expect(await service.ended).toEqual({ code: 1, signal: null });
    const said = service.errors();
    for (const name of ["LISTEN", "OIDC_ISSUER", "LOG_LEVEL", "STORE_TIMEOUT_MS", "LISTN", "TLS_KEY"])
      expect(said).toMatch(new RegExp(`SVC_${name}: `));
    expect(said).not.toContain("secret-value");
  });

  test("the development stack reports a port in use in one line", async () => {
    const { port } = await forTest(listenOnLoopback(net.createServer()));
    const ports = { PORT: `${port}`, OPS_PORT: "0", ISSUER_PORT: "0" };
    const refused = await spawn(ports, "dev/dev.ts");
    expect(await refused.ended).toMatchObject({ code: 1 });
    expect(refused.errors()).toBe(`port ${port} is taken: stop what has it, or say PORT=<another> npm run dev\n`);
  });

  test("the development stack serves bulk calls as SVC_BULK says", async () => {
    const stack = await spawn({ PORT: "0", OPS_PORT: "0", ISSUER_PORT: "0", SVC_BULK: "on" }, "dev/dev.ts");
    const [, url] = (await stack.line("service    ")).split(/ +/);
    expect((await fetch(`${url}/openapi-bulk.json`)).status).toBe(200);
  });

  test.each<[string, string, (file: string) => string, RegExp]>([
    ["SVC_LEDGER_KEY", "a directory", () => directory, /is a directory, not a regular file/],
    ["SVC_LEDGER_KEY", "a file of something else", (file) => file, /holds no private key/],
    ["SVC_STORE", "a file of something else", (file) => `sqlite:${file}`, /not a database/],
    ["SVC_STORE", "a database that is not there", () => "postgres://u:hunter2@127.0.0.1:1/d", /ECONNREFUSED/],
    ["SVC_LEDGER_KEY", "a file that cannot be made", () => join(nowhere(), "key"), /key cannot be made \(ENOENT\)/],
    ["SVC_ANCHOR", "a file that cannot be made", () => join(nowhere(), "anchor"), /the anchor cannot be used: ENOENT/],
    ["SVC_ANCHOR", "a file of something else", (file) => file, /the anchor cannot be used: file is not a database/],
  ])("is refused, with %s named, if that is %s", async (name, _, value, message) => {
    const file = join(directory, "note.txt");
    writeFileSync(file, "neither key nor database\n".repeat(50), { mode: 0o600 });
    const service = await spawn({ ...settings, [name]: value(file) });
    expect(await service.ended).toEqual({ code: 1, signal: null });
    const said = service.errors();
    expect(said).toMatch(new RegExp(`^${name}: `, "m"));
    expect(said).toMatch(message);
    expect(said).not.toMatch(/ {4}at |hunter2/);
  });

  test("a reload by SIGHUP does not end a service that has not started yet", async () => {
    const database = net.createServer((socket) => {
      service.child.kill("SIGHUP");
      socket.destroy();
    });
    const { port } = await forTest(listenOnLoopback(database));
    const service = await spawn({ ...settings, SVC_STORE: `postgres://u@127.0.0.1:${port}/d` });
    expect(await service.ended).toEqual({ code: 1, signal: null });
    expect(service.errors()).toMatch(/^SVC_STORE: /m);
  });

  test.each(["SVC_LISTEN", "SVC_OPS_LISTEN"])("is refused if the address of %s is in use", async (name) => {
    const { port } = await forTest(listenOnLoopback(net.createServer()));
    const service = await spawn({ ...settings, [name]: `127.0.0.1:${port}` });
    expect(await service.ended).toEqual({ code: 1, signal: null });
    expect(service.errors()).toBe(`${name}: listen EADDRINUSE: address already in use 127.0.0.1:${port}\n`);
    expect(service.lines.join("\n")).not.toContain("policy_changed");
  });
});

/** A folder that is a link to nothing. */
const nowhere = () => {
  const link = join(directory, "link");
  symlinkSync(join(directory, "nothing"), link);
  return link;
};

/** Less than the time of a connection that says nothing: a service that waits for one exits with another code. */
const littleGrace = { SVC_SHUTDOWN_GRACE_MS: "4000" };

describe("stopping", () => {
  test.each(["SIGTERM", "SIGINT"] as const)("%s of an idle service with open connections is clean", async (signal) => {
    const service = await start(littleGrace);
    const h1 = await h1Connect(service.url);
    h1.write(h1Request(`GET ${whoami.restPath}`, []));
    expect(await h1.next()).toMatchObject({ status: 401 });
    const silent = await h1Connect(service.url);
    const halfway = await h1Connect(service.url);
    halfway.write("GET /v1/sdk/whoami HTTP/1.1\r\nHost");
    const h2 = await h2Connect(service.url);
    service.child.kill(signal);
    expect(await service.ended).toEqual({ code: 0, signal: null });
    await Promise.all([h1.closed, silent.closed, halfway.closed]);
    expect(h2.destroyed || h2.closed).toBe(true);
  });

  test("SIGTERM during calls lets them finish on both kinds of connection, and accepts no more", async () => {
    const service = await start();
    const h2 = await h2Connect(service.url);
    // Both calls are past the gate and wait for their bodies.
    const body = JSON.stringify(evidenceBody);
    const h1 = await waitingCall(service.url, { bodyBytes: body.length });
    const stream = h2.request({
      ":method": "POST",
      ":path": evidence.rpcPath,
      "content-type": "application/grpc",
      authorization: `Bearer ${token()}`,
      expect: "100-continue",
    });
    await once(stream, "continue");
    service.child.kill("SIGTERM");
    await service.line('"message":"stopping"');
    await expect.poll(() => refusesConnections(service.url)).toBe(true);
    const trailers = once(stream, "trailers");
    stream.end(frame(toBinary(evidence.desc.input, requestFromRest(evidence, evidenceBody)))).resume();
    h1.write(body);
    expect(await h1.next()).toMatchObject({ status: 200 });
    expect(refusalInTrailers((await trailers)[0])).toBeUndefined();
    expect(await service.ended).toEqual({ code: 0, signal: null });
    await h1.closed;
    const database = new DatabaseSync(join(directory, "platform.db"), { readOnly: true });
    // Genesis and the two events.
    expect(database.prepare("SELECT count(*) AS n FROM entries").get()).toEqual({ n: 3 });
    database.close();
  });

  test("calls that exceed the grace period are cut off, and the exit code says so", async () => {
    const service = await start({ SVC_SHUTDOWN_GRACE_MS: "100" });
    const h1 = await waitingCall(service.url);
    service.child.kill("SIGTERM");
    expect(await service.ended).toEqual({ code: 1, signal: null });
    expect(await h1.next()).toBeUndefined();
  });

  test.each(["SIGTERM", "SIGINT"] as const)("after SIGTERM, %s ends the process at once", async (signal) => {
    const service = await start();
    await waitingCall(service.url);
    service.child.kill("SIGTERM");
    await service.line('"message":"stopping"');
    service.child.kill(signal);
    expect(await service.ended).toEqual({ code: null, signal });
  });

  test("after SIGTERM, SIGINT ends the development stack at once", async () => {
    const stack = await spawn({ PORT: "0", OPS_PORT: "0", ISSUER_PORT: "0" }, "dev/dev.ts");
    const [, url = ""] = (await stack.line("service    ")).split(/ +/);
    const [, credentials = "", endpoint = ""] = / -u (\S+) (\S+)/.exec(await stack.line("TOKEN=$(curl")) ?? [];
    const authorization = `Basic ${btoa(credentials)}`;
    const body = new URLSearchParams({ grant_type: "client_credentials", scope: "platform-api.access evidence.write" });
    const answer = await fetch(endpoint, { method: "POST", headers: { authorization }, body });
    const { access_token } = (await answer.json()) as { access_token: string };
    await waitingCall(url, { bearer: access_token });
    stack.child.kill("SIGTERM");
    await expect.poll(() => refusesConnections(url)).toBe(true);
    stack.child.kill("SIGINT");
    expect(await stack.ended).toEqual({ code: null, signal: "SIGINT" });
  });
});

/** A call that is past the gate: the service has asked for its body. */
async function waitingCall(url: string, { bearer = token(), bodyBytes = 9 } = {}) {
  const connection = await h1Connect(url);
  const headers = [`Authorization: Bearer ${bearer}`, "Content-Type: application/json", "Expect: 100-continue"];
  connection.write(h1Request(`POST ${evidence.restPath}`, [...headers, `Content-Length: ${bodyBytes}`]));
  expect(await connection.next()).toMatchObject({ status: 100 });
  return connection;
}

describe("over TLS", () => {
  const fixtures = join(import.meta.dirname, "../unit/config/fixtures");
  const tlsSettings = () => ({
    SVC_TLS_CERT: join(fixtures, "server.crt.pem"),
    SVC_TLS_KEY: ownKey(0o600),
  });
  /** A checkout gives its files the mode that it likes; a key's is looked at. */
  const ownKey = (mode: number) => {
    const path = join(directory, "server.key.pem");
    copyFileSync(join(fixtures, "server.key.pem"), path);
    chmodSync(path, mode);
    return path;
  };
  // The certificate is made for tests; what is tested is the protocol that it is presented for.
  const insecure = { rejectUnauthorized: false };

  test("is refused if any user may write the key, and logs a warning if others may read it", async () => {
    const service = await spawn({ ...settings, ...tlsSettings(), SVC_TLS_KEY: ownKey(0o602) });
    expect(await service.ended).toEqual({ code: 1, signal: null });
    expect(service.errors()).toMatch(/^SVC_TLS_KEY: is a file of mode 0602/);
    const readable = await start({ ...tlsSettings(), SVC_TLS_KEY: ownKey(0o644) });
    expect(await readable.line("SVC_TLS_KEY: is a file of mode 0644")).toContain('"level":"warn"');
  });

  test("one port speaks HTTP/2 and HTTP/1.1 by ALPN, and HTTP/1.1 without it", async () => {
    const service = await start({ ...tlsSettings(), ...littleGrace });
    const { hostname, port } = new URL(service.url);
    expect(service.url).toMatch(/^https:/);
    const h2 = await h2Connect(service.url, insecure);
    expect(h2.alpnProtocol).toBe("h2");
    const headers = { "content-type": "application/grpc", authorization: `Bearer ${token()}` };
    const answer = await h2Call(h2, { path: whoami.rpcPath, headers, body: frame(Buffer.alloc(0)) });
    expect(answer.trailers["grpc-status"]).toBe("0");
    for (const protocols of [["http/1.1"], undefined]) {
      const socket = tls.connect({
        host: hostname,
        port: Number(port),
        ...insecure,
        ...(protocols !== undefined && { ALPNProtocols: protocols }),
      });
      await once(socket, "secureConnect");
      expect(socket.alpnProtocol).toBe(protocols === undefined ? false : "http/1.1");
      socket.write(h1Request(`GET ${whoami.restPath}`, [`Authorization: Bearer ${token()}`]));
      const [first] = await once(socket, "data");
      expect(first.toString("latin1")).toMatch(/^HTTP\/1\.1 200 /);
    }
    // One that never says anything, and one that says nothing after the handshake, hold nothing up either.
    const silent = await h1Connect(service.url);
    const shaken = tls.connect({ host: hostname, port: Number(port), ...insecure });
    await once(shaken, "secureConnect");
    service.child.kill("SIGTERM");
    expect(await service.ended).toEqual({ code: 0, signal: null });
    await silent.closed;
  });

  test("an unknown protocol, an old version and plain text are refused, and other connections go on", async () => {
    const service = await start(tlsSettings());
    const { hostname, port } = new URL(service.url);
    const attempt = (options: tls.ConnectionOptions) => {
      const socket = tls.connect({ host: hostname, port: Number(port), ...insecure, ...options });
      const connected = once(socket, "secureConnect").finally(() => socket.destroy());
      return connected.then(
        () => "connected",
        () => "refused",
      );
    };
    expect(await attempt({ ALPNProtocols: ["spdy/3"] })).toBe("refused");
    expect(await attempt({ minVersion: "TLSv1", maxVersion: "TLSv1.1", ciphers: "DEFAULT@SECLEVEL=0" })).toBe(
      "refused",
    );
    const plain = await h1Connect(service.url.replace("https", "http"));
    plain.write(h1Request(`GET ${whoami.restPath}`, []));
    await plain.closed;
    expect(await attempt({ ALPNProtocols: ["h2"] })).toBe("connected");
  });
});
