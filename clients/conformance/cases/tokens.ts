/** Access tokens by the client-credentials grant (RFC 6749 §4.4). */
import assert from "node:assert/strict";
import { all, answered, type Case, call, counts, failed, noFaults } from "../check.ts";

const expired = { does: "refuse", code: "unauthenticated", reason: "expired_token" } as const;
const short = { does: "grant", lifetimeSeconds: 2 } as const;
const whoami = call("whoami");

export const tokens: readonly Case[] = [
  {
    name: "tokens/kept",
    says: "A token is fetched once and kept for the calls that follow; the issuer's document is read once too.",
    request: { steps: [whoami, call("evidence"), whoami] },
    answers: [answered(), answered(), answered()],
    sees(seen) {
      noFaults(seen);
      counts(seen, 3);
      assert.equal(seen.discoveries, 1);
    },
  },
  {
    name: "tokens/one-for-all-at-once",
    says: "Calls that need a token at the same time share one request.",
    request: { steps: [{ call: "concurrent", calls: Array.from({ length: 8 }, () => whoami) }] },
    issuer: { acts: [{ does: "grant", afterMs: 300 }] },
    answers: [all(answered())],
    sees(seen) {
      noFaults(seen);
      counts(seen, 8);
    },
  },
  {
    name: "tokens/scopes",
    says: "Asks for the scopes given, separated by spaces.",
    request: { steps: [whoami] },
    answers: [answered()],
    sees: ({ tokenRequests: [first] }) => assert.equal(first?.form.get("scope"), "platform-api.access policy.read"),
  },
  {
    name: "tokens/certificate-at-issuer",
    says: "Presents the client certificate to the issuer, so that the token can be bound to it (RFC 8705 §3).",
    request: { steps: [whoami] },
    answers: [answered()],
    sees: ({ tokenRequests: [first] }) => assert.ok(first?.certificate !== undefined),
  },
  {
    name: "tokens/tls-client-auth",
    says: "Without a secret the client authenticates by its certificate, and names itself (RFC 8705 §2.1).",
    request: { steps: [whoami], token: "certificate" },
    answers: [answered()],
    sees: ({ tokenRequests: [first] }) => assert.equal(first?.method, "tls_client_auth"),
  },
  {
    name: "tokens/replaced-before-they-expire",
    says: "A new token is fetched before the old one expires: no expired token is sent.",
    request: { steps: [whoami, call("whoami", { pause_ms: 2_500 })] },
    issuer: { acts: [short, { does: "grant" }] },
    answers: [answered(), answered()],
    sees: noFaults,
  },
  {
    name: "tokens/replaced-once-when-expired",
    says: "A token that the service calls expired is replaced, and the call made again.",
    request: { steps: [whoami, whoami] },
    server: { acts: [expired] },
    answers: [answered(), answered()],
    sees(seen) {
      counts(seen, 3, 2);
      const [first, second, third] = seen.calls;
      assert.notEqual(second?.token, first?.token);
      assert.equal(third?.token, second?.token);
    },
  },
  {
    name: "tokens/not-replaced-twice",
    says: "A second token that is called expired is not replaced: the error is handed out.",
    request: { steps: [whoami] },
    server: { acts: [expired, expired, expired, expired, expired] },
    answers: [failed("unauthenticated", "expired_token")],
    sees: (seen) => counts(seen, 2, 2),
  },
  {
    name: "tokens/invalid-token-is-final",
    says: "A token that is refused for anything else is not replaced within the call: another would be no better.",
    request: { steps: [whoami] },
    server: { acts: [{ does: "refuse", code: "unauthenticated", reason: "invalid_token" }] },
    answers: [failed("unauthenticated", "invalid_token")],
    sees: (seen) => counts(seen, 1),
  },
  ...(["expired_token", "invalid_token"] as const).map((reason): Case => {
    const refusal = { does: "refuse", code: "unauthenticated", reason } as const;
    const attempts = reason === "expired_token" ? 2 : 1;
    return {
      name: `tokens/forgotten-after-${reason}`,
      says: "A token that a call failed for is not sent again: the next call fetches another.",
      request: { steps: [whoami, whoami] },
      server: { acts: Array.from({ length: attempts }, () => refusal) },
      answers: [failed("unauthenticated", reason), answered()],
      sees(seen) {
        counts(seen, attempts + 1, attempts + 1);
        assert.equal(new Set(seen.calls.map(({ token }) => token)).size, attempts + 1, "different tokens");
      },
    };
  }),
  {
    name: "tokens/new-key-of-the-issuer",
    says: "A service that does not know the issuer's new key yet says `issuer_unavailable` and when: the call is made again.",
    request: { steps: [whoami] },
    server: { acts: [{ does: "refuse", code: "unavailable", reason: "issuer_unavailable", retryAfterSeconds: 1 }] },
    answers: [answered()],
    sees: (seen) => counts(seen, 2),
  },
  {
    name: "tokens/wrong-secret",
    says: "An issuer that knows the client not is final: no call is made, and the code is `unauthenticated`.",
    request: { steps: [whoami], token: "wrong-secret" },
    answers: [failed("unauthenticated")],
    sees: (seen) => counts(seen, 0, 1),
  },
  {
    name: "tokens/refused-then-granted",
    says: "A failure is not kept: the next call asks the issuer again.",
    request: { steps: [whoami, whoami] },
    issuer: { acts: [{ does: "refuse", status: 400, error: "invalid_scope" }] },
    answers: [failed("unauthenticated"), answered()],
    sees: (seen) => counts(seen, 1, 2),
  },
  {
    name: "tokens/issuer-answers-503-once",
    says: "The token belongs to the attempt: an issuer that cannot answer now is asked again.",
    request: { steps: [whoami] },
    issuer: { acts: [{ does: "page", status: 503 }] },
    answers: [answered()],
    sees: (seen) => counts(seen, 1, 2),
  },
  {
    name: "tokens/issuer-answers-503",
    says: "An issuer that never answers makes the call fail as `unavailable`, after as many attempts as are allowed.",
    request: { steps: [whoami], options: { max_attempts: 3 } },
    issuer: { acts: Array.from({ length: 9 }, () => ({ does: "page", status: 503 }) as const) },
    answers: [failed("unavailable")],
    sees: (seen) => counts(seen, 0, 3),
  },
  {
    name: "tokens/issuer-breaks-off",
    says: "A connection to the issuer that breaks off is as good as none.",
    request: { steps: [whoami] },
    issuer: { acts: [{ does: "reset" }] },
    answers: [answered()],
    sees: (seen) => counts(seen, 1, 2),
  },
  {
    name: "tokens/document-of-another-issuer",
    says: "A discovery document that names another issuer is not used (OpenID Connect Discovery 1.0 §4.3).",
    request: { steps: [whoami], options: { max_attempts: 2 } },
    issuer: { claims: "https://localhost:1/realms/other" },
    answers: [failed(["unauthenticated", "unavailable"])],
    sees: (seen) => counts(seen, 0, 0),
  },
];
