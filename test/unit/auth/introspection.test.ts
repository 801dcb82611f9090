/** Tokens that say nothing to us: what their issuer answers counts, as long as it may, and no further. */
import { writeFileSync } from "node:fs";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import https from "node:https";
import { join } from "node:path";
import { text } from "node:stream/consumers";
import { TLSSocket } from "node:tls";
import { beforeEach, describe, expect, test } from "vitest";
import type { ServiceError } from "../../../src/base/errors.ts";
import { parseTenantId } from "../../../src/base/ids.ts";
import type { IntrospectionRule, IssuerEntry } from "../../../src/base/issuers.ts";
import { createAuthority } from "../../harness/certificates.ts";
import { folderForFile } from "../../harness/folder.ts";
import { issuerEntry, type StaticIssuer, sendJson, startStaticIssuer } from "../../harness/issuer.ts";
import { forTest } from "../../harness/lifetimes.ts";
import { type Loopback, listenOnLoopback } from "../../harness/loopback.ts";
import { claimsOf, type Members, mintToken, newTestKey } from "../../harness/tokens.ts";
import { must } from "../domain/world.ts";
import {
  authenticatorOf,
  bearer,
  dpopRule,
  inboundOf,
  type ManualTime,
  manualTime,
  mtlsRule,
  patient,
  refusalOf,
  type World,
} from "./world.ts";

const issuer = "https://login.umbrella.example";
const key = newTestKey("ES256", "key-1");
const folder = folderForFile("introspection");
const [authority, other] = await Promise.all([createAuthority(folder, "authority"), createAuthority(folder, "other")]);
const own = await authority.issue("issuer", undefined, "IP:127.0.0.1");
const { certFile: certificateFile, keyFile } = await authority.issue("svc");
let endpoint: string;
interface Asked {
  readonly form: URLSearchParams;
  readonly headers: IncomingMessage["headers"];
  /** Subject of the service's certificate. */
  readonly subject: string | undefined;
}
let asked: Asked[];
/** Answers a question; the default: active, with what a good token says. */
let answer: (response: ServerResponse, token: string) => void | Promise<void>;
let time: ManualTime;
let world: World;

const good = (changes: Members = {}) => ({
  ...{ active: true, token_type: "Bearer", ...claimsOf(issuer, time.now(), { tenant_id: "umbrella", ...changes }) },
});
const rule = (changes: Partial<IntrospectionRule> = {}): IntrospectionRule => ({
  ...{ endpoint, clientId: "svc:1 ü", tokenPrefix: "", ...changes },
  credentials: changes.credentials ?? { kind: "secret", file: join(folder, "secret") },
});
const entry = (changes: Partial<IssuerEntry> = {}) =>
  issuerEntry(issuer, {
    tenants: { kind: "fixed", tenantId: must(parseTenantId("umbrella")) },
    introspection: rule(),
    ...changes,
  });
const open = (issuers: readonly IssuerEntry[] = [entry()], options = {}) => {
  world = authenticatorOf(issuer, time, { issuers, ...options });
  world.start();
};
const tenantOf = async (token: string) => (await world.authenticate(bearer(token), patient)).tenantId;
const reasonOf = async (token: string) => (await refusalOf(world.authenticate(bearer(token), patient))).reason;

beforeEach(async () => {
  writeFileSync(join(folder, "secret"), "a secret: 1+1 ü\n");
  time = manualTime(Date.now());
  asked = [];
  answer = (response) => sendJson(response, good());
  const { port } = await forTest(listenOnLoopback(createServer(serve)));
  endpoint = `http://127.0.0.1:${port}/introspect`;
  open();
});

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { socket, headers } = request;
  const form = new URLSearchParams(await text(request));
  const subject = socket instanceof TLSSocket ? socket.getPeerX509Certificate()?.subject : undefined;
  asked.push({ form, headers, subject });
  await answer(response, form.get("token") ?? "");
}

describe("an opaque token", () => {
  test("ends its introspection once all callers have left, and a timeout is a failure of the issuer", async () => {
    const ended = Promise.withResolvers<void>();
    answer = (response) => void response.once("close", () => ended.resolve());
    const [first, second] = [new AbortController(), new AbortController()];
    const calls = [first, second].map(({ signal }) => refusalOf(world.authenticate(bearer("opaque-1"), signal)));
    await expect.poll(() => asked.length).toBe(1);
    first.abort();
    expect((await calls[0])?.reason).toBe("issuer_unavailable");
    // The other one still waits, and so the question goes on; then no caller does.
    expect(await Promise.race([ended.promise, new Promise((resolve) => setImmediate(resolve, "goes on"))])).toBe(
      "goes on",
    );
    second.abort();
    await Promise.all([ended.promise, ...calls]);
    expect(world.status()).not.toHaveProperty("remark");
    answer = (response) => sendJson(response, good());
    expect(await tenantOf("opaque-1")).toBe("umbrella");
  });

  test("is what its issuer answers, which the service asks as a client", async () => {
    const caller = await world.authenticate(bearer("opaque-1"), patient);
    expect(caller).toMatchObject({ tenantId: "umbrella", principalId: "payroll-service", authSource: "bearer_token" });
    const { form, headers } = must(asked[0]);
    expect([form.get("token"), form.get("token_type_hint")]).toEqual(["opaque-1", "access_token"]);
    // RFC 6749 §2.3.1
    const credentials = Buffer.from(headers.authorization?.slice("Basic ".length) ?? "", "base64").toString();
    expect(credentials).toBe("svc%3A1+%C3%BC:a+secret%3A+1%2B1+%C3%BC");
  });

  test("is introspected once for concurrent calls, and again after a minute", async () => {
    await Promise.all(Array.from({ length: 20 }, () => tenantOf("opaque-1")));
    time.advance(59_999);
    await tenantOf("opaque-1");
    expect(asked).toHaveLength(1);
    time.advance(1);
    await tenantOf("opaque-1");
    expect(asked).toHaveLength(2);
    await tenantOf("opaque-2");
    expect(asked).toHaveLength(3);
  });

  test("is introspected again when it expires earlier", async () => {
    const endsAtSeconds = Math.floor(time.now() / 1000) + 10;
    answer = (response) => sendJson(response, good({ exp: endsAtSeconds }));
    await tenantOf("opaque-1");
    time.advance(endsAtSeconds * 1000 - time.now() - 1);
    await tenantOf("opaque-1");
    expect(asked).toHaveLength(1);
    time.advance(1);
    answer = (response) => sendJson(response, { active: false });
    expect(await reasonOf("opaque-1")).toBe("invalid_token");
  });

  test("that is inactive is remembered for ten seconds", async () => {
    answer = (response) => sendJson(response, { active: false });
    for (let call = 0; call < 3; call++) expect(await reasonOf("opaque-1")).toBe("invalid_token");
    time.advance(9_999);
    expect(await reasonOf("opaque-1")).toBe("invalid_token");
    expect(asked).toHaveLength(1);
    answer = (response) => sendJson(response, good());
    time.advance(1);
    expect(await tenantOf("opaque-1")).toBe("umbrella");
  });

  test.each<[string, Members]>([
    ["of another audience", { aud: "api://another" }],
    ["of no audience", { aud: undefined }],
    ["of another issuer", { iss: "https://other.example" }],
    ["of an issuer that is none", { iss: null }],
    ["without an end", { exp: undefined }],
    ["of another tenant", { tenant_id: "acme" }],
    ["of another type", { token_type: "refresh_token" }],
    ["of a type that is none", { token_type: 1 }],
    ["that is an ID token", { typ: "ID" }],
    ["active as a text", { active: "true" }],
  ])("%s is refused, active or not", async (_name, changes) => {
    answer = (response) => sendJson(response, good(changes));
    expect(await reasonOf("opaque-1")).toMatch(
      changes.active === undefined ? /^invalid_token$/ : /^issuer_unavailable$/,
    );
  });

  test("that expired is refused as expired, and one without issuer is its introspecting issuer's", async () => {
    answer = (response, token) =>
      sendJson(
        response,
        token === "ended" ? good({ exp: Math.floor(time.now() / 1000) - 60 }) : good({ iss: undefined }),
      );
    expect(await reasonOf("ended")).toBe("expired_token");
    expect(await tenantOf("no-iss")).toBe("umbrella");
  });

  test("that is bound needs its key", async () => {
    answer = (response) => sendJson(response, good({ cnf: { jkt: "0ZcOCORZNYy-DWpqq30jZyJGHTN0d2HglBV3uiguA4I" } }));
    expect(await reasonOf("opaque-1")).toBe("proof_of_possession_failed");
  });

  test.each([
    ["mtls", mtlsRule()],
    ["dpop", dpopRule()],
  ] as const)(
    "is not introspected with %s if the caller has no key that it could be bound to",
    async (mode, proofOfPossession) => {
      open([entry()], { proofOfPossession });
      const scheme = mode === "dpop" ? "DPoP" : "Bearer";
      const refusal = await refusalOf(world.authenticate(inboundOf({ authorization: `${scheme} opaque-1` }), patient));
      expect([refusal.reason, asked.length]).toEqual(["proof_of_possession_failed", 0]);
    },
  );
});

describe("an issuer with a bad answer", () => {
  test.each<[string, (response: ServerResponse) => void]>([
    ["does not know the client", (response) => void response.writeHead(401).end("{}")],
    ["fails", (response) => void response.writeHead(500).end()],
    ["sends its client elsewhere", (response) => void response.writeHead(307, { location: endpoint }).end()],
    ["says no JSON", (response) => void response.writeHead(200).end("<html>")],
    ["says a list", (response) => sendJson(response, [good()])],
    ["says nothing of active", (response) => sendJson(response, { ...good(), active: undefined })],
    ["says too much", (response) => sendJson(response, good({ more: "x".repeat(70_000) }))],
    ["hangs up", (response) => void response.destroy()],
  ])("%s: 503, and the next answer counts", async (_name, bad) => {
    answer = bad;
    const refusal = await refusalOf(world.authenticate(bearer("opaque-1"), patient));
    expect([refusal.reason, refusal.details.retryAfterSeconds]).toEqual(["issuer_unavailable", 1]);
    expect(asked).toHaveLength(1);
    expect(world.status()).toMatchObject({ issuerReady: true, remark: expect.stringContaining("introspection") });
    answer = (response) => sendJson(response, good());
    expect(await tenantOf("opaque-1")).toBe("umbrella");
    expect(world.status()).toEqual({ issuerReady: true, detail: "tokens are introspected" });
  });

  test("gets five seconds, and a caller no more than its own deadline", async () => {
    answer = () => new Promise(() => {});
    const waiting = refusalOf(world.authenticate(bearer("opaque-1"), patient));
    const impatient = new AbortController();
    const leaving = refusalOf(world.authenticate(bearer("opaque-1"), impatient.signal));
    await expect.poll(() => asked.length).toBe(1);
    impatient.abort();
    expect((await leaving).reason).toBe("issuer_unavailable");
    time.advance(5_000);
    expect((await waiting).reason).toBe("issuer_unavailable");
    expect(asked).toHaveLength(1);
  });

  test("is asked at most a hundred times a second, and its secret is read each time", async () => {
    const tokens = Array.from({ length: 150 }, (_, i) => `opaque-${i}`);
    const outcomes = await Promise.all(
      tokens.map((token) =>
        world.authenticate(bearer(token), patient).then(
          () => 200,
          (error) => error.reason,
        ),
      ),
    );
    expect(outcomes.filter((outcome) => outcome === 200)).toHaveLength(100);
    expect(outcomes.filter((outcome) => outcome === "issuer_unavailable")).toHaveLength(50);
    expect(asked).toHaveLength(100);
    writeFileSync(join(folder, "secret"), "another");
    time.advance(1_000);
    expect(await tenantOf("opaque-149")).toBe("umbrella");
    expect(Buffer.from(asked.at(-1)?.headers.authorization?.slice(6) ?? "", "base64").toString()).toMatch(/:another$/);
  });
});

describe("beside other issuers", () => {
  let jwts: StaticIssuer;
  beforeEach(async () => {
    jwts = await forTest(startStaticIssuer([key.publicJwk]));
  });
  const acme = () => issuerEntry(jwts.url, { tenants: { kind: "fixed", tenantId: must(parseTenantId("acme")) } });
  const jwt = (iss: string | undefined) => mintToken(key, claimsOf("", time.now(), { tenant_id: "acme", iss }));

  test("the introspecting issuer sees neither their tokens nor those of unknown issuers", async () => {
    open([entry(), acme()]);
    expect(await tenantOf(jwt(jwts.url))).toBe("acme");
    expect(await reasonOf(jwt("https://nobody.example"))).toBe("invalid_token");
    expect(asked).toEqual([]);
    expect(await tenantOf("opaque-1")).toBe("umbrella");
    // A JWT of its own is asked about all the same: keys of it are not known here.
    expect(await tenantOf(jwt(issuer))).toBe("umbrella");
    expect(asked).toHaveLength(2);
  });

  test("several introspecting issuers have prefixes, and each sees its own tokens only", async () => {
    const two = (one: string, other: string) => [
      entry({ introspection: rule({ tokenPrefix: one }) }),
      { ...acme(), introspection: rule({ tokenPrefix: other, clientId: "acme" }) },
    ];
    open(two("umb_", "acme_"));
    expect(await tenantOf("umb_1")).toBe("umbrella");
    expect(await reasonOf("opaque-1")).toBe("invalid_token");
    answer = (response) => sendJson(response, good({ iss: jwts.url, tenant_id: "acme" }));
    expect(await tenantOf("acme_1")).toBe("acme");
    expect(asked.map(({ form }) => form.get("token"))).toEqual(["umb_1", "acme_1"]);
  });
});

describe("over TLS, by the service's certificate (RFC 8705 §2.1)", () => {
  let secure: Loopback;
  beforeEach(async () => {
    const options = { cert: own.cert, key: own.key, ca: authority.cert, requestCert: true, rejectUnauthorized: false };
    secure = await forTest(listenOnLoopback(https.createServer(options, serve)));
  });

  /** What comes of an opaque token: the caller's tenant, or the reason of the refusal. */
  function outcomeWith(authoritiesFile: string | undefined): Promise<string> {
    const changes = { endpoint: `https://127.0.0.1:${secure.port}/introspect`, clientId: "svc" };
    const credentials = { kind: "certificate", certificateFile, keyFile } as const;
    open([entry({ introspection: rule({ ...changes, credentials }) })], { authoritiesFile });
    return tenantOf("opaque-1").catch((refusal: ServiceError) => refusal.reason);
  }

  test("the service shows its certificate, and names itself in the form", async () => {
    expect(await outcomeWith(authority.certFile)).toBe("umbrella");
    expect(asked.map(({ subject, headers }) => [subject, headers.authorization])).toEqual([["CN=svc", undefined]]);
    expect(asked[0]?.form.get("client_id")).toBe("svc");
  });

  test("callers get 503 if the issuer hangs up in the middle of its answer", async () => {
    answer = (response) => void response.writeHead(200).write("{", () => response.destroy());
    expect(await outcomeWith(authority.certFile)).toBe("issuer_unavailable");
    expect(asked).toHaveLength(1);
  });

  test("nothing is sent to an issuer whose certificate comes from no authority of the system, or from another one", async () => {
    for (const file of [undefined, other.certFile]) expect(await outcomeWith(file)).toBe("issuer_unavailable");
    expect(asked).toEqual([]);
  });
});
