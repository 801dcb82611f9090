/** Token issuers: the one that a setting names, or those of a watched file; and their status. */
import type { Authenticator } from "../auth/authenticator.ts";
import { ServiceError } from "../base/errors.ts";
import type { TenantId } from "../base/ids.ts";
import { everyTenant, type IssuerEntry } from "../base/issuers.ts";
import type { ConfigFor } from "../config/config.ts";
import { claimNamesOf, parseIssuerFile } from "../config/data-files.ts";
import type { AuthConfiguration } from "../domain/platform-domains.ts";
import type { ReadinessCheck } from "../ops/readiness.ts";
import { type FileSource, isNamed } from "./followed-files.ts";

type Config = ConfigFor<"serve">;

/**
 * Reads the issuers and watches the file. Rejects, naming the setting, if it is invalid.
 * @param onChange puts the change in force; must not throw
 * @returns the current issuers; none if tokens of issuers are not accepted
 */
export async function openIssuers(
  config: Config,
  files: FileSource,
  onChange: (issuers: readonly IssuerEntry[]) => void,
): Promise<readonly IssuerEntry[]> {
  if (config.authMode === "trusted_headers") return [];
  if (isNamed("oidc_issuers", config)) {
    const followed = await files.follow("oidc_issuers", {
      parse: ([text = ""]) => parseIssuerFile(text, config),
      onChange,
      describe: ({ length }) => ({ issuers: String(length) }),
    });
    return followed.current;
  }
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
  const said = new WeakMap<object, readonly [ready: AuthConfiguration, notReady: AuthConfiguration]>();
  const without: AuthConfiguration = { mode: "bearer_token_validation", ...common, oidcIssuerReady: false };
  const withIssuers = (oidcIssuerReady: boolean) =>
    ({ mode: "oauth_client_credentials", ...common, oidcIssuerReady }) as const;
  const ofAll = [withIssuers(true), withIssuers(false)] as const;
  return (tenantId) => {
    if (tenantId === undefined) {
      if (!takesIssuerTokens(config)) return without;
      return status().issuerReady ? ofAll[0] : ofAll[1];
    }
    const found = issuerOf(tenantId);
    if (found === undefined) return without;
    const { entry, issuerReady } = found;
    const names = { oidcIssuer: entry.issuer, oidcAudience: entry.audience };
    const known = said.get(entry) ?? [
      { ...withIssuers(true), ...names },
      { ...withIssuers(false), ...names },
    ];
    said.set(entry, known);
    return issuerReady ? known[0] : known[1];
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
