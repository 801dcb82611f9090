/** An issuer that knows the service by its certificate (RFC 8705 §2.1), and is asked about opaque tokens. */
import { writeFileSync } from "node:fs";
import type { ServerResponse } from "node:http";
import { createServer } from "node:https";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { TLSSocket } from "node:tls";
import { afterAll, beforeEach, expect, test } from "vitest";
import { parseTenantId } from "../../../src/base/ids.ts";
import { createAuthority } from "../../harness/certificates.ts";
import { folderForFile } from "../../harness/folder.ts";
import { issuerEntry, sendJson } from "../../harness/issuer.ts";
import { listenOnLoopback } from "../../harness/loopback.ts";
import { claimsOf } from "../../harness/tokens.ts";
import { must } from "../domain/world.ts";
import { authenticatorOf, bearer, manualTime, patient, refusalOf } from "./world.ts";

const issuer = "https://login.umbrella.example";
const folder = folderForFile("introspection");
const put = (name: string, pem: string) => {
  writeFileSync(join(folder, name), pem);
  return join(folder, name);
};
const [authority, other] = await Promise.all([createAuthority(folder, "authority"), createAuthority(folder, "other")]);
const own = await authority.issue("issuer", undefined, "IP:127.0.0.1");
const { certFile: certificateFile, keyFile } = await authority.issue("svc");
const good = { active: true, ...claimsOf(issuer, Date.now(), { tenant_id: "umbrella" }) };

let asked: { readonly subject: string | undefined; readonly form: URLSearchParams; readonly authorization: unknown }[];
let answer: (response: ServerResponse) => void;
beforeEach(() => {
  asked = [];
  answer = (response) => sendJson(response, good);
});

const options = { cert: own.cert, key: own.key, ca: authority.cert, requestCert: true, rejectUnauthorized: false };
const server = createServer(options, async (request, response) => {
  const { socket, headers } = request;
  const subject = socket instanceof TLSSocket ? socket.getPeerX509Certificate()?.subject : undefined;
  asked.push({ subject, form: new URLSearchParams(await text(request)), authorization: headers.authorization });
  answer(response);
});
const { port, stop } = await listenOnLoopback(server);
afterAll(stop);

/** What comes of an opaque token: the caller's tenant, or the reason of the refusal. */
async function outcomeWith(authoritiesFile: string | undefined): Promise<unknown> {
  const entry = issuerEntry(issuer, {
    tenants: { kind: "fixed", tenantId: must(parseTenantId("umbrella")) },
    introspection: {
      ...{ endpoint: `https://127.0.0.1:${port}/introspect`, clientId: "svc", tokenPrefix: "" },
      credentials: { kind: "certificate", certificateFile, keyFile },
    },
  });
  const world = authenticatorOf(issuer, manualTime(Date.now()), { issuers: [entry], authoritiesFile });
  const asking = world.authenticate(bearer("opaque-1"), patient);
  return asking.then(
    ({ tenantId }) => tenantId,
    async () => (await refusalOf(asking)).reason,
  );
}

test("the service shows its certificate, and names itself in the form", async () => {
  expect(await outcomeWith(put("authorities.pem", authority.cert))).toBe("umbrella");
  expect(asked.map(({ subject, authorization }) => [subject, authorization])).toEqual([["CN=svc", undefined]]);
  expect(asked[0]?.form.get("client_id")).toBe("svc");
});

test("callers get 503 if the issuer hangs up in the middle of its answer", async () => {
  answer = (response) => void response.writeHead(200).write("{", () => response.destroy());
  expect(await outcomeWith(put("authorities.pem", authority.cert))).toBe("issuer_unavailable");
  expect(asked).toHaveLength(1);
});

test("nothing is sent to an issuer whose certificate comes from no authority of the system, or from another one", async () => {
  for (const authorities of [undefined, put("authorities.pem", other.cert)])
    expect(await outcomeWith(authorities)).toBe("issuer_unavailable");
  expect(asked).toEqual([]);
});
