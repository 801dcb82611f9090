/** Access tokens of the service's own session route, for deployments whose workloads reach no issuer. */
import { exchange, type HttpClient } from "./http.ts";
import { refusalOf } from "./rest-refusal.ts";
import { type KeptTokenOptions, keptTokens, parseObject, type TokenProvider, tokenOf } from "./tokens.ts";

export interface SessionTokenOptions extends KeptTokenOptions {
  /** Base URL of the service, such as `https://platform.example.com`. */
  readonly baseUrl: string;
  readonly tenantId: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Requested scopes. Default: all that the client was granted. */
  readonly scopes?: readonly string[];
  /** Must present the client certificate if tokens are bound to it. */
  readonly http: HttpClient;
}

/**
 * Exchanges a client's secret for tokens at `POST /v1/sdk/session`, cached and renewed like those of an issuer. The
 * route exists only if the operator configured clients; it refuses with `invalid_client`, or `rate_limited`.
 */
export function sessionTokens(options: SessionTokenOptions): TokenProvider {
  const { baseUrl, tenantId, clientId, clientSecret, scopes = [], http } = options;
  const url = `${baseUrl.replace(/\/$/, "")}/v1/sdk/session`;
  const body = JSON.stringify({
    tenant_id: tenantId,
    client_id: clientId,
    client_secret: clientSecret,
    requested_scopes: scopes,
  });
  return keptTokens(options, async (signal) => {
    const headers = new Headers({ "content-type": "application/json", accept: "application/json" });
    const answer = await exchange(http, { url, method: "POST", headers, body, signal });
    const token = tokenOf(parseObject(answer.text));
    if (answer.status !== 200 || token === undefined) throw refusalOf(answer);
    return token;
  });
}
