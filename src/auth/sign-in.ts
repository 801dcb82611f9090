/**
 * Signs people in by OpenID Connect: authorization code with PKCE (RFC 7636) at a confidential client. Both the sign-in
 * under way and the session are encrypted cookies, whose key comes from the client's secret, so replicas share them.
 */
import { createHash, hkdfSync, timingSafeEqual } from "node:crypto";
import { createLocalJWKSet, EncryptJWT, type JWTPayload, jwtDecrypt, jwtVerify } from "jose";
import { type Clock, clockToleranceSeconds } from "../base/clock.ts";
import { ServiceError } from "../base/errors.ts";
import { createFairSemaphore } from "../base/fair-queue.ts";
import { parsePrincipalId, parseTenantId, type RandomFill, type TenantId } from "../base/ids.ts";
import { addressGroup } from "../base/network.ts";
import type { Timers } from "../base/timers.ts";
import { signatureAlgorithms } from "./challenge.ts";
import { discover, type FetchContext, fetchKeySet, isAllowed, postForm } from "./issuer-documents.ts";

export const signInLimits = {
  /** Seconds from the start of a sign-in to its end at the issuer. */
  flowSeconds: 600,
  /** Seconds of a session, which nothing extends. */
  sessionSeconds: 1_800,
  /** Browsers drop longer cookies. */
  cookieCharacters: 3_800,
} as const;

export interface SignInOptions {
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** Origin at which browsers reach the console. */
  readonly url: string;
  /** Claim of the ID token: a list of `operator` and `auditor:<tenant>`. */
  readonly rolesClaim: string;
  readonly fetch: FetchContext["fetch"];
  readonly clock: Clock;
  readonly timers: Timers;
  readonly random: RandomFill;
}

/** A person who signed in. */
export interface SignedIn {
  readonly id: string;
  /** `sub` of the ID token. */
  readonly subject: string;
  /** Tenants whose logs an auditor may see; undefined for an operator. */
  readonly tenantIds: readonly TenantId[] | undefined;
  readonly expiresAtMs: number;
}

export type SignInProblem = "no_role" | "refused";

export interface SignIn {
  /** Whether browsers reach the console over https. */
  readonly isSecure: boolean;
  /** Rejects with an Error if the issuer's documents show that a sign-in would not be safe; else resolves. */
  check(): Promise<void>;
  /** Begins at the issuer; `flow` is the value of the browser's cookie. Rejects with `issuer_unavailable`. */
  begin(returnTo: string): Promise<{ readonly location: string; readonly flow: string }>;
  /** Completes the sign-in of the same browser with the parameters of the redirect. Queued, fairly by address. */
  finish(
    parameters: URLSearchParams,
    flow: string,
    address: string,
  ): Promise<{ readonly session: string; readonly who: SignedIn; readonly returnTo: string } | SignInProblem>;
  /** The person of a session's cookie; undefined if it is not valid, or expired or ended. */
  sessionOf(cookie: string): Promise<SignedIn | undefined>;
  /** Ends a session at this process; at others the cookie is valid until it expires, for those who kept a copy. */
  end(session: SignedIn): void;
}

const callbackPath = "/console/sign-in/callback";
/** Milliseconds for which documents of the issuer are used. */
const documentsMs = 60_000;

export function createSignIn(options: SignInOptions): SignIn {
  const { issuer, clientId, clientSecret, url, rolesClaim, clock, timers, random } = options;
  const issuerUrl = new URL(issuer);
  const context: FetchContext = { ...options, signal: new AbortController().signal };
  const key = new Uint8Array(hkdfSync("sha256", clientSecret, url, `console sign-in ${clientId}`, 32));
  /** By address: an attacker can begin sign-ins too, and end them with codes that the issuer takes long to refuse. */
  const slots = createFairSemaphore({ maximum: 4, maximumWaitingEach: 8, maximumWaiting: 64 });
  const ended = new Set<string>();
  let documents: { readonly found: ReturnType<typeof discover>; readonly atMs: number } | undefined;

  /** The discovery document, if a sign-in by it is safe. Rejects with an Error otherwise, or if it cannot be fetched. */
  async function endpoints() {
    if (documents === undefined || clock.now() - documents.atMs > documentsMs) {
      const found = discover(issuer, context);
      documents = { found, atMs: clock.now() };
      found.catch(() => {
        documents = undefined;
      });
    }
    const { document, keySetUrl } = await documents.found;
    const methods = document.code_challenge_methods_supported;
    if (!Array.isArray(methods) || !methods.includes("S256")) throw new UnsafeIssuer("does not support PKCE with S256");
    const endpoint = (name: string): URL => {
      const text = document[name];
      const found = typeof text === "string" && URL.canParse(text) ? new URL(text) : undefined;
      if (found === undefined || !isAllowed(found, issuerUrl)) throw new UnsafeIssuer(`has no ${name} over https`);
      return found;
    };
    return { authorize: endpoint("authorization_endpoint"), token: endpoint("token_endpoint"), keySetUrl, document };
  }

  function seal(kind: string, claims: JWTPayload, seconds: number): Promise<string> {
    const expires = Math.floor(clock.now() / 1000) + seconds;
    const token = new EncryptJWT(claims).setAudience(kind).setExpirationTime(expires);
    return token.setProtectedHeader({ alg: "dir", enc: "A256GCM" }).encrypt(key);
  }

  async function opened(kind: string, cookie: string): Promise<JWTPayload | undefined> {
    if (cookie.length > signInLimits.cookieCharacters) return undefined;
    const rules = { audience: kind, currentDate: new Date(clock.now()), requiredClaims: ["exp"] };
    const algorithms = { keyManagementAlgorithms: ["dir"], contentEncryptionAlgorithms: ["A256GCM"] };
    return jwtDecrypt(cookie, key, { ...rules, ...algorithms }).then(
      ({ payload }) => payload,
      () => undefined,
    );
  }

  const secret = () => Buffer.from(random(new Uint8Array(32))).toString("base64url");
  const redirectUri = url + callbackPath;

  /**
   * Exchanges the code and verifies the ID token (OpenID Connect Core §3.1.3.7). Rejects with an Error, also if `iss` is
   * missing although the issuer announces it (RFC 9207 §2.4).
   */
  async function identityOf({ code, iss }: Redirect, verifier: string, nonce: string): Promise<JWTPayload> {
    const { token: endpoint, keySetUrl, document } = await endpoints();
    if (iss === undefined && document.authorization_response_iss_parameter_supported === true)
      throw new Error("the redirect has no iss");
    const grant = { grant_type: "authorization_code", code, redirect_uri: redirectUri, code_verifier: verifier };
    const answer = await postForm(endpoint, "token", context, grant, { client: [clientId, clientSecret] });
    const { keys } = await fetchKeySet(keySetUrl, context);
    const { payload } = await jwtVerify(String(answer.id_token), createLocalJWKSet({ keys: [...keys] }), {
      ...{ issuer, audience: clientId, algorithms: signatureAlgorithms, clockTolerance: clockToleranceSeconds },
      ...{ currentDate: new Date(clock.now()), requiredClaims: ["sub", "exp", "iat", "nonce"] },
    });
    const { azp } = payload;
    if (
      payload.nonce !== nonce ||
      (azp !== undefined && azp !== clientId) ||
      (Array.isArray(payload.aud) && payload.aud.length > 1)
    )
      throw new Error("the ID token is of another sign-in, or for another client");
    return payload;
  }

  return {
    isSecure: url.startsWith("https:"),
    async check() {
      await endpoints().catch((error: unknown) => {
        if (error instanceof UnsafeIssuer) throw error;
      });
    },
    async begin(returnTo) {
      const { authorize } = await endpoints().catch((cause: unknown) => {
        throw new ServiceError("issuer_unavailable", "the issuer for sign-in is not available", { cause });
      });
      const [state, nonce, verifier] = [secret(), secret(), secret()];
      const challenge = createHash("sha256").update(verifier).digest("base64url");
      const asked = {
        ...{ response_type: "code", client_id: clientId, redirect_uri: redirectUri, scope: "openid", state, nonce },
        ...{ code_challenge: challenge, code_challenge_method: "S256" },
      };
      for (const [name, value] of Object.entries(asked)) authorize.searchParams.set(name, value);
      const flow = await seal("flow", { state, nonce, verifier, returnTo }, signInLimits.flowSeconds);
      return { location: authorize.href, flow };
    },
    async finish(parameters, flow, address) {
      const begun = await opened("flow", flow);
      const redirect = redirectOf(parameters);
      if (begun === undefined || redirect === undefined || !isSame(redirect.state, String(begun.state)))
        return "refused";
      // RFC 9207: the answer of another issuer.
      if (redirect.iss !== undefined && redirect.iss !== issuer) return "refused";
      const work = () => identityOf(redirect, String(begun.verifier), String(begun.nonce));
      const claims = await slots.run(addressGroup(address), work, context.signal).catch(() => undefined);
      // The rules of principal ids apply, because log lines contain the name.
      const sub = typeof claims?.sub === "string" ? parsePrincipalId(claims.sub) : undefined;
      if (claims === undefined || sub === undefined) return "refused";
      const roles = rolesIn(claims[rolesClaim]);
      if (roles === undefined) return "no_role";
      const { sessionSeconds, cookieCharacters } = signInLimits;
      const id = secret();
      const session = await seal("session", { jti: id, sub, ...roles }, sessionSeconds);
      const who = session.length > cookieCharacters ? undefined : await this.sessionOf(session);
      return who === undefined ? "no_role" : { session, who, returnTo: String(begun.returnTo) };
    },
    async sessionOf(cookie) {
      const { jti = "", sub = "", exp = 0, tenants } = (await opened("session", cookie)) ?? {};
      if (jti === "" || ended.has(jti)) return undefined;
      return { id: jti, subject: sub, tenantIds: tenants as readonly TenantId[] | undefined, expiresAtMs: exp * 1000 };
    },
    end({ id }) {
      ended.add(id);
      timers.after(signInLimits.sessionSeconds * 1_000, () => ended.delete(id));
    },
  };
}

/** Parameters of the issuer's redirect. */
interface Redirect {
  readonly state: string;
  readonly code: string;
  readonly iss: string | undefined;
}

/** Undefined if a required parameter is missing, or one is repeated (RFC 6749 §3.1). */
function redirectOf(parameters: URLSearchParams): Redirect | undefined {
  const [states, codes, issuers] = ["state", "code", "iss"].map((name) => parameters.getAll(name));
  const [state, code, iss] = [states?.[0], codes?.[0], issuers?.[0]];
  if ([states, codes, issuers].some((values = []) => values.length > 1)) return undefined;
  return state === undefined || code === undefined ? undefined : { state, code, iss };
}

class UnsafeIssuer extends Error {
  constructor(problem: string) {
    super(`the issuer ${problem}`);
  }
}

/** What the roles allow; undefined if there are none that are known. */
function rolesIn(claim: unknown): { readonly tenants?: readonly TenantId[] } | undefined {
  const roles = [claim].flat().filter((role) => typeof role === "string");
  if (roles.includes("operator")) return {};
  const tenants = roles.flatMap((role) => (role.startsWith("auditor:") ? [parseTenantId(role.slice(8))] : []));
  const known = tenants.filter((tenant) => tenant !== undefined);
  return known.length === 0 ? undefined : { tenants: known };
}

function isSame(one: string, other: string): boolean {
  const [left, right] = [one, other].map((text) => createHash("sha256").update(text).digest());
  return left !== undefined && right !== undefined && timingSafeEqual(left, right);
}
