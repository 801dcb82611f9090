/** What every call of a workload passes: what it always carries, retries around it all, and a token on each attempt. */
import { clone } from "@bufbuild/protobuf";
import { Code, type Interceptor } from "@connectrpc/connect";
import {
  PlanKeyAccessRequestSchema,
  type PlanProtectionRequest,
  PlanProtectionRequestSchema,
  ResolvePolicyRequestSchema,
} from "../../../gen/platform/sdk/v1/protection_pb.ts";
import type { DpopKey } from "./dpop.ts";
import { obligationIds, type UnderstoodObligations } from "./obligations.ts";
import { attemptError, problemOf } from "./problem.ts";
import { type RetryOptions, retry } from "./retry.ts";
import type { TokenProvider } from "./tokens.ts";

export interface WorkloadOptions {
  /** Absent: calls carry no token. */
  readonly tokens?: TokenProvider;
  /** The key that tokens are bound to, where they are; the token provider has the same. */
  readonly dpop?: DpopKey;
  /** Default: four attempts. `false` for one. */
  readonly retry?: RetryOptions | false;
  /** Makes idempotency keys. Default: random UUIDs. */
  readonly newKey?: () => string;
  /** What receipts hold: `brief` proves a position in the log, `whole` the record too. Default: the service's, `whole`. */
  readonly receipts?: "brief" | "whole" | "none";
  /** Obligations that the program meets, put on decision calls that list none themselves. */
  readonly understoodObligations?: UnderstoodObligations;
  /** Prefix of the service's own headers. Default `x-svc-`. */
  readonly headerPrefix?: string;
}

/** The interceptors for a transport, outermost first. */
export function workloadInterceptors(options: WorkloadOptions): Interceptor[] {
  const { tokens, dpop, newKey = () => crypto.randomUUID(), receipts, headerPrefix = "x-svc-" } = options;
  const ids = obligationIds(options.understoodObligations ?? []);
  return [
    idempotencyKey(newKey),
    ...(ids.length > 0 ? [understanding(ids)] : []),
    ...(receipts === undefined ? [] : [receiptHeader(`${headerPrefix}receipt`, receipts)]),
    ...(options.retry === false ? [] : [retry(options.retry)]),
    ...(tokens === undefined ? [] : [authorize(tokens, dpop)]),
  ];
}

const keyed: ReadonlySet<string> = new Set(["RegisterArtifact", "RecordEvidence"]);

/**
 * Gives each registration and event a key, unless the caller chose one: however often such a call is sent, it is
 * recorded once.
 */
export function idempotencyKey(newKey: () => string): Interceptor {
  return (next) => (request) => {
    const { header, method } = request;
    if (keyed.has(method.name) && !header.has("idempotency-key")) header.set("idempotency-key", newKey());
    return next(request);
  };
}

function receiptHeader(name: string, receipts: "brief" | "whole" | "none"): Interceptor {
  return (next) => (request) => {
    if (!request.header.has(name)) request.header.set(name, receipts === "whole" ? "full" : receipts);
    return next(request);
  };
}

const decisionRequests = [PlanProtectionRequestSchema, ResolvePolicyRequestSchema, PlanKeyAccessRequestSchema] as const;

/** Lists the obligations in requests for a decision that list none. */
function understanding(ids: readonly string[]): Interceptor {
  return (next) => (request) => {
    const schema = decisionRequests.find(({ typeName }) => typeName === request.method.input.typeName);
    if (schema === undefined || request.stream) return next(request);
    const message = clone<typeof PlanProtectionRequestSchema>(
      schema as typeof PlanProtectionRequestSchema,
      request.message as PlanProtectionRequest,
    );
    if (message.understoodObligations.length === 0) message.understoodObligations.push(...ids);
    return next({ ...request, message } as typeof request);
  };
}

/**
 * Puts the token, and where it is bound to a key the proof, on each attempt. A token that has expired is replaced, and a
 * nonce that the service asks for taken up, once each.
 */
export function authorize(tokens: TokenProvider, dpop?: DpopKey): Interceptor {
  /** Whether the certificate changed between token and call: then there is another token by now. */
  const isReplaced = async (token: string, signal: AbortSignal) =>
    dpop === undefined && (await tokens.token(signal)) !== token;
  return (next) => async (request) => {
    let mayReplace = true;
    let mayTakeNonce = true;
    for (;;) {
      const token = await tokens.token(request.signal);
      request.header.set("authorization", `${dpop === undefined ? "Bearer" : "DPoP"} ${token}`);
      const { url, requestMethod: method } = request;
      if (dpop !== undefined) request.header.set("dpop", await dpop.proof({ method, url, accessToken: token }));
      try {
        const response = await next(request);
        dpop?.takeNonce(url, response.header);
        return response;
      } catch (thrown) {
        const error = attemptError(thrown, request.signal);
        const hasNewNonce = dpop?.takeNonce(url, error.metadata) === true;
        if (error.code !== Code.Unauthenticated) throw error;
        const { reason } = problemOf(error);
        // Where it is invalid another is no better now; it is once the issuer has replaced the key that signed this one.
        if (reason === "expired_token" || reason === "invalid_token") tokens.refused(token);
        if (reason === "expired_token" && mayReplace) {
          mayReplace = false;
        } else if (reason === "proof_of_possession_failed" && mayReplace && (await isReplaced(token, request.signal))) {
          mayReplace = false;
        } else if (hasNewNonce && mayTakeNonce) {
          mayTakeNonce = false;
        } else {
          throw error;
        }
      }
    }
  };
}
