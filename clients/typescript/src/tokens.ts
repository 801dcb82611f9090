/** Access tokens by the client-credentials grant (RFC 6749 §4.4), fetched when needed and kept until shortly before they expire. */
import { Code, ConnectError } from "@connectrpc/connect";
import type { DpopKey } from "./dpop.ts";
import { exchange, type HttpAnswer, type HttpClient } from "./http.ts";

/** Where calls get their token from. */
export interface TokenProvider {
  /** A token that is good for some time yet. Rejects with a `ConnectError` where none can be had. */
  token(signal?: AbortSignal): Promise<string>;
  /** The service refused this token: it is not handed out again. */
  refused(token: string): void;
}

export interface ClientCredentialsOptions {
  /** Identifier of the issuer; its discovery document names the token endpoint. */
  readonly issuer: string;
  readonly clientId: string;
  /** Absent: the client authenticates by its certificate (RFC 8705 §2.1). */
  readonly clientSecret?: string;
  /** How the secret is sent. Default `client_secret_basic`. */
  readonly authentication?: "client_secret_basic" | "client_secret_post";
  /** Key that tokens are to be bound to (RFC 9449 §5); calls need the same. Default: none. */
  readonly dpop?: DpopKey;
  /** Scopes to ask for. Default: what the issuer grants unasked. */
  readonly scopes?: readonly string[];
  /** Audience, for issuers that need it named (RFC 8707 `resource`, or `audience`). Default: none named. */
  readonly parameters?: Readonly<Record<string, string>>;
  /** Must present the client certificate where tokens are bound to it (RFC 8705 §3). */
  readonly http: HttpClient;
  /** Milliseconds since the epoch. Default: the machine's clock. */
  readonly now?: () => number;
}

/** A token is fetched anew when less than this is left of its life, in milliseconds, or a fifth of it, if that is less. */
const refreshMarginMs = 30_000;

interface HeldToken {
  readonly token: string;
  readonly staleAtMs: number;
}

/** Makes the provider. Calls that need a token at once share one request; what fails is asked again by the next call. */
export function clientCredentials(options: ClientCredentialsOptions): TokenProvider {
  const now = options.now ?? Date.now;
  let held: HeldToken | undefined;
  let fetching: Promise<HeldToken> | undefined;
  let endpoint: string | undefined;

  const fetchToken = async (): Promise<HeldToken> => {
    endpoint ??= await discoverTokenEndpoint(options);
    const askedAtMs = now();
    const { token, lifetimeMs } = await requestToken(endpoint, options);
    return { token, staleAtMs: askedAtMs + lifetimeMs - Math.min(refreshMarginMs, lifetimeMs / 5) };
  };

  return {
    async token(signal) {
      if (held !== undefined && now() < held.staleAtMs) return held.token;
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

async function discoverTokenEndpoint({ issuer, http }: ClientCredentialsOptions): Promise<string> {
  const url = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
  const { status, text } = await exchange(http, { url, method: "GET", headers: new Headers() });
  const document = parseObject(text);
  // OpenID Connect Discovery 1.0 §4.3: a document that speaks of another issuer is somebody else's.
  if (status !== 200 || document?.issuer !== issuer || typeof document.token_endpoint !== "string") {
    throw new ConnectError(`the issuer's discovery document is not usable (HTTP ${status})`, Code.Unavailable);
  }
  return document.token_endpoint;
}

async function requestToken(
  url: string,
  options: ClientCredentialsOptions,
): Promise<{ readonly token: string; readonly lifetimeMs: number }> {
  const { dpop } = options;
  let response = await sendTokenRequest(url, options);
  const hasNewNonce = dpop?.takeNonce(url, response.headers) === true;
  let answer = parseObject(response.text);
  // RFC 9449 §8: asked for once with the nonce that the issuer wants.
  if (answer?.error === "use_dpop_nonce" && hasNewNonce) {
    response = await sendTokenRequest(url, options);
    answer = parseObject(response.text);
  }
  if (response.status !== 200 || typeof answer?.access_token !== "string")
    throw refusal(response.status, answer?.error);
  // RFC 9449 §5: a token of another type is not bound to the key.
  if (dpop !== undefined && String(answer.token_type).toLowerCase() !== "dpop")
    throw new ConnectError("the issuer did not bind the token to the DPoP key", Code.Unauthenticated);
  const lifetimeSeconds = typeof answer.expires_in === "number" ? answer.expires_in : 60;
  return { token: answer.access_token, lifetimeMs: lifetimeSeconds * 1000 };
}

async function sendTokenRequest(url: string, options: ClientCredentialsOptions): Promise<HttpAnswer> {
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
  return exchange(http, { url, method: "POST", headers, body: form.toString() });
}

/** RFC 6749 §2.3.1: both halves are form-encoded before they are joined. */
function basicCredentials(clientId: string, clientSecret: string): string {
  const encode = (text: string) => new URLSearchParams([["", text]]).toString().slice(1);
  return btoa(`${encode(clientId)}:${encode(clientSecret)}`);
}

/** RFC 6749 §5.2: what the issuer refuses will be refused again; what it cannot do now, another time may. */
function refusal(status: number, error: unknown): ConnectError {
  const why = typeof error === "string" ? error : `HTTP ${status}`;
  const passing = status >= 500 || status === 429;
  return new ConnectError(`the issuer gave no token: ${why}`, passing ? Code.Unavailable : Code.Unauthenticated);
}

function parseObject(text: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : undefined;
  } catch {
    return undefined;
  }
}

/** The others who wait for the same request go on waiting. */
function unlessAborted<T>(work: Promise<T>, signal: AbortSignal | undefined): Promise<T> {
  if (signal === undefined) return work;
  return new Promise((resolve, reject) => {
    const onAbort = () => reject(ConnectError.from(signal.reason, Code.Canceled));
    if (signal.aborted) return onAbort();
    signal.addEventListener("abort", onAbort, { once: true });
    work.then(resolve, reject).finally(() => signal.removeEventListener("abort", onAbort));
  });
}
