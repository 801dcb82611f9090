/** Interceptors of every call: fixed headers, retries around everything, and a token on each attempt. */
import { clone, type DescMessage, type Message } from "@bufbuild/protobuf";
import { Code, type ConnectError, createContextKey, type Interceptor, type UnaryRequest } from "@connectrpc/connect";
import type { DpopKey } from "./dpop.ts";
import { obligationIds, type UnderstoodObligations } from "./obligations.ts";
import { attemptError, problemOf } from "./problem.ts";
import { type RetryOptions, retry } from "./retry.ts";
import type { TokenProvider } from "./tokens.ts";

export interface WorkloadOptions {
  /** Absent: calls carry no token. */
  readonly tokens?: TokenProvider;
  /** The key of bound tokens; the token provider must have the same. */
  readonly dpop?: DpopKey;
  /** Default: four attempts. `false` for one. */
  readonly retry?: RetryOptions | false;
  /** Makes idempotency keys. Default: random UUIDs. */
  readonly newKey?: () => string;
  /**
   * Content of receipts: `brief` proves a position in the log, `whole` the record too. Default: the service's, `whole`.
   */
  readonly receipts?: "brief" | "whole" | "none";
  /** Obligations that the program meets, added to decision calls that list none. */
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
 * Gives each registration and event a key, also in bulk calls, unless the caller chose one, so that retries are
 * recorded once.
 */
export function idempotencyKey(newKey: () => string): Interceptor {
  return (next) => (request) => {
    if (request.stream) return next(request);
    const { header, method } = request;
    if (keyed.has(method.name) && !header.has("idempotency-key")) header.set("idempotency-key", newKey());
    return next(
      withParts(request, "idempotencyKey", (item: { idempotencyKey: string }) => {
        item.idempotencyKey ||= newKey();
      }),
    );
  };
}

/** Changes every part of the request that has this member: the request itself, or each item of a bulk call. */
function withParts<Part>(request: UnaryRequest, member: string, change: (part: Part) => void): UnaryRequest {
  const { input } = request.method;
  const has = (desc: DescMessage | undefined) => desc?.field[member] !== undefined;
  const isBulk = has(input.field.items?.message);
  if (!isBulk && !has(input)) return request;
  const message: Message & { readonly items?: Part[] } = clone(input, request.message);
  for (const part of isBulk ? (message.items ?? []) : [message as Part]) change(part);
  return { ...request, message };
}

function receiptHeader(name: string, receipts: "brief" | "whole" | "none"): Interceptor {
  return (next) => (request) => {
    if (!request.header.has(name)) request.header.set(name, receipts === "whole" ? "full" : receipts);
    return next(request);
  };
}

/** Adds the obligations to decision requests that list none, also in bulk calls. */
function understanding(ids: readonly string[]): Interceptor {
  return (next) => (request) => {
    if (request.stream) return next(request);
    return next(
      withParts(
        request,
        "understoodObligations",
        ({ understoodObligations: list }: { understoodObligations: string[] }) => {
          if (list.length === 0) list.push(...ids);
        },
      ),
    );
  };
}

export type Renewal = "token" | "nonce";

/** Renewals for a stream since the last acknowledgement: its opener makes the next attempt. */
export const renewalsKey = createContextKey<Set<Renewal> | undefined>(undefined, { description: "renewals" });

/**
 * Adds the token, and a proof if it is bound to a key, to each attempt. Replaces an expired token, and uses a requested
 * nonce, once each.
 */
export function authorize(tokens: TokenProvider, dpop?: DpopKey): Interceptor {
  /** Whether the certificate changed between token and call, so that there is a new token. */
  const isReplaced = async (token: string, signal: AbortSignal) =>
    dpop === undefined && (await tokens.token(signal)) !== token;
  /** What can be renewed after this failure, and was not renewed before. */
  const renewal = async (error: ConnectError, { url, signal }: Call, token: string, before: ReadonlySet<Renewal>) => {
    // Even one that another call has stored meanwhile: this call's proof lacked it.
    const hasNonce = dpop?.takeNonce(url, error.metadata) === true;
    if (error.code !== Code.Unauthenticated) return undefined;
    const { reason } = problemOf(error);
    // A new token does not help if it is invalid now, but does once the issuer has replaced its signing key.
    if (reason === "expired_token" || reason === "invalid_token") tokens.refused(token);
    if (!before.has("token")) {
      if (reason === "expired_token") return "token";
      if (reason === "proof_of_possession_failed" && (await isReplaced(token, signal))) return "token";
    }
    return hasNonce && !before.has("nonce") ? "nonce" : undefined;
  };
  return (next) => async (request) => {
    const renewals = request.contextValues.get(renewalsKey) ?? new Set<Renewal>();
    for (;;) {
      const token = await tokens.token(request.signal);
      request.header.set("authorization", `${dpop === undefined ? "Bearer" : "DPoP"} ${token}`);
      const { url, requestMethod: method } = request;
      if (dpop !== undefined) request.header.set("dpop", await dpop.proof({ method, url, accessToken: token }));
      const renew = async (thrown: unknown): Promise<void> => {
        const error = attemptError(thrown, request.signal);
        const renewed = await renewal(error, request, token, renewals);
        if (renewed !== undefined) renewals.add(renewed);
        // What was sent on a stream cannot be repeated here.
        if (renewed === undefined || request.stream) throw error;
      };
      try {
        const response = await next(request);
        dpop?.takeNonce(url, response.header);
        return response.stream ? { ...response, message: watched(response.message, renew) } : response;
      } catch (thrown) {
        await renew(thrown);
      }
    }
  };
}

type Call = Pick<UnaryRequest, "url" | "signal">;

async function* watched<T>(messages: AsyncIterable<T>, onError: (thrown: unknown) => Promise<void>): AsyncGenerator<T> {
  try {
    yield* messages;
  } catch (thrown) {
    await onError(thrown);
  }
}
