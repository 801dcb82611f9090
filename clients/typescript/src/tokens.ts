/**
 * Access tokens by the client-credentials grant (RFC 6749 §4.4), fetched when needed and cached until shortly before
 * they expire.
 */
import { Code, ConnectError } from "@connectrpc/connect";
import type { DpopKey } from "./dpop.ts";
import { exchange, type HttpAnswer, type HttpClient } from "./http.ts";

/** Source of tokens for calls. */
export interface TokenProvider {
  /** Returns a token that stays valid for some time. Rejects with a `ConnectError` if there is none. */
  token(signal?: AbortSignal): Promise<string>;
  /** Notes that the service refused this token, which is not returned again. */
  refused(token: string): void;
}

/** Options of every caching source of tokens. */
export interface KeptTokenOptions {
  readonly http: HttpClient;
  /** Time for fetching one token, in milliseconds. Default 10,000. */
  readonly timeoutMs?: number;
  /** Milliseconds since the epoch. Default: the machine's clock. */
  readonly now?: () => number;
}

export interface ClientCredentialsOptions extends KeptTokenOptions {
  /** Identifier of the issuer; its discovery document names the token endpoint. */
  readonly issuer: string;
  readonly clientId: string;
  /** Absent: the client authenticates by its certificate (RFC 8705 §2.1). */
  readonly clientSecret?: string;
  /** How the secret is sent. Default `client_secret_basic`. */
  readonly authentication?: "client_secret_basic" | "client_secret_post";
  /** Key to bind tokens to (RFC 9449 §5); calls need the same. Default: none. */
  readonly dpop?: DpopKey;
  /** Requested scopes. Default: the issuer's default. */
  readonly scopes?: readonly string[];
  /** Audience, for issuers that require it (RFC 8707 `resource`, or `audience`). Default: none. */
  readonly parameters?: Readonly<Record<string, string>>;
  /** Must present the client certificate if tokens are bound to it (RFC 8705 §3). */
  readonly http: HttpClient;
}

/** A token is replaced when less than this is left of its life, in milliseconds, or a fifth of it, if that is less. */
const refreshMarginMs = 30_000;

export interface FetchedToken {
  readonly token: string;
  readonly lifetimeMs: number;
}

/** Creates the provider. Concurrent calls share a request; after a failure the next call tries again. */
export function clientCredentials(options: ClientCredentialsOptions): TokenProvider {
  let endpoint: string | undefined;
  return keptTokens(options, async (signal) => {
    endpoint ??= await discoverTokenEndpoint(options, signal);
    return requestToken(endpoint, options, signal);
  });
}

/**
 * Caches a token until shortly before it expires, or until the HTTP client presents another certificate: tokens may be
 * bound to the old one.
 */
export function keptTokens(
  { http, timeoutMs = 10_000, now = Date.now }: KeptTokenOptions,
  request: (signal: AbortSignal) => Promise<FetchedToken>,
): TokenProvider {
  let held: { readonly token: string; readonly staleAtMs: number; readonly identity: unknown } | undefined;
  let fetching: Promise<NonNullable<typeof held>> | undefined;

  const fetchToken = async () => {
    const identity = http.identity?.();
    const askedAtMs = now();
    const timeout = AbortSignal.timeout(timeoutMs);
    const { token, lifetimeMs } = await request(timeout).catch((error: unknown) => {
      if (!timeout.aborted) throw error;
      throw new ConnectError(`no token came within ${timeoutMs} ms`, Code.Unavailable, undefined, undefined, error);
    });
    return { token, identity, staleAtMs: askedAtMs + lifetimeMs - Math.min(refreshMarginMs, lifetimeMs / 5) };
  };

  return {
    async token(signal) {
      if (held !== undefined && now() < held.staleAtMs && held.identity === http.identity?.()) return held.token;
      fetching ??= fetchToken().finally(() => {
        fetching = undefined;
      });
      held = await unlessAborted(fetching, signal);
      return held.token;
    },
    refused(token) {
      if (held?.token === token) held = undefined;
    },
  };
}

async function discoverTokenEndpoint({ issuer, http }: ClientCredentialsOptions, signal: AbortSignal): Promise<string> {
  const url = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
  const { status, text } = await exchange(http, { url, method: "GET", headers: new Headers(), signal });
  const document = parseObject(text);
  // OpenID Connect Discovery 1.0 §4.3: a document of another issuer must not be used.
  if (status !== 200 || document?.issuer !== issuer || typeof document.token_endpoint !== "string") {
    throw new ConnectError(`the issuer's discovery document is not usable (HTTP ${status})`, Code.Unavailable);
  }
  return document.token_endpoint;
}

async function requestToken(
  url: string,
  options: ClientCredentialsOptions,
  signal: AbortSignal,
): Promise<FetchedToken> {
  const { dpop } = options;
  let response = await sendTokenRequest(url, options, signal);
  const hasNonce = dpop?.takeNonce(url, response.headers) === true;
  let answer = parseObject(response.text);
  // RFC 9449 §8: retried once with the nonce that the issuer requires.
  if (answer?.error === "use_dpop_nonce" && hasNonce) {
    response = await sendTokenRequest(url, options, signal);
    answer = parseObject(response.text);
  }
  const token = tokenOf(answer);
  if (response.status !== 200 || answer === undefined || token === undefined)
    throw refusal(response.status, answer?.error);
  // RFC 9449 §5: a token of another type is not bound to the key.
  if (dpop !== undefined && String(answer.token_type).toLowerCase() !== "dpop")
    throw new ConnectError("the issuer did not bind the token to the DPoP key", Code.Unauthenticated);
  return token;
}

/** RFC 6749 §5.1; the default lifetime of a token is a minute. */
export function tokenOf(answer: Readonly<Record<string, unknown>> | undefined): FetchedToken | undefined {
  const { access_token: token, expires_in: lifetimeSeconds = 60 } = answer ?? {};
  if (typeof token !== "string") return undefined;
  return { token, lifetimeMs: typeof lifetimeSeconds === "number" ? lifetimeSeconds * 1000 : 60_000 };
}

async function sendTokenRequest(
  url: string,
  options: ClientCredentialsOptions,
  signal: AbortSignal,
): Promise<HttpAnswer> {
  const { clientId, clientSecret, authentication, scopes, parameters, dpop, http } = options;
  const form = new URLSearchParams({ grant_type: "client_credentials", ...parameters });
  if (scopes !== undefined) form.set("scope", scopes.join(" "));
  const headers = new Headers({ "content-type": "application/x-www-form-urlencoded", accept: "application/json" });
  if (dpop !== undefined) headers.set("dpop", await dpop.proof({ method: "POST", url }));
  if (clientSecret !== undefined && authentication !== "client_secret_post") {
    headers.set("authorization", `Basic ${basicCredentials(clientId, clientSecret)}`);
  } else {
    form.set("client_id", clientId);
    if (clientSecret !== undefined) form.set("client_secret", clientSecret);
  }
  return exchange(http, { url, method: "POST", headers, body: form.toString(), signal });
}

/** RFC 6749 §2.3.1: both halves are form-encoded before they are joined. */
function basicCredentials(clientId: string, clientSecret: string): string {
  const encode = (text: string) => new URLSearchParams([["", text]]).toString().slice(1);
  return btoa(`${encode(clientId)}:${encode(clientSecret)}`);
}

/** RFC 6749 §5.2: the issuer's refusals are permanent, its failures may pass. */
function refusal(status: number, error: unknown): ConnectError {
  const why = typeof error === "string" ? error : `HTTP ${status}`;
  const passing = status >= 500 || status === 429;
  return new ConnectError(`the issuer gave no token: ${why}`, passing ? Code.Unavailable : Code.Unauthenticated);
}

export function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** Other callers of the same request continue to wait. */
function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(ConnectError.from(signal.reason, Code.Canceled));
    if (signal.aborted) return onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
