/** An issuer that knows the service by its certificate (RFC 8705 §2.1), and is asked about opaque tokens. */
import { mkdtemp, rm } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { getCACertificates, setDefaultCACertificates, TLSSocket } from "node:tls";
import { afterEach, beforeEach, expect, test } from "vitest";
import { parseTenantId } from "../../src/base/ids.ts";
import { createAuthority } from "../harness/certificates.ts";
import { issuerEntry, sendJson } from "../harness/issuer.ts";
import { claimsOf } from "../harness/tokens.ts";
import { authenticatorOf, bearer, manualTime, patient, refusalOf, type World } from "../unit/auth/world.ts";
import { must } from "../unit/domain/world.ts";

const issuer = "https://login.umbrella.example";
const known = getCACertificates("default");
let folder: string;
let endpoint: string;
let asked: { readonly subject: string | undefined; readonly form: URLSearchParams; readonly authorization: unknown }[];
let answer: (response: ServerResponse) => void;
let world: World;
let stop: () => Promise<void>;

const good = (more = {}) => ({ active: true, ...claimsOf(issuer, Date.now(), { tenant_id: "umbrella" }), ...more });

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-introspection-"));
  const authority = await createAuthority(folder, "authority");
  const client = await authority.issue("client", "/CN=svc");
  const own = await authority.issue("server", "/CN=issuer", "IP:127.0.0.1");
  asked = [];
  answer = (response) => sendJson(response, good());
  const options = { cert: own.cert, key: own.key, ca: authority.cert, requestCert: true, rejectUnauthorized: false };
  const server = createServer(options, async (request, response) => {
    const { socket, headers } = request;
    const subject = socket instanceof TLSSocket ? socket.getPeerX509Certificate()?.subject : undefined;
    const form = new URLSearchParams(await text(request));
    asked.push({ subject, form, authorization: headers.authorization });
    answer(response);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  endpoint = `https://127.0.0.1:${(server.address() as AddressInfo).port}/introspect`;
  stop = () => {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    return closed;
  };
  setDefaultCACertificates([authority.cert]);
  const credentials = { kind: "certificate", certificateFile: client.certFile, keyFile: client.keyFile } as const;
  const entry = issuerEntry(issuer, {
    tenants: { kind: "fixed", tenantId: must(parseTenantId("umbrella")) },
    introspection: { endpoint, clientId: "svc", credentials, tokenPrefix: "" },
  });
  world = authenticatorOf(issuer, manualTime(Date.now()), { issuers: [entry] });
});
afterEach(async () => {
  setDefaultCACertificates(known);
  await stop();
  await rm(folder, { recursive: true });
});

const reasonOf = async () => (await refusalOf(world.authenticate(bearer("opaque-1"), patient))).reason;

test("the service shows it, and names itself in the form", async () => {
  expect((await world.authenticate(bearer("opaque-1"), patient)).tenantId).toBe("umbrella");
  expect(asked.map(({ subject, authorization }) => [subject, authorization])).toEqual([["CN=svc", undefined]]);
  expect(asked[0]?.form.get("client_id")).toBe("svc");
});

test.each<[string, (response: ServerResponse) => void]>([
  ["fails", (response) => void response.writeHead(500).end()],
  ["sends it elsewhere", (response) => void response.writeHead(307, { location: endpoint }).end()],
  ["says too much", (response) => sendJson(response, good({ more: "x".repeat(70_000) }))],
  ["hangs up in the middle", (response) => void response.writeHead(200).write("{", () => response.destroy())],
])("callers get 503 where the issuer %s", async (_name, bad) => {
  answer = bad;
  expect(await reasonOf()).toBe("issuer_unavailable");
  expect(asked).toHaveLength(1);
});

test("nothing is shown to an issuer whose own certificate is not to be trusted", async () => {
  setDefaultCACertificates(known);
  expect(await reasonOf()).toBe("issuer_unavailable");
  expect(asked).toEqual([]);
});
