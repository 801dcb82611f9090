/** Who may call: settings become the authenticator and, where they ask for it, the session route. */
import { readFileSync } from "node:fs";
import { readFile, stat } from "node:fs/promises";
import { SessionService } from "../gen/platform/sdk/v1/session_pb.ts";
import type { ProofOfPossessionRule, SessionTokenRule, TokenOptions } from "./auth/access-tokens.ts";
import {
  type Authenticator,
  type AuthenticatorEvent,
  type AuthenticatorOptions,
  createAuthenticator,
} from "./auth/authenticator.ts";
import { createDpopNonces } from "./auth/dpop-nonce.ts";
import type { ReplayStore } from "./auth/replay-store.ts";
import { parseSessionKeys, type SessionKeys } from "./auth/session-keys.ts";
import { sessionPeer } from "./auth/session-peer.ts";
import { createSessionTokens } from "./auth/session-tokens.ts";
import { identityHeaderNames } from "./auth/trusted-headers.ts";
import type { TrustedIngress } from "./auth/trusted-ingress.ts";
import type { Clock } from "./base/clock.ts";
import type { RandomFill } from "./base/ids.ts";
import { createSlots } from "./base/slots.ts";
import type { Timers } from "./base/timers.ts";
import type { ConfigFor } from "./config/uses.ts";
import type { AuthConfiguration } from "./domain/discovery.ts";
import { createSessions } from "./domain/session.ts";
import type { AttemptCounters } from "./domain/session-ports.ts";
import { parseClientFile, type RegisteredClient } from "./stores/client-file.ts";
import { LiveFile } from "./stores/live-file.ts";
import { FileSessionClients } from "./stores/session-clients.ts";
import type { RootLogger } from "./telemetry/logger.ts";
import type { Metrics } from "./telemetry/metrics.ts";
import type { GateLink } from "./transport/gate.ts";
import { noteSessionPeer } from "./transport/interceptors/note-session-peer.ts";
import { bind, type ServedMethod, servedMethods } from "./transport/methods.ts";
import { keySetPage } from "./transport/pages/key-set.ts";
import type { Page } from "./transport/pages/page.ts";
import { createSessionService } from "./transport/rpc/session.ts";

type Config = ConfigFor<"serve">;

/** What the machine provides. */
export interface CallersMachine {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly random: RandomFill;
  readonly fetch: typeof globalThis.fetch;
  readonly logger: RootLogger;
  readonly metrics: Metrics;
}

/** What the session route adds to a server; all of it empty where there is none. */
export interface SessionRoute {
  readonly methods: readonly ServedMethod[];
  /** What each of the methods passes in place of the credentials that it has none of. */
  readonly withoutCredentials: ReadonlyMap<string, readonly GateLink[]>;
  readonly pages: readonly Page[];
}

export interface Callers {
  readonly authenticator: Authenticator;
  readonly session: SessionRoute;
  /** Stops what runs in the background. */
  close(): void;
}

/** Secrets that are looked at at once, 64 MiB each at most, and calls that wait for it. */
const sessionSlots = [2, 64] as const;

/** Rejects, naming the setting, where a file cannot be read or is not what it should be. */
export async function openCallers(
  config: Config,
  shared: ReplayStore & AttemptCounters,
  machine: CallersMachine,
): Promise<Callers> {
  const onEvent = (event: AuthenticatorEvent) => reportAuthentication(event, machine);
  const files = await openSessionFiles(config, machine);
  const token = files && { issuer: sessionIssuer(config), keys: files.keys };
  const options = authenticatorOptions(config, token, shared, machine.clock);
  const authenticator = createAuthenticator(options, { ...machine, random: Math.random, onEvent });
  return {
    authenticator,
    session:
      files === undefined
        ? { methods: [], withoutCredentials: new Map(), pages: [] }
        : sessionRoute(config, files, shared, machine),
    close() {
      authenticator.close();
      files?.keys.close();
      files?.clients.close();
    },
  };
}

/** Whether tokens of an OIDC issuer are taken. */
export function takesIssuerTokens({ authMode, oidcIssuer }: Config): boolean {
  return authMode !== "trusted_headers" && oidcIssuer !== undefined;
}

/** What is in force: where no issuer's tokens are taken none are minted for us; where none at all, none are bound. */
export function authConfiguration(config: Config, oidcIssuerReady: boolean): AuthConfiguration {
  const proofOfPossession = config.authMode === "trusted_headers" ? "none" : config.proofOfPossession;
  const common = { proofOfPossession, mtlsReady: proofOfPossession === "mtls" };
  const { oidcIssuer, oidcAudience } = config;
  return takesIssuerTokens(config) && oidcIssuer !== undefined
    ? { mode: "oauth_client_credentials", ...common, oidcIssuer, oidcAudience, oidcIssuerReady }
    : { mode: "bearer_token_validation", ...common, oidcIssuerReady: false };
}

function authenticatorOptions(
  config: Config,
  session: SessionTokenRule | undefined,
  replayStore: ReplayStore,
  clock: Clock,
): AuthenticatorOptions {
  const { authMode, headerPrefix } = config;
  const proofOfPossession = proofOfPossessionRule(config, replayStore, clock);
  return {
    tokens: authMode === "trusted_headers" ? undefined : tokenOptions(config, session, proofOfPossession),
    identityHeaders:
      authMode === "bearer_token"
        ? undefined
        : { names: identityHeaderNames(headerPrefix), ingress: ingressOf(config) },
  };
}

function tokenOptions(
  config: Config,
  session: SessionTokenRule | undefined,
  proofOfPossession: ProofOfPossessionRule,
): TokenOptions {
  return {
    issuer: config.oidcIssuer,
    session,
    audience: config.oidcAudience,
    claims: {
      tenant: config.tenantClaim,
      principal: config.principalClaim,
      subject: config.subjectClaim,
      scope: config.scopeClaim,
    },
    proofOfPossession,
  };
}

function proofOfPossessionRule(config: Config, replayStore: ReplayStore, clock: Clock): ProofOfPossessionRule {
  const { proofOfPossession, publicUrl, dpopNonceKey } = config;
  if (proofOfPossession !== "dpop") return certificateRule(config);
  const nonces =
    dpopNonceKey === undefined ? undefined : createDpopNonces(readFileSync(dpopNonceKey, "utf8").trim(), clock);
  return { mode: "dpop", publicUrl, replayStore, nonces };
}

/** What is asked of a token apart from DPoP, which settings allow for no session. */
function certificateRule(config: Config): Exclude<ProofOfPossessionRule, { readonly mode: "dpop" }> {
  if (config.proofOfPossession !== "mtls") return { mode: "none" };
  return {
    mode: "mtls",
    headerName: `${config.headerPrefix}mtls-client-certificate`,
    format: config.forwardedCertFormat,
    ingress: ingressOf(config),
  };
}

function ingressOf({ trustedProxies, trustedProxyCertificates }: Config): TrustedIngress {
  return { networks: trustedProxies, certificates: trustedProxyCertificates };
}

/** `iss` of session tokens: settings that make it the issuer's own name do not start. */
function sessionIssuer({ publicUrl, serviceName }: Config): string {
  return publicUrl ?? serviceName;
}

interface SessionFiles {
  readonly clients: LiveFile<readonly RegisteredClient[]>;
  readonly keys: LiveFile<SessionKeys>;
}

async function openSessionFiles(config: Config, { timers, logger }: CallersMachine): Promise<SessionFiles | undefined> {
  const { sessionClients, sessionKey } = config;
  if (sessionClients === undefined || sessionKey === undefined) return undefined;
  const open = <Content>(setting: string, path: string, parse: (text: string) => Content | Promise<Content>) =>
    LiveFile.open({
      path,
      parse,
      files: { stat, readFile },
      timers,
      onProblem: (problem) => logger.error({ setting, problem }, "a file is not followed: what it said before stands"),
    }).catch((error: unknown) => {
      throw new Error(`${setting}: ${error instanceof Error ? error.message : "cannot be read"}`, { cause: error });
    });
  const clients = await open("SVC_SESSION_CLIENTS", sessionClients, parseClientFile);
  try {
    return { clients, keys: await open("SVC_SESSION_KEY", sessionKey, parseSessionKeys) };
  } catch (error) {
    clients.close();
    throw error;
  }
}

function sessionRoute(
  config: Config,
  { clients, keys }: SessionFiles,
  counters: AttemptCounters,
  machine: CallersMachine,
): SessionRoute {
  const { clock, random } = machine;
  const sessions = createSessions({
    clients: new FileSessionClients(() => clients.current),
    counters,
    signer: createSessionTokens({
      issuer: sessionIssuer(config),
      audience: config.oidcAudience,
      keys,
      clock,
      random,
    }),
    slots: createSlots(...sessionSlots),
    clock,
  });
  const methods = servedMethods([bind(SessionService, createSessionService(sessions))]);
  const link = noteSessionPeer((edge) =>
    sessionPeer(edge, ingressOf(config), certificateRule(config), (remoteAddress) =>
      reportAuthentication({ type: "forwarded_certificate_ignored", remoteAddress }, machine),
    ),
  );
  return {
    methods,
    withoutCredentials: new Map(methods.map(({ rpc }) => [rpc, [link]])),
    pages: [keySetPage(() => keys.current.published)],
  };
}

function reportAuthentication(event: AuthenticatorEvent, { logger, metrics }: CallersMachine): void {
  if (event.type === "identity_headers_ignored") {
    metrics.identityHeadersIgnored();
    logger.warn({ remote_address: event.remoteAddress }, "identity headers of an untrusted peer ignored");
    return;
  }
  if (event.type === "forwarded_certificate_ignored") {
    metrics.forwardedCertificateIgnored();
    logger.warn({ remote_address: event.remoteAddress }, "forwarded certificate of an untrusted peer ignored");
    return;
  }
  metrics.issuerKeysFetched(event.issuerReady);
  if (event.issuerReady) logger.debug({ detail: event.detail }, "issuer keys fetched");
  else logger.warn({ detail: event.detail }, "issuer keys not available");
}
