/** Who may call: settings become the authenticator and, where they ask for it, the session route. */
import {
  type Authenticator,
  type AuthenticatorEvent,
  type AuthenticatorOptions,
  createAuthenticator,
} from "../auth/authenticator.ts";
import type { MutualTlsRule, NoPossessionRule } from "../auth/proof/confirmation.ts";
import { createDpopNonces } from "../auth/proof/dpop-nonce.ts";
import type { ProofOfPossessionRule } from "../auth/proof/possession.ts";
import type { ReplayStore } from "../auth/proof/replay-store.ts";
import { sessionPeer } from "../auth/session-peer.ts";
import type { SessionTokenRule, TokenOptions } from "../auth/tokens/access-tokens.ts";
import { identityHeaderNames } from "../auth/trusted-headers.ts";
import type { TrustedIngress } from "../auth/trusted-ingress.ts";
import { type DeclaredAttributes, undeclaredNames } from "../base/caller-attributes.ts";
import type { Clock } from "../base/clock.ts";
import type { RandomFill } from "../base/ids.ts";
import { securityFields } from "../base/security-events.ts";
import { createFairSemaphore, type FairSemaphore } from "../base/semaphore.ts";
import type { Sums } from "../base/sums.ts";
import type { Timers } from "../base/timers.ts";
import type { ConfigFor } from "../config/uses.ts";
import type { AuthConfiguration } from "../domain/platform-domains.ts";
import type { AttemptCounters } from "../domain/ports.ts";
import type { Logger, RootLogger } from "../telemetry/logger.ts";
import type { Metrics } from "../telemetry/metrics.ts";
import { type FileSource, isNamed } from "./followed-files.ts";
import {
  createSessionRoute,
  noSessionRoute,
  openSessionFiles,
  type SessionRoute,
  sessionSlots,
} from "./session-route.ts";

type Config = ConfigFor<"serve">;

/** What the machine provides. */
export interface CallersMachine {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly random: RandomFill;
  readonly fetch: typeof globalThis.fetch;
  readonly logger: RootLogger;
  readonly metrics: Metrics;
  /** Counts fetches of issuer keys that unknown key ids bring about, in all threads; absent where there is one. */
  readonly refetches?: Sums;
  /** Told when the issuer's keys were seen to change, so that other threads look; absent where there is one. */
  readonly onKeysChanged?: () => void;
  /** Slots for secrets that callers of the session route show; default: of their own. */
  readonly slots?: FairSemaphore;
  /** Where files of clients and keys come from. */
  readonly files: FileSource;
  /** Told of what is odd about settings and files; default: `logger`. */
  readonly fileLogger?: Pick<Logger, "warn">;
}

export interface Callers {
  readonly authenticator: Authenticator;
  readonly session: SessionRoute;
  /** Stops what runs in the background. */
  close(): void;
}

/**
 * Rejects, naming the setting, where a file cannot be read or is not what it should be.
 *
 * @param attributes what is read of callers besides
 */
export async function openCallers(
  config: Config,
  shared: ReplayStore & AttemptCounters,
  attributes: DeclaredAttributes,
  machine: CallersMachine,
): Promise<Callers> {
  const { slots = createFairSemaphore(sessionSlots), fileLogger = machine.logger } = machine;
  const unread = undeclaredNames(attributes.current, [config.attributeHeaders]);
  if (unread.length > 0) fileLogger.warn({ attributes: unread }, "SVC_ATTRIBUTE_HEADERS names undeclared attributes");
  const onEvent = (event: AuthenticatorEvent) => reportAuthentication(event, machine);
  const files = await openSessionFiles(config, attributes, machine.files, fileLogger);
  const token = files && { issuer: sessionIssuer(config), keys: files.keys };
  const possession = await proofOfPossessionRule(config, shared, machine);
  const options = authenticatorOptions(config, token, attributes, possession);
  const authenticator = createAuthenticator(options, { ...machine, random: Math.random, onEvent });
  return {
    authenticator,
    session:
      files === undefined || token === undefined
        ? noSessionRoute
        : createSessionRoute({
            ...machine,
            ...token,
            clients: () => files.clients.current,
            audience: config.oidcAudience,
            counters: shared,
            slots,
            peerOf: (inbound) =>
              sessionPeer(inbound, ingressOf(config), sessionRule(config), (remoteAddress) =>
                onEvent({ type: "forwarded_certificate_ignored", remoteAddress }),
              ),
          }),
    close() {
      authenticator.close();
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
  attributes: DeclaredAttributes,
  proofOfPossession: ProofOfPossessionRule,
): AuthenticatorOptions {
  const { authMode, headerPrefix, attributeHeaders } = config;
  return {
    tokens: authMode === "trusted_headers" ? undefined : tokenOptions(config, session, attributes, proofOfPossession),
    identityHeaders:
      authMode === "bearer_token"
        ? undefined
        : {
            names: identityHeaderNames(headerPrefix),
            attributes: { declared: attributes, names: attributeHeaders },
            ingress: ingressOf(config),
          },
  };
}

function tokenOptions(
  config: Config,
  session: SessionTokenRule | undefined,
  attributes: DeclaredAttributes,
  proofOfPossession: ProofOfPossessionRule,
): TokenOptions {
  return {
    issuer: config.oidcIssuer,
    session,
    audience: config.oidcAudience,
    requireAtJwt: config.requireAtJwt,
    claims: {
      tenant: config.tenantClaim,
      principal: config.principalClaim,
      subject: config.subjectClaim,
      scope: config.scopeClaim,
    },
    attributes,
    proofOfPossession,
  };
}

async function proofOfPossessionRule(
  config: Config,
  replayStore: ReplayStore,
  { files, clock }: Pick<CallersMachine, "files" | "clock">,
): Promise<ProofOfPossessionRule> {
  const { proofOfPossession, publicUrl } = config;
  switch (proofOfPossession) {
    case "none":
      return { mode: "none" };
    case "mtls":
      return certificateRule(config);
    case "dpop": {
      const secret = isNamed("dpop_nonce_key", config)
        ? await files.follow("dpop_nonce_key", { parse: ([text = ""]) => text.trim() })
        : undefined;
      const nonces = secret && createDpopNonces(() => secret.current, clock);
      return { mode: "dpop", publicUrl, replayStore, nonces };
    }
  }
}

/** What is asked of those who ask for a session; settings allow none with DPoP. */
function sessionRule(config: Config): NoPossessionRule | MutualTlsRule {
  switch (config.proofOfPossession) {
    case "mtls":
      return certificateRule(config);
    case "none":
    case "dpop":
      return { mode: "none" };
  }
}

function certificateRule(config: Config): MutualTlsRule {
  return {
    mode: "mtls",
    headerName: `${config.headerPrefix}mtls-client-certificate`,
    format: config.forwardedCertFormat,
    ingress: ingressOf(config),
  };
}

/** Whom the deployment trusts to speak for others. */
export function ingressOf({ trustedProxies, trustedProxyCertificates }: Config): TrustedIngress {
  return { networks: trustedProxies, certificates: trustedProxyCertificates };
}

/** `iss` of session tokens: settings that make it the issuer's own name do not start. */
function sessionIssuer({ publicUrl, serviceName }: Config): string {
  return publicUrl ?? serviceName;
}

function reportAuthentication(event: AuthenticatorEvent, { logger, metrics }: CallersMachine): void {
  if (event.type === "identity_headers_ignored") {
    metrics.identityHeadersIgnored();
    logger.warn(
      { ...securityFields("identity_headers_ignored"), remote_address: event.remoteAddress },
      "identity headers of an untrusted peer ignored",
    );
    return;
  }
  if (event.type === "forwarded_certificate_ignored") {
    metrics.forwardedCertificateIgnored();
    logger.warn(
      { ...securityFields("forwarded_certificate_ignored"), remote_address: event.remoteAddress },
      "forwarded certificate of an untrusted peer ignored",
    );
    return;
  }
  metrics.issuerKeysFetched(event.issuerReady);
  if (event.issuerReady) logger.debug({ detail: event.detail }, "issuer keys fetched");
  else logger.warn({ detail: event.detail }, "issuer keys not available");
}
