/** Sign-in to the console by OpenID Connect: cookies and redirects. */
import type { IncomingMessage } from "node:http";
import type { FastifyInstance, FastifyReply, FastifyRequest } from "fastify";
import { type SignedIn, type SignIn, signInLimits } from "../auth/sign-in.ts";
import { ServiceError } from "../base/errors.ts";
import { securityFields } from "../base/security-events.ts";
import type { Logger } from "../telemetry/logger.ts";

/** Names of cookies; browsers take the prefix only from https, for this host and every path (RFC 6265bis §4.1.3). */
function cookieNames(isSecure: boolean) {
  const prefix = isSecure ? "__Host-" : "";
  return { flow: `${prefix}console-sign-in`, session: `${prefix}console-session` };
}

/** Value of a request's cookie; undefined if it is absent or there are several. */
function cookieOf({ headers }: Pick<IncomingMessage, "headers">, name: string): string | undefined {
  const pairs = (headers.cookie ?? "").split(/; */).filter((pair) => pair.startsWith(`${name}=`));
  return pairs.length === 1 ? pairs[0]?.slice(name.length + 1) : undefined;
}

/**
 * Whether a page of this origin sent the request (Fetch Metadata, `Sec-Fetch-Site`, which no page can forge). The
 * cookie alone proves nothing: pages on another port are of the same site, and their requests carry it too.
 */
function isFromOwnPage({ headers }: Pick<IncomingMessage, "headers">): boolean {
  return headers["sec-fetch-site"] === "same-origin";
}

/** Whether the request has a session's cookie, valid or not. */
export function hasSession(request: Pick<IncomingMessage, "headers">, { isSecure }: SignIn): boolean {
  return cookieOf(request, cookieNames(isSecure).session) !== undefined;
}

/** The person of a request from a page of the console; undefined without a valid session. */
export async function sessionOf(
  request: Pick<IncomingMessage, "headers">,
  signIn: SignIn,
): Promise<SignedIn | undefined> {
  if (!isFromOwnPage(request)) return undefined;
  return signIn.sessionOf(cookieOf(request, cookieNames(signIn.isSecure).session) ?? "");
}

/** Pages of the console: the only ones that a sign-in returns to. */
const consolePath = /^\/console(\/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*$/;

/**
 * Adds `GET /console/sign-in`, `GET /console/sign-in/callback`, `GET /console/session` and `POST /console/sign-out`.
 * Without a sign-in they do not exist, except that the session is none.
 */
export function addSignInRoutes(
  server: FastifyInstance,
  signIn: SignIn | undefined,
  logger: Pick<Logger, "info">,
  noteRefusal: () => void,
): void {
  server.get("/console/session", async (request) => {
    if (signIn === undefined) return { sign_in: false };
    const session = await sessionOf(request.raw, signIn);
    if (session === undefined) return { sign_in: true };
    const { subject, tenantIds: tenants, expiresAtMs } = session;
    return { sign_in: true, session: { subject, tenants, expires_at: new Date(expiresAtMs).toISOString() } };
  });
  if (signIn === undefined) return;
  const { flow: flowName, session: sessionName } = cookieNames(signIn.isSecure);
  const set = (reply: FastifyReply, name: string, value: string, seconds: number, sameSite: "Strict" | "Lax") =>
    reply.header("set-cookie", `${name}=${value}; Max-Age=${seconds}; Path=/; Secure; HttpOnly; SameSite=${sameSite}`);
  const go = (reply: FastifyReply, location: string) =>
    reply.header("referrer-policy", "no-referrer").header("location", location).code(303).send();
  server.get<{ Querystring: { to?: unknown } }>("/console/sign-in", async ({ query: { to } }, reply) => {
    const { location, flow } = await signIn.begin(typeof to === "string" && consolePath.test(to) ? to : "/console");
    // The issuer's redirect comes from another site, and must find this cookie: Lax.
    return go(set(reply, flowName, flow, signInLimits.flowSeconds, "Lax"), location);
  });
  server.get("/console/sign-in/callback", async (request: FastifyRequest, reply) => {
    const parameters = new URL(request.url, "http://localhost").searchParams;
    const finished = await signIn.finish(parameters, cookieOf(request.raw, flowName) ?? "", request.ip);
    set(reply, flowName, "", 0, "Lax");
    if (typeof finished === "string") {
      noteRefusal();
      return go(reply, `/console?refused=${finished}`);
    }
    const { session, who, returnTo } = finished;
    const { subject: operator, tenantIds } = who;
    const fields = { operator, tenant_id: tenantIds?.join(), remote_address: request.ip };
    logger.info({ ...securityFields("operator_signed_in"), ...fields }, "a person signed in to the console");
    return go(set(reply, sessionName, session, signInLimits.sessionSeconds, "Strict"), returnTo);
  });
  server.post("/console/sign-out", async (request, reply) => {
    if (!isFromOwnPage(request.raw)) throw new ServiceError("invalid_request", "only a page of the console signs out");
    const session = await sessionOf(request.raw, signIn);
    if (session !== undefined) signIn.end(session);
    return set(reply, sessionName, "", 0, "Strict").code(204).send();
  });
}
