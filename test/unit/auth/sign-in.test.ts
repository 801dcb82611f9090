import { randomFillSync } from "node:crypto";
import { createServer } from "node:http";
import { expect, test } from "vitest";
import { createSignIn, type SignInOptions } from "../../../src/auth/sign-in.ts";
import { systemClock } from "../../../src/base/clock.ts";
import { systemTimers } from "../../../src/base/timers.ts";
import { forTest } from "../../harness/lifetimes.ts";
import { listenOnLoopback } from "../../harness/loopback.ts";
import { type Members, mintHmacToken, mintToken, mintUnsignedToken, newTestKey } from "../../harness/tokens.ts";

const key = newTestKey("ES256", "k");

/** A token that the issuer answers with, for a nonce. */
type MakeToken = (claims: Members) => string | Promise<string>;
/** Of the members of its header, an ID token has no type. */
const header = { kid: "k", typ: undefined };
const signed: MakeToken = (claims) => mintToken(key, claims, header);

interface Asked {
  readonly authorization: string | undefined;
  readonly body: URLSearchParams;
}

/** Starts an issuer with these differences from a good one, and a sign-in at it. */
async function start({
  document = {},
  claims = {},
  makeToken = signed,
  options = {},
}: {
  readonly document?: object;
  readonly claims?: Members;
  readonly makeToken?: MakeToken;
  readonly options?: Partial<SignInOptions>;
} = {}) {
  let nonce = "";
  const asked: Asked[] = [];
  const server = createServer(async (request, response) => {
    const answer = (value: object) => response.setHeader("content-type", "application/json").end(JSON.stringify(value));
    if (request.url === "/keys") return answer({ keys: [key.publicJwk] });
    if (request.url !== "/token")
      return answer({
        ...{
          issuer: url,
          jwks_uri: `${url}/keys`,
          authorization_endpoint: `${url}/auth`,
          token_endpoint: `${url}/token`,
        },
        ...{ code_challenge_methods_supported: ["S256"], ...document },
      });
    const body = new URLSearchParams(Buffer.concat(await request.toArray()).toString());
    asked.push({ authorization: request.headers.authorization, body });
    const now = Math.floor(Date.now() / 1000);
    const usual = { iss: url, aud: "console", sub: "olga", iat: now, exp: now + 60, nonce, roles: ["operator"] };
    return answer({ id_token: await makeToken({ ...usual, ...claims }) });
  });
  const { port } = await forTest(listenOnLoopback(server));
  const url = `http://127.0.0.1:${port}`;
  const signIn = createSignIn({
    ...{
      issuer: url,
      clientId: "console",
      clientSecret: "s".repeat(32),
      url: "https://ops.example",
      rolesClaim: "roles",
    },
    ...{ fetch, clock: systemClock, timers: systemTimers, random: (bytes) => randomFillSync(bytes) },
    ...options,
  });
  return {
    signIn,
    asked,
    /** Ends a sign-in with these parameters changed, and these added behind the others. */
    async finish(change: Readonly<Record<string, string>> = {}, added: readonly string[] = [], address = "192.0.2.1") {
      const { location, flow } = await signIn.begin("/console/system");
      const sent = new URL(location).searchParams;
      nonce = sent.get("nonce") ?? "";
      const parameters = new URLSearchParams({ code: "c", state: sent.get("state") ?? "", ...change });
      for (const name of added) parameters.append(name, name === "iss" ? url : (parameters.get(name) ?? ""));
      return signIn.finish(parameters, flow, address);
    },
  };
}

test("a sign-in sends the verifier of its challenge and the client's secret, and ends in a session", async () => {
  const { signIn, asked, finish } = await start();
  const done = await finish();
  if (typeof done === "string") throw new Error(done);
  expect(done).toMatchObject({ returnTo: "/console/system", who: { subject: "olga", tenantIds: undefined } });
  expect(asked[0]?.authorization).toBe(`Basic ${btoa(`console:${"s".repeat(32)}`)}`);
  expect(Object.fromEntries(asked[0]?.body ?? [])).toMatchObject({
    grant_type: "authorization_code",
    redirect_uri: "https://ops.example/console/sign-in/callback",
    code_verifier: expect.stringMatching(/^[\w-]{43}$/),
  });
  expect(await signIn.sessionOf(done.session)).toEqual(done.who);
  signIn.end(done.who);
  expect(await signIn.sessionOf(done.session)).toBeUndefined();
});

const none: MakeToken = (claims) => mintUnsignedToken(claims, header);
const symmetric: MakeToken = (claims) => mintHmacToken("s".repeat(32), claims, header);
const another: MakeToken = (claims) => mintToken(newTestKey("ES256", "k"), claims, header);

test.each<[string, Parameters<typeof start>[0]]>([
  ["of another nonce", { claims: { nonce: "other" } }],
  ["without a nonce", { claims: { nonce: undefined } }],
  ["for another client", { claims: { aud: "other" } }],
  ["for several clients", { claims: { aud: ["console", "other"] } }],
  ["that another client asked for", { claims: { azp: "other" } }],
  ["of another issuer", { claims: { iss: "https://other.example" } }],
  ["that expired", { claims: { exp: 1_000 } }],
  ["without a subject", { claims: { sub: undefined } }],
  ["with a subject that is no text", { claims: { sub: {} } }],
  ["with an empty subject", { claims: { sub: "" } }],
  ["with a subject of several lines", { claims: { sub: "olga\nadmin" } }],
  ["without a signature", { makeToken: none }],
  ["signed by the client's secret", { makeToken: symmetric }],
  ["signed by another key", { makeToken: another }],
])("an ID token %s is refused", async (_, difference) => {
  expect(await (await start(difference)).finish()).toBe("refused");
});

test.each<[string, Readonly<Record<string, string>>, (readonly string[])?]>([
  ["another state", { state: "other" }],
  ["the name of another issuer", { iss: "https://other.example" }],
  ["a repeated state", {}, ["state"]],
  ["a repeated code", {}, ["code"]],
  ["a repeated name of the issuer", {}, ["iss", "iss"]],
])("an answer with %s is refused before the code is used", async (_, change, added = []) => {
  const { asked, finish } = await start();
  expect([await finish(change, added), asked]).toEqual(["refused", []]);
});

test("an answer without the issuer's name is refused if the issuer announces it", async () => {
  const { asked, finish } = await start({ document: { authorization_response_iss_parameter_supported: true } });
  expect([await finish(), asked]).toEqual(["refused", []]);
  expect(await finish({}, ["iss"])).toMatchObject({ who: { subject: "olga" } });
});

test.each([
  [
    ["auditor:tenant-a", "auditor:tenant-b", "cook"],
    ["tenant-a", "tenant-b"],
  ],
  [["auditor:tenant-a", "operator"], undefined],
  ["auditor:tenant-a", ["tenant-a"]],
])("the roles %j open the logs of %j", async (roles, tenantIds) => {
  const done = await (await start({ claims: { roles } })).finish();
  expect(typeof done === "string" ? done : done.who.tenantIds).toEqual(tenantIds);
});

test.each([
  [[]],
  ["Operator"],
  ["auditor:"],
  ["auditor:*"],
  [{ operator: true }],
  [7],
  [Array.from({ length: 500 }, (_, at) => `auditor:tenant-${at}`)],
])("the roles %j open nothing", async (roles) => {
  expect(await (await start({ claims: { roles } })).finish()).toBe("no_role");
});

test.each([
  ["does not support PKCE", { code_challenge_methods_supported: undefined }, "PKCE"],
  ["supports plain PKCE only", { code_challenge_methods_supported: ["plain"] }, "PKCE"],
  ["signs in over http elsewhere", { authorization_endpoint: "http://id.example/auth" }, "authorization_endpoint"],
  ["takes secrets over http elsewhere", { token_endpoint: "http://id.example/token" }, "token_endpoint"],
])("an issuer that %s is refused at the start and at each sign-in", async (_, document, problem) => {
  const { signIn } = await start({ document });
  await expect(signIn.check()).rejects.toThrow(problem);
  await expect(signIn.begin("/console")).rejects.toMatchObject({ reason: "issuer_unavailable" });
});

test("an issuer that is down does not prevent a start, and is retried", async () => {
  let isDown = true;
  const { signIn } = await start({
    options: { fetch: (url, init) => (isDown ? Promise.reject(new Error("down")) : fetch(url, init)) },
  });
  await signIn.check();
  await expect(signIn.begin("/console")).rejects.toMatchObject({ reason: "issuer_unavailable" });
  isDown = false;
  expect((await signIn.begin("/console")).location).toContain("code_challenge_method=S256");
});

test("sign-ins of one address leave places for others", async () => {
  const answered = Promise.withResolvers<void>();
  const makeToken: MakeToken = (claims) => answered.promise.then(() => signed(claims));
  const { asked, finish } = await start({ makeToken });
  const ended: unknown[] = [];
  const many = Array.from({ length: 40 }, () => finish({}, [], "203.0.113.9").then((end) => ended.push(end)));
  await expect.poll(() => [asked.length, ended.length]).toEqual([4, 28]);
  const other = finish();
  answered.resolve();
  expect(await other).toMatchObject({ who: { subject: "olga" } });
  await Promise.all(many);
});
