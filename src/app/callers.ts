/** Authentication: settings become the authenticator and, if configured, the session route. */
import { readFile } from "node:fs/promises";
import type { AuthenticatorEvent } from "../auth/access-tokens.ts";
import {
  type Authenticator,
  type AuthenticatorOptions,
  createAuthenticator,
  identityHeaderNames,
} from "../auth/authenticator.ts";
import { type MutualTlsRule, type NoPossessionRule, sessionPeer } from "../auth/confirmation.ts";
import { createDpopNonces, type ProofOfPossessionRule } from "../auth/possession.ts";
import type { ReplayStore } from "../auth/replay-store.ts";
import type { SessionTokenRule } from "../auth/session-tokens.ts";
import type { TrustedIngress } from "../auth/trusted-ingress.ts";
import { type DeclaredAttributes, undeclaredNames } from "../base/caller.ts";
import { ServiceError } from "../base/errors.ts";
import type { TenantId } from "../base/ids.ts";
import { everyTenant, type IssuerEntry } from "../base/issuers.ts";
import { rememberedBy } from "../base/remembered.ts";
import { type SecurityEvent, securityFields } from "../base/security-events.ts";
import type { ConfigFor } from "../config/config.ts";
import { claimNamesOf, parseIssuerFile } from "../config/data-files.ts";
import type { AuthConfiguration } from "../domain/platform-domains.ts";
import type { PortionCounters } from "../domain/ports.ts";
import type { ReadinessCheck } from "../ops/readiness.ts";
import { createSampler } from "../transport/calls/report.ts";
import type { Machine } from "./followed-files.ts";
import type { EnabledApi } from "./further-apis.ts";
import { openSessionRoute } from "./session-route.ts";

type Config = ConfigFor<"serve">;

export interface Callers {
  readonly authenticator: Authenticator;
  /** Undefined without a session route. */
  readonly sessionApi: EnabledApi | undefined;
}

/**
 * Rejects, naming the setting, if a file is invalid or cannot be read.
 *
 * @param attributes further attributes of callers
 */
export async function openCallers(
  config: Config,
  shared: ReplayStore & PortionCounters,
  attributes: DeclaredAttributes,
  machine: Machine,
): Promise<Callers> {
  const unread = undeclaredNames(attributes.current, [config.attributeHeaders]);
  if (unread.length > 0)
    machine.logger.warn({ attributes: unread }, "SVC_ATTRIBUTE_HEADERS names undeclared attributes");
  const onEvent = reportAuthentication(machine);
  const session = await openSessionRoute(config, attributes, shared, machine, (inbound) =>
    sessionPeer(inbound, ingressOf(config), sessionRule(config), (remoteAddress) =>
      onEvent({ type: "forwarded_certificate_ignored", remoteAddress }),
    ),
  );
  const possession = await proofOfPossessionRule(config, shared, machine);
  const count = (issuers: readonly IssuerEntry[]) =>
    machine.metrics.issuersInForce(issuers.map(({ issuer }) => issuer));
  const issuers = await openIssuers(config, machine.files, (changed) => {
    authenticator.replaceIssuers(changed);
    count(changed);
  });
  count(issuers);
  const options = authenticatorOptions(config, issuers, session?.token, attributes, possession);
  const authenticator = createAuthenticator(options, {
    ...machine,
    random: Math.random,
    readFile: (path) => readFile(path, "utf8"),
    onEvent,
  });
  return { authenticator, sessionApi: session?.api };
}

function authenticatorOptions(
  { authMode, headerPrefix, attributeHeaders, ...config }: Config,
  issuers: readonly IssuerEntry[],
  session: SessionTokenRule | undefined,
  attributes: DeclaredAttributes,
  proofOfPossession: ProofOfPossessionRule,
): AuthenticatorOptions {
  return {
    tokens:
      authMode === "trusted_headers"
        ? undefined
        : { issuers, session, attributes, proofOfPossession, authoritiesFile: config.oidcCa },
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

async function proofOfPossessionRule(
  config: Config,
  replayStore: ReplayStore,
  { files, clock }: Pick<Machine, "files" | "clock">,
): Promise<ProofOfPossessionRule> {
  const { proofOfPossession, publicUrl } = config;
  switch (proofOfPossession) {
    case "none":
      return { mode: "none" };
    case "mtls":
      return certificateRule(config);
    case "dpop": {
      const secret = await files.follow("dpop_nonce_key", { parse: ([text = ""]) => text.trim() });
      const nonces = secret && createDpopNonces(() => secret.current, clock);
      return { mode: "dpop", publicUrl, replayStore, nonces };
    }
  }
}

/** Proof of possession for new sessions; settings exclude DPoP. */
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

/** Ingresses that the deployment trusts to speak for others. */
export function ingressOf({
  trustedProxies,
  trustedProxyCertificates,
}: Pick<Config, "trustedProxies" | "trustedProxyCertificates">): TrustedIngress {
  return { networks: trustedProxies, certificates: trustedProxyCertificates };
}

/** Minimum time between warnings about one issuer, in milliseconds; the metric counts every token. */
const overreachPauseMs = 60_000;

function reportAuthentication({ logger, metrics, clock }: Machine): (event: AuthenticatorEvent) => void {
  const toldAtMs = new Map<string, number>();
  const isToldOf = (issuer: string) => {
    const nowMs = clock.now();
    const isRecent = Math.abs(nowMs - (toldAtMs.get(issuer) ?? Number.NEGATIVE_INFINITY)) < overreachPauseMs;
    if (!isRecent) toldAtMs.set(issuer, nowMs);
    return isRecent;
  };
  const sample = createSampler(clock);
  /** Anyone can send such headers: the metrics count all of them, and the log has some. */
  const warnOfIgnored = (type: SecurityEvent, remoteAddress: string, message: string) => {
    const leftOut = sample(type);
    const fields = { ...securityFields(type), remote_address: remoteAddress, left_out: leftOut || undefined };
    if (leftOut !== undefined) logger.warn(fields, message);
  };
  return (event) => {
    switch (event.type) {
      case "identity_headers_ignored":
        metrics.identityHeadersIgnored();
        return warnOfIgnored(event.type, event.remoteAddress, "identity headers of an untrusted peer ignored");
      case "forwarded_certificate_ignored":
        metrics.forwardedCertificateIgnored();
        return warnOfIgnored(event.type, event.remoteAddress, "forwarded certificate of an untrusted peer ignored");
      case "issuer_overreached": {
        const { issuer, tenantId } = event;
        metrics.issuerOverreached(issuer);
        if (isToldOf(issuer)) return;
        const fields = { ...securityFields(event.type), issuer, tenant_id: tenantId };
        logger.warn(fields, "a token issuer spoke for a tenant that is not its own");
        return;
      }
      case "introspected":
        metrics.introspected(event.issuer, event.result);
        return;
      case "issuer_keys_fetched": {
        const { issuer, issuerReady, detail } = event;
        metrics.issuerKeysFetched(issuer, issuerReady);
        if (issuerReady) logger.debug({ issuer, detail }, "issuer keys fetched");
        else logger.warn({ issuer, detail }, "issuer keys not available");
        return;
      }
    }
  };
}

// Token issuers: the one that a setting names, or those of a watched file; and their status.

/**
 * Reads the issuers and watches the file. Rejects, naming the setting, if it is invalid.
 * @param onChange puts the change in force; must not throw
 * @returns the current issuers; none if tokens of issuers are not accepted
 */
export async function openIssuers(
  config: Config,
  files: Machine["files"],
  onChange: (issuers: readonly IssuerEntry[]) => void,
): Promise<readonly IssuerEntry[]> {
  if (config.authMode === "trusted_headers") return [];
  const followed = await files.follow("oidc_issuers", {
    parse: ([text = ""]) => parseIssuerFile(text, config),
    onChange,
    describe: ({ length }) => ({ issuers: String(length) }),
  });
  if (followed !== undefined) return followed.current;
  const { oidcIssuer, oidcAudience, requireAtJwt } = config;
  if (oidcIssuer === undefined) return [];
  const claims = claimNamesOf(config);
  return [{ issuer: oidcIssuer, audience: oidcAudience, requireAtJwt, claims, tenants: everyTenant }];
}

/** Whether tokens of an OIDC issuer are accepted. */
function takesIssuerTokens({ authMode, oidcIssuer, oidcIssuers }: Config): boolean {
  return authMode !== "trusted_headers" && (oidcIssuer !== undefined || oidcIssuers !== undefined);
}

/**
 * The configuration in force for a tenant's callers: without an issuer for the tenant, its tokens cannot come from one;
 * in a mode without tokens, none are bound. Returns the same object as long as nothing changes.
 */
export function authConfigurations(
  config: Config,
  { issuerOf, status }: Pick<Authenticator, "issuerOf" | "status">,
): (tenantId?: TenantId) => AuthConfiguration {
  const proofOfPossession = config.authMode === "trusted_headers" ? "none" : config.proofOfPossession;
  const common = { proofOfPossession, mtlsReady: proofOfPossession === "mtls" };
  const without: AuthConfiguration = { mode: "bearer_token_validation", ...common, oidcIssuerReady: false };
  const withIssuers = (oidcIssuerReady: boolean) =>
    ({ mode: "oauth_client_credentials", ...common, oidcIssuerReady }) as const;
  const ofAll = [withIssuers(true), withIssuers(false)] as const;
  const ofIssuer = rememberedBy(({ issuer: oidcIssuer, audience: oidcAudience }: IssuerEntry) =>
    ofAll.map((each) => ({ ...each, oidcIssuer, oidcAudience })),
  );
  return (tenantId) => {
    if (tenantId === undefined) {
      if (!takesIssuerTokens(config)) return without;
      return status().issuerReady ? ofAll[0] : ofAll[1];
    }
    const found = issuerOf(tenantId);
    return (found && ofIssuer(found.entry)[found.issuerReady ? 0 : 1]) ?? without;
  };
}

/**
 * Empty if tokens of issuers are not accepted. The check passes while any issuer has keys, because one unreachable
 * issuer must not stop the service for tenants of the others; it causes a remark.
 */
export function issuerReadiness(config: Config, { status }: Pick<Authenticator, "status">): readonly ReadinessCheck[] {
  if (!takesIssuerTokens(config)) return [];
  return [
    {
      name: "issuer_keys",
      async check() {
        const { issuerReady, detail } = status();
        if (!issuerReady) throw new ServiceError("issuer_unavailable", detail);
      },
      remark: () => status().remark,
    },
  ];
}
