/** Who may read the logs on the operator listener: operators by their credentials, tenants by their own tokens. */
import { readFile } from "node:fs/promises";
import type { IncomingMessage } from "node:http";
import { type Authenticator, matchTenantHeader, requireScopes } from "../auth/authenticator.ts";
import { inRealm, presentedScheme } from "../auth/challenge.ts";
import { createIssuerFetch } from "../auth/issuer-documents.ts";
import { createSignIn, type SignIn, type SignInOptions } from "../auth/sign-in.ts";
import { ServiceError } from "../base/errors.ts";
import { type Timers, withTimeLimit } from "../base/timers.ts";
import type { ConfigFor } from "../config/config.ts";
import { parseSignInFile } from "../config/data-files.ts";
import { type OpsCredential, operatorOf, parseOpsCredentials } from "../credentials/ops-credentials.ts";
import { inboundOf } from "../http/inbound-request.ts";
import type { Viewer } from "../ops/ledger-access.ts";
import { hasSession, sessionOf } from "../ops/sign-in-routes.ts";
import { type FileSource, type Followed, isNamed } from "./followed-files.ts";

type Config = ConfigFor<"serve">;

export interface OpsViewers {
  viewerOf(request: IncomingMessage): Promise<Viewer>;
  /** Sign-in to the console; undefined without its setting. */
  readonly signIn: SignIn | undefined;
}

/** Time limit for fetching the issuer's keys, in milliseconds. */
const deadlineMs = 5_000;

/** The protection space (RFC 9110 §11.5): the logs. Operators' credentials are valid only here. */
const realm = "ledger";
const challenge = `Bearer realm="${realm}"`;
/** Lets a tenant's token search by what requests were about, not only by caller. */
const searchScope = "ledger.search";
const anonymousRefusal = new ServiceError(
  "missing_token",
  `this search needs operator credentials, or an access token with the scope ${searchScope}`,
  { challenge },
);
/** b64token (RFC 6750 §2.1) under the only scheme for operators. */
const bearer = /^Bearer +([A-Za-z0-9._~+/-]+=*)$/i;

/** Whether the logs are served: credentials and records must not cross a network in plaintext. */
export function servesLogs({ opsListen, opsTlsCert }: Pick<Config, "opsListen" | "opsTlsCert">): boolean {
  return opsListen.loopback || opsTlsCert !== undefined;
}

/**
 * Watches the file of the operators' credentials, if one is named. Rejects, naming the setting, if it is invalid.
 * @param authenticator the service's own: a tenant's token is accepted here exactly if it is there
 */
export async function openOpsViewers(
  config: Config,
  authenticator: Pick<Authenticator, "authenticate">,
  machine: SignInMachine & { readonly files: FileSource },
): Promise<OpsViewers> {
  const { files, timers } = machine;
  const signIn = await openSignIn(config, machine);
  const operators: Followed<readonly OpsCredential[]> | undefined = isNamed("ops_credentials", config)
    ? await files.follow("ops_credentials", {
        parse: ([text = ""]) => parseOpsCredentials(text),
        describe: ({ length }) => ({ operators: String(length) }),
      })
    : undefined;
  return {
    signIn,
    async viewerOf(request) {
      const session = request.headers.authorization === undefined ? await signedIn(request, signIn) : undefined;
      return session ?? (await viewerOf(request, config, operators?.current ?? [], authenticator, timers));
    },
  };
}

type SignInMachine = Pick<SignInOptions, "clock" | "timers" | "random"> & { readonly fetch: typeof globalThis.fetch };

/** Rejects, naming the setting, if the issuer may not be used. An issuer that is down does not prevent the start. */
async function openSignIn(config: Config, { fetch, ...machine }: SignInMachine): Promise<SignIn | undefined> {
  const { consoleSignIn: file, oidcCa } = config;
  if (file === undefined) return undefined;
  const { clientSecretFile, ...rule } = parseSignInFile(await readFile(file, "utf8"));
  const clientSecret = (await readFile(clientSecretFile, "utf8")).trim();
  const authorities = oidcCa === undefined ? undefined : () => readFile(oidcCa, "utf8");
  const signIn = createSignIn({ ...rule, ...machine, clientSecret, fetch: createIssuerFetch(fetch, authorities) });
  await signIn.check().catch((error: Error) => {
    throw new Error(`SVC_CONSOLE_SIGN_IN: ${error.message}`);
  });
  return signIn;
}

/** The viewer of a session, whose cookie counts for pages of the console only. Undefined without a cookie. */
async function signedIn(request: IncomingMessage, signIn: SignIn | undefined): Promise<Viewer | undefined> {
  if (signIn === undefined || !hasSession(request, signIn)) return undefined;
  const session = await sessionOf(request, signIn);
  if (session === undefined) throw new ServiceError("expired_token", "the session ended: sign in again", { challenge });
  const { subject: operator, tenantIds } = session;
  return { tenantIds, operator, presented: true, contentRefusal: undefined };
}

async function viewerOf(
  request: IncomingMessage,
  config: Config,
  operators: readonly OpsCredential[],
  authenticator: Pick<Authenticator, "authenticate">,
  timers: Timers,
): Promise<Viewer> {
  const inbound = inboundOf(request);
  const values = inbound.headerValues("authorization");
  if (values.length === 0) {
    if (config.opsListen.loopback) return { tenantIds: undefined, presented: false, contentRefusal: anonymousRefusal };
    throw new ServiceError("missing_token", "operator credentials or an access token are required", { challenge });
  }
  const [, token] = values.length === 1 ? (bearer.exec(values[0] ?? "") ?? []) : [];
  const operator = token === undefined ? undefined : operatorOf(operators, token);
  if (operator !== undefined) return { tenantIds: undefined, operator, presented: true, contentRefusal: undefined };
  // Identity headers name no operator, and no tenant here: they identify calls, not people who read logs.
  if (config.authMode === "trusted_headers")
    throw new ServiceError("invalid_token", "the credentials are not an operator's", {
      challenge: `${challenge}, error="invalid_token"`,
    });
  try {
    const silent = () => new ServiceError("issuer_unavailable", "the keys of the token issuer are not available");
    const authenticate = (signal: AbortSignal) => authenticator.authenticate(inbound, signal);
    const caller = await withTimeLimit(timers, deadlineMs, silent, authenticate);
    matchTenantHeader(caller, inbound, `${config.headerPrefix}tenant-id`);
    requireScopes(caller, config.defaultRequiredScopes, presentedScheme(inbound));
    const contentRefusal = refusalOf(() => requireScopes(caller, [searchScope], presentedScheme(inbound)));
    const { tenantId, principalId } = caller;
    return { tenantIds: [tenantId], principalId, presented: true, contentRefusal };
  } catch (error) {
    throw inRealm(realm, error);
  }
}

function refusalOf(require: () => void): ServiceError | undefined {
  try {
    require();
    return undefined;
  } catch (error) {
    const refusal = inRealm(realm, error);
    if (refusal instanceof ServiceError) return refusal;
    throw refusal;
  }
}
