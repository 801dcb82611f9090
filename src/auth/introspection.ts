/** Opaque tokens: their issuer is asked about each (RFC 7662), within limits. */
import { hash } from "node:crypto";
import type { JWTPayload } from "jose";
import { clockToleranceSeconds } from "../base/clock.ts";
import { ServiceError } from "../base/errors.ts";
import { createSemaphore } from "../base/fair-queue.ts";
import type { IntrospectionRule } from "../base/issuers.ts";
import { untilAborted } from "../base/timers.ts";
import { issuerUnavailable, refusedToken } from "./challenge.ts";
import { type FetchContext, postForm } from "./issuer-documents.ts";
import { createRefetchBudget, type IssuerStatus } from "./issuer-keys.ts";
import type { Verification, Verify } from "./token-cache.ts";
import { checkBegun, foreignTenant, isForeign, judgeClaims, type TokenRules } from "./token-verifier.ts";

const maximumBytes = 64 * 1024;

interface IntrospectionContext extends FetchContext {
  /** Content of the file, as UTF-8. */
  readonly readFile: (path: string) => Promise<string>;
}

/**
 * Asks the issuer about the token (§2.1). Reads credential files each time, so that they can be replaced. Does not
 * check the content of the answer.
 * @throws Error that describes the problem without secrets
 */
export async function askIssuer(
  token: string,
  { endpoint, clientId, credentials }: IntrospectionRule,
  context: IntrospectionContext,
): Promise<Record<string, unknown>> {
  const form = { token, token_type_hint: "access_token" };
  const url = new URL(endpoint);
  if (credentials.kind === "secret") {
    const secret = (await context.readFile(credentials.file)).trim();
    if (secret === "") throw new Error("the client secret's file is empty");
    return postForm(url, "introspection", context, form, { client: [clientId, secret], maximumBytes });
  }
  // RFC 8705 §2.1: the certificate is the client's credential; the form carries its id.
  const [cert = "", key = ""] = await Promise.all(
    [credentials.certificateFile, credentials.keyFile].map(context.readFile),
  );
  return postForm(url, "introspection", context, { ...form, client_id: clientId }, { cert, key, maximumBytes });
}

/** Longest time that an answer is cached. */
const believedMs = 60_000;
/** Longest time that a negative answer is cached: the token may become active. */
const disbelievedMs = 10_000;
/** Questions to one issuer per second. */
const callsEachSecond = 100;
/** Concurrent questions to one issuer, and questions that wait. */
const maximumCalls = 16;
const maximumWaiting = 1_000;

/** Outcome of a question, for metrics. `unasked`: a limit was reached. */
export type IntrospectionResult = "active" | "inactive" | "failed" | "unasked";

interface IntrospectionDependencies extends IntrospectionContext {
  readonly clock: { now(): number };
  readonly onAnswered: (result: IntrospectionResult) => void;
}

/** A question in progress; it is aborted when the last caller that waits for it leaves. */
interface Asking {
  readonly answer: Promise<Record<string, unknown> | ServiceError>;
  readonly left: AbortController;
  waiting: number;
}

const issuerSilent = (cause: string) => issuerUnavailable(1, cause, "the token issuer does not answer");
const inactive = refusedToken("invalid_token", "the access token is not active", "token active");
const late = () => issuerSilent("the caller's deadline passed first");

/**
 * Asks about each token only once at a time; concurrent callers share the answer. The status is always ready: a failed
 * question shows in its remark until one succeeds.
 */
export function createIntrospection(
  introspection: IntrospectionRule,
  rules: TokenRules,
  dependencies: IntrospectionDependencies,
): { readonly verify: Verify; readonly status: () => IssuerStatus } {
  const { clock, signal: closing, onAnswered } = dependencies;
  const budget = createRefetchBudget(callsEachSecond, 1_000, clock);
  const slots = createSemaphore(maximumCalls, maximumWaiting);
  const asked = new Map<string, Asking>();
  let failure: string | undefined;

  /** Resolves with a refusal if there is no answer, for all callers that wait. */
  async function ask(token: string, left: AbortSignal): Promise<Record<string, unknown> | ServiceError> {
    const signal = AbortSignal.any([closing, left]);
    try {
      const answer = await slots.run(() => askIssuer(token, introspection, { ...dependencies, signal }), signal);
      if (typeof answer.active !== "boolean")
        throw new Error("the issuer's introspection response has no boolean active");
      failure = undefined;
      onAnswered(answer.active ? "active" : "inactive");
      return answer;
    } catch (error) {
      if (left.aborted) return late();
      // The semaphore refuses if too many wait.
      const isUnasked = error instanceof ServiceError;
      if (!isUnasked) failure = error instanceof Error ? error.message : "unknown error";
      onAnswered(isUnasked ? "unasked" : "failed");
      return issuerSilent(isUnasked ? "too many introspections are waiting" : String(failure));
    }
  }

  /** @throws ServiceError `issuer_unavailable` */
  function answerAbout(key: string, token: string): Asking {
    const known = asked.get(key);
    if (known !== undefined) return known;
    if (!budget.take()) {
      onAnswered("unasked");
      throw issuerSilent("the introspections of this second are used up");
    }
    const left = new AbortController();
    const asking = { answer: ask(token, left.signal), left, waiting: 0 };
    asked.set(key, asking);
    return asking;
  }

  function judge(answer: Record<string, unknown>): Verification {
    const nowMs = clock.now();
    const refused = (refusal: ServiceError) => ({ refusal, lookAgainAtMs: nowMs + disbelievedMs });
    if (answer.active !== true) return refused(inactive);
    try {
      const nowSeconds = Math.floor(nowMs / 1000);
      // §2.2: `iss` may be absent, and the answer comes from the issuer.
      const payload: JWTPayload = Object.hasOwn(answer, "iss") ? answer : { ...answer, iss: rules.issuer };
      checkTokenType(answer);
      const verified = judgeClaims(payload, rules, nowSeconds);
      checkBegun(payload, nowSeconds + clockToleranceSeconds);
      if (!isForeign(verified, rules))
        return { ...verified, lookAgainAtMs: Math.min(nowMs + believedMs, verified.expiresAtMs) };
      rules.onOverreach(verified.caller.tenantId);
      return refused(foreignTenant);
    } catch (error) {
      if (!(error instanceof ServiceError)) throw error;
      return refused(error);
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
      detail: failure ?? "tokens are introspected",
      ...(failure !== undefined && { remark: failure }),
    }),
  };
}

/** RFC 7662 §2.2, RFC 6749 §7.1: a refresh token is active too. */
function checkTokenType({ token_type: type }: Record<string, unknown>): void {
  if (type === undefined || (typeof type === "string" && /^(bearer|dpop)$/i.test(type))) return;
  throw refusedToken("invalid_token", "the token is not an access token", "token token_type");
}
