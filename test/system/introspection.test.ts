/** An issuer that knows the service by its certificate (RFC 8705 §2.1), and is asked about opaque tokens. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { TLSSocket } from "node:tls";
import { afterEach, beforeEach, expect, test } from "vitest";
import { parseTenantId } from "../../src/base/ids.ts";
import { createAuthority } from "../harness/certificates.ts";
import { issuerEntry, sendJson } from "../harness/issuer.ts";
import { claimsOf } from "../harness/tokens.ts";
import { authenticatorOf, bearer, manualTime, patient, refusalOf, type World } from "../unit/auth/world.ts";
import { must } from "../unit/domain/world.ts";

const issuer = "https://login.umbrella.example";
let folder: string;
let endpoint: string;
let asked: { readonly subject: string | undefined; readonly form: URLSearchParams; readonly authorization: unknown }[];
let answer: (response: ServerResponse) => void;
let world: World;
let open: (authoritiesFile: string | undefined) => void;
let stop: () => Promise<void>;
let authorityPem: string;

const good = (more = {}) => ({ active: true, ...claimsOf(issuer, Date.now(), { tenant_id: "umbrella" }), ...more });

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "svc-introspection-"));
  const authority = await createAuthority(folder, "authority");
  authorityPem = authority.cert;
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
  const credentials = { kind: "certificate", certificateFile: client.certFile, keyFile: client.keyFile } as const;
  const entry = issuerEntry(issuer, {
    tenants: { kind: "fixed", tenantId: must(parseTenantId("umbrella")) },
    introspection: { endpoint, clientId: "svc", credentials, tokenPrefix: "" },
  });
  open = (authoritiesFile) => {
    world = authenticatorOf(issuer, manualTime(Date.now()), { issuers: [entry], authoritiesFile });
  };
  open(authority.certFile);
});
afterEach(async () => {
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

test("sends nothing to an issuer whose certificate comes from no authority of the system", async () => {
  open(undefined);
  expect(await reasonOf()).toBe("issuer_unavailable");
  expect(asked).toEqual([]);
});

test("sends nothing to an issuer whose certificate comes from another authority", async () => {
  open((await createAuthority(folder, "other")).certFile);
  expect(await reasonOf()).toBe("issuer_unavailable");
  expect(asked).toEqual([]);
});

test("reads the authorities for each request, so that the file can be replaced", async () => {
  const file = join(folder, "authorities.pem");
  open(file);
  await writeFile(file, (await createAuthority(folder, "other")).cert);
  expect(await reasonOf()).toBe("issuer_unavailable");
  await writeFile(file, authorityPem);
  expect((await world.authenticate(bearer("opaque-1"), patient)).tenantId).toBe("umbrella");
});
