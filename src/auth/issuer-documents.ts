/** Fetches what an issuer publishes, such as its discovery document and key set, and its answers. */

import { request } from "node:https";
import { Readable } from "node:stream";
import type { JWK } from "jose";
import { fetchProblem, readText } from "../base/fetched.ts";
import { isObject, parseJson } from "../base/json.ts";
import { isLoopbackHost } from "../base/network.ts";
import { type Timers, withTimeLimit } from "../base/timers.ts";
import { keyProblem } from "./candidate-keys.ts";

/** Milliseconds for one document, from connecting to its last byte. */
const timeoutMs = 5_000;
/** Longest document. Key sets of large issuers have about 10 KiB. */
const longestDocumentBytes = 256 * 1024;
/** Most signature keys of a set; the first ones are used. Sets of large issuers have about 10. */
const maximumKeys = 64;
/** Most keys that a remark names. */
const maximumNamed = 4;

/** The usable keys of an issuer. */
interface PublishedKeys {
  readonly keys: readonly JWK[];
  /** Ids of signature keys that are left out. */
  readonly leftOutIds: readonly unknown[];
  /** For operators: which keys were left out, and why; undefined if none were. */
  readonly remark: string | undefined;
}

/** A request to an issuer, with the client's certificate and key in PEM if it identifies clients by them. */
interface IssuerRequest extends RequestInit {
  readonly cert?: string;
  readonly key?: string;
}

type IssuerFetch = (url: URL, init: IssuerRequest) => Promise<Response>;

/**
 * Returns a `fetch` for issuers, which also takes a client certificate; the runtime's takes neither that nor authorities.
 * @param authorities PEM of the authorities that issuers' certificates must come from; default: those of the system.
 *   Called for each request, so that the file can be replaced
 */
export function createIssuerFetch(
  fetch: typeof globalThis.fetch,
  authorities: (() => Promise<string>) | undefined,
): IssuerFetch {
  return async (url, { cert, key, ...init }) => {
    if (url.protocol !== "https:" || (cert === undefined && authorities === undefined)) return fetch(url, init);
    return fetchOverTls(url, init, { cert, key, ca: await authorities?.() });
  };
}

/** Follows no redirect. Rejects for an answer with another status than 200, of which it reads no body. */
function fetchOverTls(
  url: URL,
  { method = "GET", headers, body, signal }: RequestInit,
  tls: { readonly cert: string | undefined; readonly key: string | undefined; readonly ca: string | undefined },
): Promise<Response> {
  return new Promise((resolve, reject) => {
    const options = { method, headers: { ...(headers as Record<string, string>) }, ...tls, agent: false } as const;
    const outgoing = request(url, { ...options, ...(signal && { signal }) });
    const refuse = (statusCode: number | undefined) => reject(new Error(`status ${statusCode}`));
    outgoing.once("error", reject);
    outgoing.once("response", (incoming) => {
      const { statusCode, headers: given } = incoming;
      if (statusCode === 200) {
        const stream = Readable.toWeb(incoming) as ReadableStream;
        resolve(new Response(stream, { headers: { date: given.date ?? "" } }));
        return;
      }
      incoming.destroy();
      refuse(statusCode);
    });
    // For an unexpected upgrade, Node emits this event only.
    outgoing.once("upgrade", ({ statusCode }, socket) => {
      socket.destroy();
      refuse(statusCode);
    });
    outgoing.end(body);
  });
}

export interface FetchContext {
  readonly fetch: IssuerFetch;
  readonly timers: Timers;
  /** Aborted when the authenticator closes. */
  readonly signal: AbortSignal;
}

/** What an issuer's discovery document says. */
export interface Discovered {
  readonly keySetUrl: URL;
  readonly tokenEndpoint: string | undefined;
  readonly document: Readonly<Record<string, unknown>>;
}

/**
 * Discovers the URL of the issuer's keys (OpenID Connect Discovery §4): the document's `issuer` must equal the
 * configured one byte for byte (§4.3), and keys come over https unless both are on loopback.
 * @throws Error that describes the problem
 */
export async function discover(issuer: string, context: FetchContext): Promise<Discovered> {
  const location = `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
  const document = await fetchJsonObject(new URL(location), "discovery document", context);
  if (document.issuer !== issuer) throw new Error("the discovery document names another issuer");
  const { jwks_uri: keySetUrl, token_endpoint: tokenEndpoint } = document;
  if (typeof keySetUrl !== "string" || !URL.canParse(keySetUrl)) {
    throw new Error("the discovery document has no valid jwks_uri");
  }
  const url = new URL(keySetUrl);
  if (!isAllowed(url, new URL(issuer))) throw new Error("the issuer's jwks_uri is not https");
  return { keySetUrl: url, tokenEndpoint: typeof tokenEndpoint === "string" ? tokenEndpoint : undefined, document };
}

/**
 * Fetches the public signature keys (RFC 7517 §5). Leaves out keys of other types, uses or algorithms, as §5 requires,
 * and symmetric keys, which must not be published. Also leaves out, with a remark, keys that cannot be imported or cost
 * more than `keyProblem` allows, and all after the first 64.
 * @throws Error that describes the problem
 */
export async function fetchKeySet(url: URL, context: FetchContext): Promise<PublishedKeys> {
  const document = await fetchJsonObject(url, "key set", context);
  if (!Array.isArray(document.keys)) throw new Error("the issuer's key set is malformed");
  const published = (document.keys as unknown[]).filter(isSignatureKey);
  const keys: JWK[] = [];
  const leftOut: { readonly kid: unknown; readonly problem: string }[] = [];
  for (const key of published.slice(0, maximumKeys)) {
    const problem = await keyProblem(key);
    if (problem === undefined) keys.push(key);
    else if (problem !== "other") leftOut.push({ kid: key.kid, problem });
  }
  const beyond = published.slice(maximumKeys);
  const named = leftOut
    .slice(0, maximumNamed)
    .map(({ kid, problem }) => `${JSON.stringify(typeof kid === "string" ? kid.slice(0, 64) : "")} ${problem}`);
  const more = leftOut.length - named.length + beyond.length;
  const remark = `keys of the issuer are left out: ${[...named, ...(more > 0 ? [`${more} more`] : [])].join(", ")}`;
  return {
    keys,
    leftOutIds: [...leftOut, ...beyond].map(({ kid }) => kid),
    remark: leftOut.length + beyond.length === 0 ? undefined : remark,
  };
}

function isSignatureKey(key: unknown): key is JWK {
  if (!isObject(key)) return false;
  const { kty, use } = key;
  return (kty === "RSA" || kty === "EC" || kty === "OKP") && (use === undefined || use === "sig");
}

/** Whether the URL is https, or http if both the URL and the issuer are on loopback. */
export function isAllowed(url: URL, issuer: URL): boolean {
  if (url.protocol === "https:") return true;
  return url.protocol === "http:" && isLoopbackHost(url.hostname) && isLoopbackHost(issuer.hostname);
}

/** A request other than GET. */
interface FetchInit extends Pick<IssuerRequest, "method" | "body" | "cert" | "key"> {
  readonly headers?: Readonly<Record<string, string>>;
  /** Longest answer. */
  readonly maximumBytes?: number;
}

/** A client that identifies itself by id and secret, or by its certificate. */
interface FormInit extends Pick<FetchInit, "cert" | "key" | "maximumBytes"> {
  readonly client?: readonly [id: string, secret: string];
}

/** Posts a form to an endpoint of an issuer, and returns the JSON object of its answer. Rejects as `fetchJsonObject`. */
export function postForm(
  url: URL,
  what: string,
  context: FetchContext,
  form: Readonly<Record<string, string>>,
  { client, ...init }: FormInit,
): Promise<Record<string, unknown>> {
  // RFC 6749 §2.3.1: id and secret are form-encoded before they are joined.
  const credentials = client?.map((text) => new URLSearchParams({ "": text }).toString().slice(1)).join(":");
  const headers = {
    "content-type": "application/x-www-form-urlencoded",
    ...(credentials !== undefined && { authorization: `Basic ${Buffer.from(credentials).toString("base64")}` }),
  };
  const body = new URLSearchParams(form).toString();
  return fetchJsonObject(url, what, context, { ...init, method: "POST", headers, body });
}

/** Fetches a JSON object. Follows no redirect. @throws Error that describes the problem and names `what` */
export async function fetchJsonObject(
  url: URL,
  what: string,
  context: FetchContext,
  { headers, maximumBytes = longestDocumentBytes, ...init }: FetchInit = {},
): Promise<Record<string, unknown>> {
  const late = () => new Error(`no answer within ${timeoutMs} ms`);
  const work = async (limit: AbortSignal) => {
    const response = await context.fetch(url, {
      ...init,
      headers: { accept: "application/json", ...headers },
      // A redirect would let an attacker with one path on the issuer's host choose our keys.
      redirect: "error",
      signal: AbortSignal.any([limit, context.signal]),
    });
    if (response.status !== 200) {
      await response.body?.cancel();
      throw new Error(`status ${response.status}`);
    }
    const document: unknown = parseJson(await readText(response, maximumBytes));
    if (!isObject(document)) throw new Error("not a JSON object");
    return document;
  };
  return withTimeLimit(context.timers, timeoutMs, late, work).catch((cause: unknown) => {
    throw new Error(
      `the issuer's ${what} cannot be fetched: ${cause instanceof SyntaxError ? "not JSON" : fetchProblem(cause)}`,
      { cause },
    );
  });
}
