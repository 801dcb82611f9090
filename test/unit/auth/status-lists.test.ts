/** Tokens that their issuer can call back: its status lists count, as long as they may, and nothing else does. */
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { deflateSync } from "node:zlib";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { IssuerEntry } from "../../../src/base/issuers.ts";
import { issuerEntry, type StaticIssuer, startStaticIssuer } from "../../harness/issuer.ts";
import { claimsOf, type Members, mintToken, newTestKey, type TestKey } from "../../harness/tokens.ts";
import { authenticatorOf, bearer, type ManualTime, manualTime, patient, refusalOf, type World } from "./world.ts";

const key = newTestKey("ES256", "key-1");
const stranger = newTestKey("ES256", "key-1");
let issuer: StaticIssuer;
let base: string;
let stop: () => Promise<void>;
let fetched: IncomingMessage[];
let respond: (response: ServerResponse, uri: string) => void;
let time: ManualTime;
let world: World;
let minted = 0;

const packed = (bytes: readonly number[]) => deflateSync(Buffer.from(bytes)).toString("base64url");
/** The draft's example of one bit (§4.1): 1 0 0 1 1 1 0 1 1 1 0 0 0 1 0 1. */
const oneBit = { bits: 1, lst: "eNrbuRgAAhcBXQ" };
/** Its example of two bits: 1 2 0 3 0 1 0 1 1 2 3 3. */
const twoBits = { bits: 2, lst: "eNo76fITAAPfAgc" };

const seconds = () => Math.floor(time.now() / 1000);
const listToken = (uri: string, claims: Members = {}, header: Members = {}, by: TestKey = key) =>
  mintToken(by, { sub: uri, iat: seconds(), status_list: oneBit, ...claims }, { typ: "statuslist+jwt", ...header });
const send = (response: ServerResponse, token: string, type = "application/statuslist+jwt") =>
  void response.writeHead(200, { "content-type": type }).end(token);
const tokenOf = (idx: unknown, uri: unknown = `${base}/lists/1`) =>
  mintToken(key, claimsOf(issuer.url, time.now(), { jti: `${minted++}`, status: { status_list: { idx, uri } } }));
const outcomeOf = (token: string) =>
  world.authenticate(bearer(token), patient).then(
    () => "let in",
    (error) => error.reason as string,
  );

function open(changes: Partial<IssuerEntry> = {}): void {
  world = authenticatorOf(issuer.url, time, {
    issuers: [issuerEntry(issuer.url, { statusLists: [`${base}/lists/`], ...changes })],
  });
  world.start();
}

beforeEach(async () => {
  issuer = await startStaticIssuer([key.publicJwk]);
  time = manualTime(Date.now());
  fetched = [];
  respond = (response, uri) => send(response, listToken(uri));
  const server = createServer((request, response) => {
    fetched.push(request);
    respond(response, `${base}${request.url}`);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  base = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  stop = () => {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    server.closeAllConnections();
    return closed;
  };
  open();
});
afterEach(async () => {
  await stop();
  await issuer.stop();
});

describe("a token that names a place in a list", () => {
  test.each([
    [oneBit, [1, 0, 0, 1, 1, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 1]],
    [twoBits, [1, 2, 0, 3, 0, 1, 0, 1, 1, 2, 3, 3]],
    [{ bits: 4, lst: packed([0x10, 0xf0]) }, [0, 1, 0, 15]],
    [{ bits: 8, lst: packed([0, 1, 255]) }, [0, 1, 255]],
  ])("is good where the list %j says 0 there, and is refused elsewhere and beyond it", async (list, values) => {
    respond = (response, uri) => send(response, listToken(uri, { status_list: list }));
    for (const [idx, value] of values.entries())
      expect(await outcomeOf(tokenOf(idx))).toBe(value === 0 ? "let in" : "invalid_token");
    for (const idx of [values.length, 1e9]) expect(await outcomeOf(tokenOf(idx))).toBe("invalid_token");
    expect(fetched).toHaveLength(1);
    expect(fetched[0]?.headers.accept).toBe("application/statuslist+jwt");
  });

  test("is looked up again when the list's ttl is over, remembered as it is", async () => {
    respond = (response, uri) => send(response, listToken(uri, { ttl: 30 }));
    const token = tokenOf(1);
    expect(await outcomeOf(token)).toBe("let in");
    time.advance(29_999);
    expect(await outcomeOf(token)).toBe("let in");
    expect(fetched).toHaveLength(1);
    respond = (response, uri) => send(response, listToken(uri, { status_list: { bits: 1, lst: packed([0xff]) } }));
    time.advance(1);
    expect(await outcomeOf(token)).toBe("invalid_token");
    expect(fetched).toHaveLength(2);
  });

  test.each<[string, () => Members, number]>([
    ["the list's exp", () => ({ exp: seconds() + 60, ttl: 300 }), 61_000],
    ["five minutes, whatever the ttl", () => ({ ttl: 86_400 }), 300_000],
    ["five minutes, without a ttl", () => ({}), 300_000],
  ])("is looked up again after %s", async (_name, claims, laterMs) => {
    respond = (response, uri) => send(response, listToken(uri, claims()));
    expect(await outcomeOf(tokenOf(1))).toBe("let in");
    time.advance(laterMs);
    expect(await outcomeOf(tokenOf(1))).toBe("let in");
    expect(fetched).toHaveLength(2);
  });

  test("waits with others for one fetch", async () => {
    const outcomes = await Promise.all(Array.from({ length: 20 }, () => outcomeOf(tokenOf(1))));
    expect([new Set(outcomes), fetched.length]).toEqual([new Set(["let in"]), 1]);
  });

  test.each<[string, () => string]>([
    ["elsewhere", () => `${base}/elsewhere/1`],
    ["at another host", () => "https://lists.example/lists/1"],
    ["above by dots", () => `${base}/lists/../elsewhere/1`],
    ["above by encoded dots", () => `${base}/lists/%2e%2e/elsewhere/1`],
    ["with a user", () => `${base.replace("//", "//user@")}/lists/1`],
    ["with a fragment", () => `${base}/lists/1#a`],
    ["in upper case", () => `${base.replace("http", "HTTP")}/lists/1`],
    ["as a relative one", () => "/lists/1"],
  ])("in a list %s is refused, and nobody is asked", async (_name, uri) => {
    expect(await outcomeOf(tokenOf(1, uri()))).toBe("invalid_token");
    expect(fetched).toEqual([]);
  });

  test.each<[string, unknown]>([
    ["without a list", {}],
    ["of another mechanism", { identifier_list: { id: "1" } }],
    ["of no index", { status_list: { uri: "x" } }],
    ["of a negative index", { status_list: { idx: -1, uri: "x" } }],
    ["of half an index", { status_list: { idx: 0.5, uri: "x" } }],
    ["of an index as a text", { status_list: { idx: "1", uri: "x" } }],
    ["as a list", [{ status_list: { idx: 1, uri: "x" } }]],
  ])("with a status %s is refused", async (_name, status) => {
    const token = mintToken(key, claimsOf(issuer.url, time.now(), { status }));
    expect(await outcomeOf(token)).toBe("invalid_token");
  });

  test("is not looked up for a token that is refused anyway, nor where the claim is somebody's own", async () => {
    const claims = claimsOf(issuer.url, time.now(), { status: { status_list: { idx: 1, uri: `${base}/lists/1` } } });
    expect(await outcomeOf(mintToken(stranger, claims))).toBe("invalid_token");
    expect(await outcomeOf(mintToken(key, claimsOf(issuer.url, time.now(), { status: "employed" })))).toBe("let in");
    expect(fetched).toEqual([]);
  });

  test("is refused where no lists are configured", async () => {
    world = authenticatorOf(issuer.url, time);
    world.start();
    expect(await outcomeOf(tokenOf(1))).toBe("invalid_token");
  });
});

describe("a list that does not stand", () => {
  test.each<[string, (response: ServerResponse, uri: string) => void]>([
    ["is signed by a stranger", (response, uri) => send(response, listToken(uri, {}, {}, stranger))],
    ["is of an unknown key", (response, uri) => send(response, listToken(uri, {}, { kid: "another" }))],
    ["is of another type", (response, uri) => send(response, listToken(uri, {}, { typ: "at+jwt" }))],
    ["is of no type", (response, uri) => send(response, listToken(uri, {}, { typ: undefined }))],
    ["is for another URL", (response) => send(response, listToken(`${base}/lists/2`))],
    ["is of another issuer", (response, uri) => send(response, listToken(uri, { iss: "https://other.example" }))],
    ["has ended", (response, uri) => send(response, listToken(uri, { exp: seconds() - 60 }))],
    ["is of the future", (response, uri) => send(response, listToken(uri, { iat: seconds() + 60 }))],
    ["says not when it was made", (response, uri) => send(response, listToken(uri, { iat: undefined }))],
    ["has a ttl of nothing", (response, uri) => send(response, listToken(uri, { ttl: 0 }))],
    ["has a ttl as a text", (response, uri) => send(response, listToken(uri, { ttl: "300" }))],
    ["has no list", (response, uri) => send(response, listToken(uri, { status_list: undefined }))],
    ["has three bits", (response, uri) => send(response, listToken(uri, { status_list: { ...oneBit, bits: 3 } }))],
    ["is not packed", (response, uri) => send(response, listToken(uri, { status_list: { bits: 1, lst: "AAAA" } }))],
    ["unpacks to more than 8 MiB", (response, uri) => send(response, bomb(uri))],
    ["comes as another type", (response, uri) => send(response, listToken(uri), "application/jwt")],
    ["is somewhere else", (response) => void response.writeHead(302, { location: `${base}/lists/2` }).end()],
    ["is not there", (response) => void response.writeHead(404).end()],
    ["is longer than 4 MiB", (response) => send(response, "x".repeat(4 * 1024 * 1024 + 1))],
  ])("%s: 503, and the next one counts", async (_name, bad) => {
    respond = bad;
    const refusal = await refusalOf(world.authenticate(bearer(tokenOf(1)), patient));
    expect([refusal.reason, refusal.message]).toEqual([
      "issuer_unavailable",
      "the status of the access token cannot be looked up",
    ]);
    respond = (response, uri) => send(response, listToken(uri));
    expect(await outcomeOf(tokenOf(1))).toBe("let in");
  });

  const bomb = (uri: string) =>
    listToken(uri, {
      status_list: { bits: 1, lst: deflateSync(Buffer.alloc(8 * 1024 * 1024 + 1)).toString("base64url") },
    });

  test("is fetched twenty times in thirty seconds at most", async () => {
    respond = (response) => void response.writeHead(500).end();
    for (let call = 0; call < 25; call++) expect(await outcomeOf(tokenOf(1))).toBe("issuer_unavailable");
    expect(fetched).toHaveLength(20);
    respond = (response, uri) => send(response, listToken(uri));
    time.advance(30_000);
    expect(await outcomeOf(tokenOf(1))).toBe("let in");
  });

  test("is not believed beyond the key that signed it", async () => {
    expect(await outcomeOf(tokenOf(1))).toBe("let in");
    const next = newTestKey("ES256", "key-2");
    issuer.keys = [next.publicJwk];
    respond = (response, uri) => send(response, listToken(uri, {}, {}, next));
    const claims = claimsOf(issuer.url, time.now(), { status: { status_list: { idx: 1, uri: `${base}/lists/1` } } });
    expect(await outcomeOf(mintToken(next, claims))).toBe("let in");
    expect(fetched).toHaveLength(2);
  });
});
