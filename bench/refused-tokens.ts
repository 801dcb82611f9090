/**
 * Processor time of one call's authentication by what is wrong with its token: for tokens that were never seen before,
 * and for one that is presented again and again, beside a good one, in the same run.
 * `node bench/refused-tokens.ts [tokens of each kind]`.
 */
import { randomBytes } from "node:crypto";
import { createAuthenticator } from "../src/auth/authenticator.ts";
import type { InboundRequest } from "../src/auth/inbound-request.ts";
import { systemClock } from "../src/base/clock.ts";
import { systemTimers } from "../src/base/timers.ts";
import { issuerEntry, startStaticIssuer } from "../test/harness/issuer.ts";
import { claimsOf, encodePart, type Members, mintToken, newTestKey } from "../test/harness/tokens.ts";

const count = Number(process.argv[2] ?? 2_000);
const patient = new AbortController().signal;
const nowSeconds = Math.floor(Date.now() / 1000);
const algorithms = ["RS256", "PS256", "ES256", "EdDSA"] as const;
const keys = algorithms.map((algorithm) => newTestKey(algorithm, algorithm));
const issuer = await startStaticIssuer(keys.map(({ publicJwk }) => publicJwk));
const authenticator = createAuthenticator(
  {
    tokens: {
      issuers: [issuerEntry(issuer.url)],
      proofOfPossession: { mode: "none" },
    },
    identityHeaders: undefined,
  },
  {
    ...{
      clock: systemClock,
      timers: systemTimers,
      random: Math.random,
      fetch: globalThis.fetch,
      readFile: async () => "",
    },
    onEvent() {},
  },
);

let minted = 0;
const claims = (overrides: Members = {}) =>
  claimsOf(issuer.url, Date.now(), { jti: `token-${minted++}`, exp: nowSeconds + 3600, ...overrides });

/** A token that nobody signed: bytes of the right length stand where its signature would. */
function forged(algorithm: string, overrides: Members = {}, kid: string = algorithm): string {
  const sizeBytes = /^[RP]S/.test(algorithm) ? 256 : 64;
  const signature = randomBytes(sizeBytes).fill(0, 0, 1).toString("base64url");
  return `${encodePart({ alg: algorithm, kid, typ: "at+jwt" })}.${encodePart(claims(overrides))}.${signature}`;
}

const kinds: Readonly<Record<string, () => string>> = {
  ...Object.fromEntries(keys.map((key) => [`good, ${key.algorithm}`, () => mintToken(key, claims())])),
  ...Object.fromEntries(algorithms.map((algorithm) => [`forged, ${algorithm}`, () => forged(algorithm)])),
  malformed: () => `${randomBytes(12).toString("hex")}.${randomBytes(300).toString("base64url")}.e30`,
  "of another issuer": () => forged("ES256", { iss: "https://id.example.com" }),
  "for another audience": () => forged("ES256", { aud: "api://another" }),
  expired: () => forged("ES256", { exp: nowSeconds - 3600 }),
  "an ID token": () => forged("ES256", { nonce: "n" }),
  "without a tenant": () => forged("ES256", { tenant_id: undefined }),
  "of an invented key": () => forged("ES256", {}, randomBytes(8).toString("hex")),
};

/** Microseconds of processor time that one call takes. */
async function cost(tokens: readonly string[]): Promise<number> {
  const edges = tokens.map((token): InboundRequest => {
    const headers = [`Bearer ${token}`];
    return {
      headerValues: (name) => (name === "authorization" ? headers : []),
      ...{ remoteAddress: "127.0.0.1", method: "GET", url: "/v1/sdk/whoami" },
    };
  });
  const before = process.cpuUsage();
  for (const inbound of edges) await authenticator.authenticate(inbound, patient).catch(() => undefined);
  const { user, system } = process.cpuUsage(before);
  return (user + system) / edges.length;
}

authenticator.start();
// Minting holds the event loop, so the keys come first.
while (!authenticator.status().issuerReady) await new Promise((resolve) => setTimeout(resolve, 10));
process.stdout.write("| token | first time, µs | again, µs |\n|---|---|---|\n");
for (const [name, mint] of Object.entries(kinds)) {
  const tokens = Array.from({ length: count }, mint);
  await cost(Array.from({ length: count / 4 }, mint));
  const first = await cost(tokens);
  const [repeated = ""] = tokens;
  const again = await cost(Array.from({ length: count * 4 }, () => repeated));
  process.stdout.write(`| ${name} | ${first.toFixed(1)} | ${again.toFixed(1)} |\n`);
}
authenticator.close();
await issuer.stop();
