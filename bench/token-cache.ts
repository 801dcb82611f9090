/**
 * Calls a second that are authenticated with a token that was seen before, beside verifications a second of the same
 * token without the cache, in the same run; and the first where the token's issuer is one of 256. `node bench/token-cache.ts [seconds per measurement]`.
 */

import { createAuthenticator } from "../src/auth/authenticator.ts";
import type { InboundRequest } from "../src/auth/inbound-request.ts";
import { requireUnbound } from "../src/auth/proof/confirmation-method.ts";
import type { TokenOptions } from "../src/auth/tokens/access-tokens.ts";
import { createIssuerKeys } from "../src/auth/tokens/issuer-keys.ts";
import { signatureLimits, verifyToken } from "../src/auth/tokens/token-verifier.ts";
import { systemClock } from "../src/base/clock.ts";
import { createFairSemaphore } from "../src/base/semaphore.ts";
import { systemTimers } from "../src/base/timers.ts";
import { headerValues } from "../src/transport/http/inbound-request.ts";
import { issuerEntry, startStaticIssuer } from "../test/harness/issuer.ts";
import { claimsOf, mintToken, newTestKey } from "../test/harness/tokens.ts";

const measureMs = Number(process.argv[2] ?? 2) * 1_000;
const machine = {
  clock: systemClock,
  timers: systemTimers,
  random: Math.random,
  fetch: globalThis.fetch,
  readFile: async () => "",
};
const patient = new AbortController().signal;

/** Turns a second of the asynchronous function, one after another, after a quarter of the time to warm up. */
async function perSecond(turn: () => Promise<unknown>): Promise<number> {
  for (const durationMs of [measureMs / 4, measureMs]) {
    const beginMs = performance.now();
    let turns = 0;
    while (performance.now() - beginMs < durationMs) {
      for (let i = 0; i < 100; i++) await turn();
      turns += 100;
    }
    if (durationMs === measureMs) return (turns * 1000) / (performance.now() - beginMs);
  }
  return Number.NaN;
}

async function measure(algorithm: string): Promise<Readonly<Record<"uncached" | "warm" | "many", number>>> {
  const key = newTestKey(algorithm, "key");
  const issuer = await startStaticIssuer([key.publicJwk]);
  const token = mintToken(key, claimsOf(issuer.url, Date.now()));
  const entry = issuerEntry(issuer.url);
  const options: TokenOptions & { readonly clockToleranceSeconds: number } = {
    issuers: [entry],
    proofOfPossession: { mode: "none" },
    clockToleranceSeconds: 30,
  };
  const rawHeaders = ["Host", "api.example", "Accept", "*/*", "Authorization", `Bearer ${token}`];
  const inbound: InboundRequest = {
    headerValues: (name) => headerValues(rawHeaders, name),
    remoteAddress: "127.0.0.1",
    method: "GET",
    url: "/v1/sdk/whoami",
  };
  const keys = createIssuerKeys(issuer.url, { ...machine, timeoutMs: 5_000 });
  const authenticator = createAuthenticator(
    { tokens: options, identityHeaders: undefined },
    { ...machine, onEvent() {} },
  );
  const others = Array.from({ length: 255 }, (_, i) =>
    issuerEntry(`http://127.0.0.1:1/${i}`, { tenants: { kind: "prefix", prefix: `other-${i}-` } }),
  );
  const ours = issuerEntry(issuer.url, { tenants: { kind: "prefix", prefix: "tenant-" } });
  const ofOursAlone: typeof fetch = (url, init) =>
    String(url).startsWith(issuer.url) ? fetch(url, init) : new Promise(() => {});
  const ofMany = createAuthenticator(
    { tokens: { ...options, issuers: [...others, ours] }, identityHeaders: undefined },
    { ...machine, fetch: ofOursAlone, onEvent() {} },
  );
  const signatures = createFairSemaphore(signatureLimits);
  keys.start();
  authenticator.start();
  // The others never answer, and take no time.
  ofMany.start();
  try {
    const uncached = await perSecond(async () => {
      const verification = await verifyToken(
        token,
        {
          ...entry,
          clockToleranceSeconds: 30,
          onOverreach() {},
          authSource: "bearer_token",
          signatures,
          readAttributes: () => ({}),
        },
        keys.find,
        systemClock,
        { signal: patient, mayVerify: async () => {} },
      );
      if ("refusal" in verification) throw verification.refusal;
      requireUnbound(verification.binding);
    });
    const warm = await perSecond(() => authenticator.authenticate(inbound, patient));
    const many = await perSecond(() => ofMany.authenticate(inbound, patient));
    return { warm, uncached, many };
  } finally {
    authenticator.close();
    ofMany.close();
    keys.close();
    await issuer.stop();
  }
}

process.stdout.write(
  "| algorithm | uncached/s | warm/s | ratio | warm/s, one of 256 issuers | of warm |\n|---|---|---|---|---|---|\n",
);
for (const algorithm of ["RS256", "PS256", "ES256", "EdDSA"]) {
  const { warm, uncached, many } = await measure(algorithm);
  const [low, high, one] = [uncached, warm, many].map((value) => Math.round(value).toLocaleString("en"));
  const ratios = [(warm / uncached).toFixed(0), (many / warm).toFixed(2)];
  process.stdout.write(`| ${algorithm} | ${low} | ${high} | ${ratios[0]} | ${one} | ${ratios[1]} |\n`);
}
