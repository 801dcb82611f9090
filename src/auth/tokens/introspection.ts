/** Tokens that say nothing to us: their issuer is asked about each (RFC 7662), within limits. */
import { hash } from "node:crypto";
import type { JWTPayload } from "jose";
import { ServiceError } from "../../base/errors.ts";
import type { IntrospectionRule } from "../../base/issuers.ts";
import { createSemaphore } from "../../base/semaphore.ts";
import { issuerSilent, refusedToken } from "../challenge.ts";
import { askIssuer, type IntrospectionContext } from "./introspection-client.ts";
import type { IssuerStatus } from "./issuer-keys.ts";
import { createRefetchBudget, untilAborted } from "./refetch-budget.ts";
import type { Verification, Verify } from "./token-cache.ts";
import { checkBegun, foreignTenant, judgeClaims, type TokenRules } from "./token-claims.ts";

/** Longest time that an answer is believed. */
const believedMs = 60_000;
/** The same for an answer that a token counts nothing: it may begin to. */
const disbelievedMs = 10_000;
/** Tokens that one issuer is asked about in a second. */
const callsEachSecond = 100;
/** Questions to one issuer at a time, and those that wait for their turn. */
const maximumCalls = 16;
const maximumWaiting = 1_000;
const retryAfterSeconds = 1;

/** How a question went, for metrics. `unasked`: there was no room for it. */
export type IntrospectionResult = "active" | "inactive" | "failed" | "unasked";

export interface IntrospectionDependencies extends IntrospectionContext {
  readonly clock: { now(): number };
  readonly onAnswered: (result: IntrospectionResult) => void;
}

export interface Introspection {
  readonly verify: Verify;
  /** Ready always: what is needed to ask is there. A question that failed shows in the remark until one does not. */
  status(): IssuerStatus;
}

/** A question that is under way; it ends with the last of those who wait for its answer. */
interface Asking {
  readonly answer: Promise<Record<string, unknown> | ServiceError>;
  readonly left: AbortController;
  waiting: number;
}

const late = () => issuerSilent(retryAfterSeconds, "the caller's deadline came first");

/** Asks about each token once at a time, whoever waits for it. */
export function createIntrospection(
  introspection: IntrospectionRule,
  rules: TokenRules,
  dependencies: IntrospectionDependencies,
): Introspection {
  const { clock, signal: closing, onAnswered } = dependencies;
  const budget = createRefetchBudget(callsEachSecond, 1_000, clock);
  const slots = createSemaphore(maximumCalls, maximumWaiting);
  const asked = new Map<string, Asking>();
  let failure: string | undefined;

  /** Resolves with the refusal where there is no answer: it is everybody's who waits. */
  async function ask(token: string, left: AbortSignal): Promise<Record<string, unknown> | ServiceError> {
    const signal = AbortSignal.any([closing, left]);
    try {
      const answer = await slots.run(() => askIssuer(token, introspection, { ...dependencies, signal }), signal);
      if (typeof answer.active !== "boolean")
        throw new Error("the issuer's introspection says not whether it is active");
      failure = undefined;
      onAnswered(answer.active ? "active" : "inactive");
      return answer;
    } catch (error) {
      if (left.aborted) return late();
      // Of the semaphore: too many wait.
      const isUnasked = error instanceof ServiceError;
      if (!isUnasked) failure = error instanceof Error ? error.message : "unknown error";
      onAnswered(isUnasked ? "unasked" : "failed");
      return issuerSilent(retryAfterSeconds, isUnasked ? "too many tokens are asked about" : String(failure));
    }
  }

  /** @throws ServiceError `issuer_unavailable` */
  function answerAbout(key: string, token: string): Asking {
    const known = asked.get(key);
    if (known !== undefined) return known;
    if (!budget.take()) {
      onAnswered("unasked");
      throw issuerSilent(retryAfterSeconds, "no more tokens are asked about in this second");
    }
    const left = new AbortController();
    const asking = { answer: ask(token, left.signal), left, waiting: 0 };
    asked.set(key, asking);
    return asking;
  }

  function judge(answer: Record<string, unknown>): Verification {
    const nowMs = clock.now();
    const notYet = { by: "signature", lookAgainAtMs: nowMs + disbelievedMs } as const;
    if (answer.active !== true) {
      const refusal = refusedToken("invalid_token", "the access token is not active", "token active");
      return { refusal, ...notYet };
    }
    try {
      const nowSeconds = Math.floor(nowMs / 1000);
      // §2.2: `iss` may be left out, and the answer is the issuer's own.
      const payload: JWTPayload = Object.hasOwn(answer, "iss") ? answer : { ...answer, iss: rules.issuer };
      checkTokenType(answer);
      const verified = judgeClaims(payload, rules, nowSeconds);
      checkBegun(payload, nowSeconds + rules.clockToleranceSeconds);
      const refusal = foreignTenant(verified, rules);
      if (refusal === undefined) {
        return { ...verified, lookAgainAtMs: Math.min(nowMs + believedMs, verified.expiresAtMs) };
      }
      rules.onOverreach(verified.caller.tenantId);
      return { refusal, ...notYet };
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      return { refusal: error, ...notYet };
    }
  }

  return {
    async verify(token, { signal, mayVerify }) {
      await mayVerify("unknown");
      const key = hash("sha256", token, "base64");
      const asking = answerAbout(key, token);
      asking.waiting += 1;
      const answer = await untilAborted(asking.answer, signal, late).finally(() => {
        asking.waiting -= 1;
        if (asked.get(key) === asking && (asking.waiting === 0 || !signal.aborted)) asked.delete(key);
        if (asking.waiting === 0) asking.left.abort();
      });
      if (answer instanceof ServiceError) throw answer;
      return judge(answer);
    },
    status: () => ({
      issuerReady: true,
      detail: failure ?? "asked about each token",
      ...(failure !== undefined && { remark: failure }),
    }),
  };
}

/** RFC 7662 §2.2, RFC 6749 §7.1: a refresh token is active too. */
function checkTokenType({ token_type: type }: Record<string, unknown>): void {
  if (type === undefined || (typeof type === "string" && /^(bearer|dpop)$/i.test(type))) return;
  throw refusedToken("invalid_token", "the token is not an access token", "token token_type");
}
