/** The accepted issuers, each with separate keys, claims, tenants and cache. They can be replaced at run time. */
import { isDeepStrictEqual } from "node:util";
import { decodeJwt } from "jose";
import type { TenantId } from "../../base/ids.ts";
import { type IntrospectionRule, type IssuerEntry, indistinctOf, overlapsOf, speaksFor } from "../../base/issuers.ts";
import { refusedToken } from "../challenge.ts";
import type { IssuerKeys, IssuerStatus } from "./issuer-keys.ts";
import type { RequireVerified } from "./token-cache.ts";

export interface TokenSource {
  /** Verifies a token completely, `iss` included. */
  readonly verify: RequireVerified;
  /** Absent if its keys have the status. */
  readonly status?: () => IssuerStatus;
}

export interface TokenIssuersOptions {
  readonly issuers: readonly IssuerEntry[];
  /** `iss` and source of the service's own tokens; undefined if it issues none. */
  readonly own: { readonly issuer: string; readonly source: TokenSource } | undefined;
  /** @throws Error if the issuer identifier is invalid */
  readonly openKeys: (issuer: string) => IssuerKeys;
  /** @param sharers number of issuers that share the memory for caches */
  readonly openSource: (entry: IssuerEntry, keys: IssuerKeys, sharers: number) => TokenSource;
  readonly openIntrospection: (entry: IssuerEntry, rule: IntrospectionRule, sharers: number) => TokenSource;
}

export interface NamedStatus extends IssuerStatus {
  readonly issuer: string;
}

export interface TokenIssuers {
  /** Verifies a token with its issuer's source. If the issuer is replaced meanwhile, the new one decides. */
  readonly verify: RequireVerified;
  /** The issuer that is responsible for the tenant, and whether its keys are there; undefined if there is none. */
  ofTenant(tenantId: TenantId): { readonly entry: IssuerEntry; readonly issuerReady: boolean } | undefined;
  statuses(): readonly NamedStatus[];
  /** Starts to fetch keys. Call once. */
  start(): void;
  /**
   * Replaces the issuers. Caches of unchanged issuers stay; keys stay while the issuer does.
   * @throws Error, without any change, if one is invalid or two share a tenant
   */
  replace(issuers: readonly IssuerEntry[]): void;
  close(): void;
}

interface Issuer {
  readonly entry: IssuerEntry;
  /** Undefined if its tokens are introspected. */
  readonly keys: IssuerKeys | undefined;
  readonly source: TokenSource;
}

const statusOf = ({ keys, source }: Issuer): IssuerStatus =>
  keys?.status() ?? source.status?.() ?? { issuerReady: false, detail: "" };

/** @throws Error as `replace` does */
export function createTokenIssuers(options: TokenIssuersOptions): TokenIssuers {
  const { own, openKeys, openSource, openIntrospection } = options;
  let current: ReadonlyMap<string, Issuer> = new Map();
  let only: TokenSource | undefined;
  let asked: readonly { readonly prefix: string; readonly source: TokenSource }[] = [];
  let isStarted = false;

  function replace(entries: readonly IssuerEntry[]): void {
    requireApart(entries, own?.issuer);
    const opened: IssuerKeys[] = [];
    const open = (issuer: string) => {
      const keys = openKeys(issuer);
      opened.push(keys);
      return keys;
    };
    const next = new Map<string, Issuer>();
    for (const entry of entries) {
      const known = current.get(entry.issuer);
      const { issuer, introspection } = entry;
      if (known !== undefined && isDeepStrictEqual(known.entry, entry)) next.set(issuer, known);
      else if (introspection !== undefined) {
        next.set(issuer, { entry, keys: undefined, source: openIntrospection(entry, introspection, entries.length) });
      } else {
        const keys = known?.keys ?? open(issuer);
        next.set(issuer, { entry, keys, source: openSource(entry, keys, entries.length) });
      }
    }
    const before = current;
    current = next;
    only = onlySource(next, own?.source);
    asked = [...next.values()].flatMap(({ entry: { introspection }, source }) =>
      introspection === undefined ? [] : [{ prefix: introspection.tokenPrefix, source }],
    );
    for (const [issuer, { keys }] of before) if (keys !== next.get(issuer)?.keys) keys?.close();
    if (isStarted) for (const keys of opened) keys.start();
  }

  /**
   * The unverified `iss` only chooses the source: no source accepts a token that was signed for another. An opaque
   * token goes to the issuer whose token prefix matches, and to no other.
   */
  function sourceOf(token: string): TokenSource {
    if (only !== undefined) return only;
    const issuer = claimedIssuer(token);
    const source =
      issuer === undefined
        ? asked.find(({ prefix }) => token.startsWith(prefix))?.source
        : issuer === own?.issuer
          ? own.source
          : current.get(issuer)?.source;
    if (source !== undefined) return source;
    throw refusedToken("invalid_token", "the access token is not valid", "token iss");
  }

  replace(options.issuers);
  return {
    replace,
    async verify(token, context) {
      for (;;) {
        const issuersBefore = current;
        const source = sourceOf(token);
        const verified = await source.verify(token, context);
        // An issuer that was removed while its keys were awaited must not authenticate a caller.
        if (current === issuersBefore || sourceOf(token) === source) return verified;
      }
    },
    ofTenant(tenantId) {
      for (const issuer of current.values())
        if (speaksFor(issuer.entry.tenants, tenantId))
          return { entry: issuer.entry, issuerReady: statusOf(issuer).issuerReady };
      return undefined;
    },
    statuses: () => [...current].map(([name, issuer]) => ({ issuer: name, ...statusOf(issuer) })),
    start() {
      isStarted = true;
      for (const { keys } of current.values()) keys?.start();
    },
    close() {
      for (const { keys } of current.values()) keys?.close();
    },
  };
}

/** Most issuers that one detail names. */
const maximumNamed = 8;

/** Status of all issuers: ready if any issuer has its keys. The detail names those without. */
export function statusOfAll(statuses: readonly NamedStatus[]): IssuerStatus {
  const [first, ...others] = statuses;
  if (first === undefined) return { issuerReady: false, detail: "no token issuer is configured" };
  if (others.length === 0) {
    const { issuer: _, ...status } = first;
    return status;
  }
  const away = statuses.filter(({ issuerReady, remark }) => !issuerReady || remark !== undefined);
  const named = away.slice(0, maximumNamed).map(({ issuer, detail }) => `${issuer}: ${detail}`);
  const more = away.length - named.length;
  if (away.length === 0) return { issuerReady: true, detail: `the keys of ${statuses.length} issuers` };
  const remark = `${away.length} of ${statuses.length} issuers have problems: ${named.join("; ")}${more > 0 ? `; and ${more} more` : ""}`;
  return { issuerReady: statuses.some(({ issuerReady }) => issuerReady), detail: remark, remark };
}

function requireApart(entries: readonly IssuerEntry[], own: string | undefined): void {
  const names = new Set(entries.map(({ issuer }) => issuer));
  if (names.size < entries.length) throw new Error("an issuer is listed twice");
  if (own !== undefined && names.has(own))
    throw new Error("session tokens have the same issuer name as a configured issuer");
  if (own === undefined && names.size === 0)
    throw new Error("no token issuer is configured, and session tokens are off");
  const [overlap] = overlapsOf(entries);
  if (overlap !== undefined)
    throw new Error(`${overlap.issuers.join(" and ")} are both configured for ${overlap.tenants}`);
  const indistinct = indistinctOf(entries);
  if (indistinct !== undefined) throw new Error(`the tokens of ${indistinct.join(" and ")} cannot be distinguished`);
}

/** The only source, if there is just one; then choosing it needs no parsing. */
function onlySource(issuers: ReadonlyMap<string, Issuer>, own: TokenSource | undefined): TokenSource | undefined {
  const [first, ...others] = issuers.values();
  if (first === undefined) return own;
  // An issuer that introspects must not see the tokens of others.
  return others.length === 0 && own === undefined && first.keys !== undefined ? first.source : undefined;
}

function claimedIssuer(token: string): string | undefined {
  try {
    const { iss } = decodeJwt(token);
    return typeof iss === "string" ? iss : undefined;
  } catch {
    // Not a JWT: refused like a token of an unknown issuer.
    return undefined;
  }
}
