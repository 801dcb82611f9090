/** Tokens that are bound to a key of the client (RFC 9449). */
import assert from "node:assert/strict";
import { answered, type Case, call, counts, failed, noFaults } from "../check.ts";

const whoami = call("whoami");
const unavailable = { does: "refuse", code: "unavailable", reason: "store_unavailable" } as const;

export const dpop: readonly Case[] = [
  {
    name: "dpop/proofs",
    says: "Every request carries a proof of its own by one key: method, URL, hash of the token, a fresh id (§4.2).",
    request: { steps: [whoami, call("evidence")], dpop: true },
    answers: [answered(), answered()],
    sees(seen) {
      noFaults(seen);
      counts(seen, 2);
      const [first, second] = seen.calls;
      assert.notEqual(first?.proof?.jti, second?.proof?.jti);
    },
  },
  {
    name: "dpop/proof-for-each-attempt",
    says: "An attempt that follows another has a proof of its own.",
    request: { steps: [whoami], dpop: true },
    server: { acts: [unavailable, unavailable] },
    answers: [answered()],
    sees(seen) {
      noFaults(seen);
      counts(seen, 3);
    },
  },
  {
    name: "dpop/nonce",
    says: "A service that asks for a nonce is called again at once with it, and every proof carries it from then on (§9).",
    request: { steps: [whoami, whoami], dpop: true, options: { max_attempts: 1 } },
    server: { nonces: ["nonce-1"] },
    answers: [answered(), answered()],
    sees(seen) {
      counts(seen, 3);
      assert.deepEqual(
        seen.calls.map(({ proof }) => proof?.nonce),
        [undefined, "nonce-1", "nonce-1"],
      );
    },
  },
  {
    name: "dpop/nonce-changes",
    says: "A nonce that is asked for later replaces the one before.",
    request: { steps: [whoami, whoami], dpop: true },
    server: { nonces: ["nonce-1", "nonce-2"] },
    answers: [answered(), answered()],
    sees: (seen) => counts(seen, 4),
  },
  {
    name: "dpop/nonce-announced",
    says: "A nonce that comes with an answer is the next proof's (§8.2).",
    request: { steps: [whoami, whoami, whoami], dpop: true },
    server: { nonces: ["nonce-1", "nonce-2", "nonce-3"], announcesNonces: true },
    answers: [answered(), answered(), answered()],
    sees: (seen) => counts(seen, 4),
  },
  {
    name: "dpop/nonce-for-ever",
    says: "A second challenge in a row is an error.",
    request: { steps: [whoami], dpop: true },
    server: { challengesForEver: true },
    answers: [failed("unauthenticated", "proof_of_possession_failed")],
    sees: (seen) => counts(seen, 2),
  },
  {
    name: "dpop/nonce-of-the-issuer",
    says: "The issuer has nonces of its own: its challenge is met, and its nonce is not sent to the service (§8).",
    request: { steps: [whoami], dpop: true, options: { max_attempts: 1 } },
    issuer: { nonce: "nonce-of-the-issuer" },
    answers: [answered()],
    sees(seen) {
      noFaults(seen);
      counts(seen, 1, 2);
      assert.equal(seen.calls[0]?.proof?.nonce, undefined);
    },
  },
];
