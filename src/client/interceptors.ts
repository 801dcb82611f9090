/** What every call of a workload passes: an idempotency key, retries around it all, and a token on each attempt. */
import { Code, ConnectError, type Interceptor } from "@connectrpc/connect";
import { problemOf } from "./problem.ts";
import { type RetryOptions, retry } from "./retry.ts";
import type { TokenProvider } from "./tokens.ts";

export interface WorkloadOptions {
  readonly tokens: TokenProvider;
  /** Default: four attempts. `false` for one. */
  readonly retry?: RetryOptions | false;
  /** Makes idempotency keys. Default: random UUIDs. */
  readonly newKey?: () => string;
}

/** The interceptors for a transport, outermost first. */
export function workloadInterceptors(options: WorkloadOptions): Interceptor[] {
  return [
    idempotencyKey(options.newKey ?? (() => crypto.randomUUID())),
    ...(options.retry === false ? [] : [retry(options.retry)]),
    authorize(options.tokens),
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

/** Puts the token on a call. One that has expired, or is refused for another fault of its own, is replaced once. */
export function authorize(tokens: TokenProvider): Interceptor {
  return (next) => async (request) => {
    const attempt = async () => {
      const token = await tokens.token(request.signal);
      request.header.set("authorization", `Bearer ${token}`);
      return { token, response: await next(request).catch((error: unknown) => ConnectError.from(error)) };
    };
    const first = await attempt();
    if (!(first.response instanceof ConnectError)) return first.response;
    if (!isStale(first.response)) throw first.response;
    tokens.refused(first.token);
    const second = await attempt();
    if (second.response instanceof ConnectError) throw second.response;
    return second.response;
  };
}

function isStale(error: ConnectError): boolean {
  if (error.code !== Code.Unauthenticated) return false;
  const { reason } = problemOf(error);
  return reason === "expired_token" || reason === "invalid_token";
}
