import { readFileSync } from "node:fs";
import { join } from "node:path";
import tls from "node:tls";
import { beforeEach, describe, expect, test } from "vitest";
import { createIssuerFetch } from "../../../src/auth/issuer-documents.ts";
import { thumbprintOf } from "../../../src/base/text-forms.ts";
import { type StaticIssuer, sendJson, startStaticIssuer } from "../../harness/issuer.ts";
import { forTest } from "../../harness/lifetimes.ts";
import { listenOnLoopback } from "../../harness/loopback.ts";
import {
  claimsOf,
  type Members,
  mintHmacToken,
  mintToken,
  mintUnsignedToken,
  newTestKey,
} from "../../harness/tokens.ts";
import {
  authenticatorOf,
  bearer,
  inboundOf,
  manualTime,
  mtlsRule,
  patient,
  refusalOf,
  startedWorld,
  type World,
} from "./world.ts";

const fixtures = join(import.meta.dirname, "../config/fixtures");
const first = newTestKey("ES256", "first");
const second = newTestKey("ES256", "second");
const third = newTestKey("ES256", "third");
const minute = 60_000;
let issuer: StaticIssuer;
let time: ReturnType<typeof manualTime>;
let world: World;

beforeEach(async () => {
  issuer = await forTest(startStaticIssuer([first.publicJwk]));
  time = manualTime();
  world = authenticatorOf(issuer.url, time);
});

async function ready(): Promise<void> {
  const fetched = world.fetched();
  world.start();
  await fetched;
  expect(world.status()).toEqual({ issuerReady: true, detail: "1 keys" });
}

/** Lets the time come for the next fetch, and waits until it has ended. */
async function nextFetch(ms: number): Promise<void> {
  const fetched = world.fetched();
  time.advance(ms);
  await fetched;
}

const call = (key = first, signal = patient) =>
  world.authenticate(bearer(mintToken(key, claimsOf(issuer.url, time.now()))), signal);
const reasonOf = async (outcome: Promise<unknown>) => (await refusalOf(outcome)).reason;

describe("before the keys are fetched", () => {
  test("a call waits for the running fetch", async () => {
    const release = issuer.hold();
    world.start();
    const calls = [call(), call(), call()];
    expect(world.status().issuerReady).toBe(false);
    release();
    for (const caller of await Promise.all(calls)) expect(caller.tenantId).toBe("tenant-a");
    expect(issuer.fetches).toEqual({ discovery: 1, keys: 1 });
  });

  test("a call waits no longer than its deadline", async () => {
    issuer.hold();
    world.start();
    const deadline = new AbortController();
    const refusal = refusalOf(call(first, deadline.signal));
    deadline.abort();
    expect(await refusal).toMatchObject({ reason: "issuer_unavailable", details: { retryAfterSeconds: 1 } });
    expect(await reasonOf(call(first, deadline.signal))).toBe("issuer_unavailable");
  });

  test("what cannot be a token is refused without a wait", async () => {
    issuer.hold();
    world.start();
    const good = claimsOf(issuer.url, time.now());
    for (const token of ["abc", mintUnsignedToken(good), mintHmacToken("secret", good, {})]) {
      expect(await reasonOf(world.authenticate(bearer(token), patient))).toBe("invalid_token");
    }
  });

  test("an issuer that does not answer in time counts as down", async () => {
    issuer.hold();
    world.start();
    const refusal = refusalOf(call());
    await nextFetch(5_000);
    expect(await refusal).toHaveProperty("reason", "issuer_unavailable");
    expect(world.status().detail).toContain("no answer within 5000 ms");
  });

  test("an issuer that is down is retried with growing pauses, within two seconds of its return", async () => {
    const { port } = issuer;
    await issuer.stop();
    const fetched = world.fetched();
    world.start();
    await fetched;
    expect(world.status()).toEqual({
      issuerReady: false,
      detail: "the issuer's discovery document cannot be fetched: ECONNREFUSED",
    });
    expect(await refusalOf(call())).toMatchObject({
      reason: "issuer_unavailable",
      httpStatus: 503,
      details: { retryAfterSeconds: 1 },
    });
    for (const delayMs of [188, 375, 750, 1_125, 1_125]) {
      const before = world.events.length;
      time.advance(delayMs - 1);
      expect(world.events.length).toBe(before);
      await nextFetch(1);
    }
    issuer = await forTest(startStaticIssuer([first.publicJwk], port));
    await nextFetch(1_500);
    expect(world.status().issuerReady).toBe(true);
    expect(await call()).toHaveProperty("tenantId", "tenant-a");
  });
});

describe("rotation", () => {
  test("a new key is fetched at once, once for all waiting calls", async () => {
    await ready();
    issuer.keys = [first.publicJwk, second.publicJwk];
    const callers = await Promise.all([call(second), call(second), call(first), call(second)]);
    expect(callers).toHaveLength(4);
    expect(issuer.fetches.keys).toBe(2);
  });

  test("a flood of unknown key ids makes two fetches at most, and good tokens are accepted meanwhile", async () => {
    await ready();
    const flood = Array.from({ length: 200 }, (_, index) => reasonOf(call({ ...second, kid: `invented-${index}` })));
    expect(await call()).toHaveProperty("tenantId");
    expect(new Set(await Promise.all(flood))).toEqual(new Set(["invalid_token"]));
    // Those who came before the fetch began share it.
    expect(issuer.fetches.keys).toBe(1 + 1);
    expect(await reasonOf(call({ ...second, kid: "later" }))).toBe("invalid_token");
    for (let round = 0; round < 20; round += 1) {
      expect(await reasonOf(call({ ...second, kid: `later-${round}` }))).toBe("issuer_unavailable");
    }
    expect(issuer.fetches.keys).toBe(1 + 2);
    time.advance(29_999);
    expect(await refusalOf(call(second))).toHaveProperty("details.retryAfterSeconds", 1);
    expect(issuer.fetches.keys).toBe(1 + 2);
    expect(await call()).toHaveProperty("tenantId");
  });

  test("a token of a new key is not refused because of others' invented key ids", async () => {
    await ready();
    for (const kid of ["one", "two", "three"]) await refusalOf(call({ ...third, kid }));
    issuer.keys = [first.publicJwk, second.publicJwk];
    expect(await refusalOf(call(second))).toMatchObject({
      reason: "issuer_unavailable",
      details: { retryAfterSeconds: 30 },
    });
    time.advance(30_000);
    expect(await call(second)).toHaveProperty("tenantId");
  });

  test("a token of a withdrawn key is refused as such, although no fetch is left", async () => {
    await ready();
    issuer.keys = [second.publicJwk];
    for (const kid of ["one", "two"]) await refusalOf(call({ ...third, kid }));
    expect(await reasonOf(call(first))).toBe("invalid_token");
    expect(await reasonOf(call(third))).toBe("issuer_unavailable");
  });

  test("nothing is fetched for a token that would be refused anyway", async () => {
    await ready();
    const wrong: [Members, Members?][] = [
      ...[{ alg: "HS256" }, { kid: 7 }, { crit: ["x"], x: 1 }].map((header): [Members, Members] => [{}, header]),
      // The key is published, for another algorithm.
      [{}, { kid: first.kid, alg: "ES384" }],
      [{}, { kid: first.kid, alg: "RS256" }],
      [{ cnf: { jkt: "A".repeat(43) } }],
    ];
    for (const [claims, header] of wrong) {
      const token = mintToken({ ...second, kid: "invented" }, claimsOf(issuer.url, time.now(), claims), header);
      const reason = await reasonOf(world.authenticate(bearer(token), patient));
      expect(reason, JSON.stringify([claims, header])).toMatch(/^(invalid|expired)_token$|^proof_of/);
    }
    expect(issuer.fetches.keys).toBe(1);
  });

  test("nothing is fetched for a caller without the certificate that its token is bound to", async () => {
    world = authenticatorOf(issuer.url, time, { proofOfPossession: mtlsRule() });
    await ready();
    const own = Buffer.from("own certificate");
    const cnf = { "x5t#S256": thumbprintOf(own).toString("base64url") };
    const token = mintToken(second, claimsOf(issuer.url, time.now(), { cnf }));
    const over = (certificate: Buffer | undefined) =>
      world.authenticate(
        inboundOf({ authorization: `Bearer ${token}` }, { clientCertificate: () => certificate }),
        patient,
      );
    for (const other of [undefined, Buffer.from("another certificate")]) {
      expect(await reasonOf(over(other))).toBe("proof_of_possession_failed");
    }
    expect(issuer.fetches.keys).toBe(1);
    issuer.keys = [first.publicJwk, second.publicJwk];
    expect(await over(own)).toHaveProperty("tenantId");
    const caller = await over(own);
    // It is remembered from now on, and possession is checked all the same.
    expect(await reasonOf(over(Buffer.from("another certificate")))).toBe("proof_of_possession_failed");
    expect(await over(own)).toBe(caller);
  });

  test("at most a thousand calls wait for one fetch", async () => {
    await ready();
    const release = issuer.hold();
    const calls = Array.from({ length: 1_010 }, (_, index) => reasonOf(call({ ...second, kid: `invented-${index}` })));
    await expect.poll(() => issuer.fetches.discovery).toBe(2);
    release();
    const reasons = await Promise.all(calls);
    expect(reasons.filter((reason) => reason === "issuer_unavailable")).toHaveLength(10);
    expect(reasons.filter((reason) => reason === "invalid_token")).toHaveLength(1_000);
  });

  test("a fetch that began before the key was published does not decide", async () => {
    await ready();
    const release = issuer.hold();
    const early = reasonOf(call(third));
    await expect.poll(() => issuer.fetches.discovery).toBe(2);
    const late = [call(second), call(second), call(second)];
    issuer.answer = (path, response) => {
      if (path === "discovery") return sendJson(response, { issuer: issuer.url, jwks_uri: `${issuer.url}/keys` });
      sendJson(response, { keys: issuer.keys.slice(0, 1) });
      issuer.answer = undefined;
    };
    issuer.keys = [first.publicJwk, second.publicJwk];
    release();
    expect(await early).toBe("invalid_token");
    for (const caller of await Promise.all(late)) expect(caller).toHaveProperty("tenantId");
    expect(issuer.fetches.keys).toBe(1 + 2);
  });

  test("when every key is withdrawn, none verifies", async () => {
    await ready();
    issuer.keys = [];
    await nextFetch(5 * minute);
    expect(world.status()).toEqual({ issuerReady: false, detail: "the issuer publishes no signature keys" });
    expect(await reasonOf(call(first))).toBe("issuer_unavailable");
  });
});

describe("an issuer that stops answering", () => {
  test("keeps its keys for an hour, is retried every half minute, and is ready again when it returns", async () => {
    await ready();
    issuer.answer = (_path, response) => void response.writeHead(500).end();
    await nextFetch(5 * minute);
    expect(world.status()).toEqual({
      issuerReady: true,
      detail: "the issuer's discovery document cannot be fetched: status 500",
    });
    expect(await call()).toBeDefined();
    expect(await reasonOf(call(second))).toBe("issuer_unavailable");
    for (let fetches = 0; fetches < 8; fetches += 1) await nextFetch(30_000);
    await nextFetch(50 * minute);
    expect(await call()).toBeDefined();
    await nextFetch(minute);
    expect(world.status().issuerReady).toBe(false);
    expect(await reasonOf(call())).toBe("issuer_unavailable");
    issuer.answer = undefined;
    await nextFetch(1_500);
    expect(world.status()).toEqual({ issuerReady: true, detail: "1 keys" });
    expect(await call()).toBeDefined();
  });

  test("keys that expired while the machine slept are fetched before the first call is decided", async () => {
    const sleeper = manualTime();
    const asleep = { ...sleeper, after: () => () => {} };
    world = authenticatorOf(issuer.url, asleep);
    await ready();
    sleeper.advance(61 * minute);
    expect(world.status()).toEqual({ issuerReady: false, detail: "the issuer's keys are too old" });
    const token = mintToken(first, claimsOf(issuer.url, sleeper.now()));
    expect(await world.authenticate(bearer(token), patient)).toHaveProperty("tenantId");
  });
});

describe("a bad answer of an issuer", () => {
  const keys = () => ({ keys: [first.publicJwk] });
  test.each<[string, (url: string, path: string) => unknown, string]>([
    ["another issuer", (url) => ({ issuer: `${url}/`, jwks_uri: `${url}/keys` }), "names another issuer"],
    ["no issuer", (url) => ({ jwks_uri: `${url}/keys` }), "names another issuer"],
    ["no jwks_uri", (url) => ({ issuer: url }), "no valid jwks_uri"],
    ["a relative jwks_uri", (url) => ({ issuer: url, jwks_uri: "/keys" }), "no valid jwks_uri"],
    ["plain http elsewhere", (url) => ({ issuer: url, jwks_uri: "http://192.0.2.1/keys" }), "not https"],
    ["a file", (url) => ({ issuer: url, jwks_uri: "file:///etc/passwd" }), "not https"],
    ["a list", () => [], "not a JSON object"],
    ["keys that are no list", (url, path) => documents(url, path, { keys: {} }), "key set is malformed"],
    ["keys that never end", (url, path) => documents(url, path, { ...keys(), x: "x".repeat(300_000) }), "longer than"],
  ])("%s", async (_name, answer, detail) => {
    issuer.answer = (path, response) => sendJson(response, answer(issuer.url, path));
    const { issuerReady, detail: said } = (await startedWorld(issuer.url, time)).status();
    expect(issuerReady).toBe(false);
    expect(said).toContain(detail);
  });

  test.each([
    ["a redirect", 302, "", "redirect"],
    ["an error", 500, "{}", "status 500"],
    ["no JSON", 200, "<html>", "not JSON"],
  ])("%s", async (_name, status, body, detail) => {
    issuer.answer = (_path, response) => void response.writeHead(status, { location: issuer.url }).end(body);
    expect((await startedWorld(issuer.url, time)).status().detail).toContain(detail);
  });

  test.each(["101 Switching\r\nConnection: upgrade\r\nUpgrade: x", "600 None"])("%j, over TLS", async (head) => {
    const [cert, key] = ["crt", "key"].map((kind) => readFileSync(join(fixtures, `server.${kind}.pem`), "utf8"));
    const server = tls.createServer({ cert, key }, (socket) =>
      socket.once("data", () => socket.end(`HTTP/1.1 ${head}\r\n\r\n`)),
    );
    const { port } = await forTest(listenOnLoopback(server));
    const fetch = createIssuerFetch(globalThis.fetch, async () => cert ?? "");
    const url = new URL(`https://localhost:${port}`);
    await expect(fetch(url, {})).rejects.toThrow(`status ${head.slice(0, 3)}`);
  });
});

test("closing ends the running fetch", async () => {
  issuer.hold();
  world.start();
  await expect.poll(() => issuer.fetches.discovery).toBe(1);
  expect(time.pending()).toBe(1);
  const refusal = refusalOf(call());
  world.close();
  expect(await refusal).toHaveProperty("reason", "issuer_unavailable");
  expect(time.pending()).toBe(0);
  expect(world.events).toEqual([]);
});

function documents(url: string, path: string, keySet: unknown): unknown {
  return path === "keys" ? keySet : { issuer: url, jwks_uri: `${url}/keys` };
}
