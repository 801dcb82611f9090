/** The issuers whose tokens are taken: each with keys, claims, tenants and memory of its own. They may change. */
import { isDeepStrictEqual } from "node:util";
import { decodeJwt } from "jose";
import type { TenantId } from "../../base/ids.ts";
import { type IntrospectionRule, type IssuerEntry, indistinctOf, overlapsOf, speaksFor } from "../../base/issuers.ts";
import { refusedToken } from "../challenge.ts";
import type { IssuerKeys, IssuerStatus } from "./issuer-keys.ts";
import type { RequireVerified } from "./token-cache.ts";

/** Who verifies the tokens of one issuer. */
export interface TokenSource {
  /** Verifies all that a token of this source must say, `iss` among it. */
  readonly verify: RequireVerified;
  /** Absent where its keys say how it is. */
  readonly status?: () => IssuerStatus;
}

export interface TokenIssuersOptions {
  readonly issuers: readonly IssuerEntry[];
  /** The service's own tokens: `iss`, and who verifies them; undefined where it makes none. */
  readonly own: { readonly issuer: string; readonly source: TokenSource } | undefined;
  /** @throws Error where the issuer identifier is none */
  readonly openKeys: (issuer: string) => IssuerKeys;
  /** @param sharers how many issuers share what memory there is */
  readonly openSource: (entry: IssuerEntry, keys: IssuerKeys, sharers: number) => TokenSource;
  readonly openIntrospection: (entry: IssuerEntry, rule: IntrospectionRule, sharers: number) => TokenSource;
}

/** Of one issuer. */
export interface NamedStatus extends IssuerStatus {
  readonly issuer: string;
}

export interface TokenIssuers {
  /** As the source of the token's issuer does; what that issuer is changed to in the meantime counts. */
  readonly verify: RequireVerified;
  /** The issuer that may speak for the tenant, and whether its keys are there; undefined where none may. */
  ofTenant(tenantId: TenantId): { readonly entry: IssuerEntry; readonly issuerReady: boolean } | undefined;
  statuses(): readonly NamedStatus[];
  /** Begins to fetch keys. Call once. */
  start(): void;
  /**
   * Takes these issuers from now on. What is remembered of one that is as it was stays; keys stay while the issuer does.
   * @throws Error, and nothing has changed, where one is not good or a tenant has two
   */
  replace(issuers: readonly IssuerEntry[]): void;
  close(): void;
}

interface Issuer {
  readonly entry: IssuerEntry;
  /** Undefined where it is asked about its tokens. */
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
   * What a token says of itself only chooses who verifies it: no source takes a token that was signed for another. What
   * names no issuer is for the one that is asked about tokens that begin so: nobody else is shown it.
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
        // An issuer that was removed while its keys were waited for lets nobody in.
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

/** Issuers that one detail names. */
const maximumNamed = 8;

/**
 * Of all together. One that is away takes nothing from the tenants of the others: tokens can be verified while any has
 * its keys. The detail names those that have not.
 */
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
  const remark = `${away.length} of ${statuses.length} issuers are not as they should be: ${named.join("; ")}${more > 0 ? `; and ${more} more` : ""}`;
  return { issuerReady: statuses.some(({ issuerReady }) => issuerReady), detail: remark, remark };
}

function requireApart(entries: readonly IssuerEntry[], own: string | undefined): void {
  const names = new Set(entries.map(({ issuer }) => issuer));
  if (names.size < entries.length) throw new Error("an issuer is there twice");
  if (own !== undefined && names.has(own)) throw new Error("session tokens have the name of the token issuer");
  if (own === undefined && names.size === 0) throw new Error("nobody's access tokens are taken");
  const [overlap] = overlapsOf(entries);
  if (overlap !== undefined) throw new Error(`${overlap.issuers.join(" and ")} may both speak for ${overlap.tenants}`);
  const indistinct = indistinctOf(entries);
  if (indistinct !== undefined) throw new Error(`the tokens of ${indistinct.join(" and ")} cannot be told apart`);
}

/** The source of all tokens, where there is one: then nothing is read to choose it. */
function onlySource(issuers: ReadonlyMap<string, Issuer>, own: TokenSource | undefined): TokenSource | undefined {
  const [first, ...others] = issuers.values();
  if (first === undefined) return own;
  // Where it is asked about tokens, those of others are not for it to see.
  return others.length === 0 && own === undefined && first.keys !== undefined ? first.source : undefined;
}

function claimedIssuer(token: string): string | undefined {
  try {
    const { iss } = decodeJwt(token);
    return typeof iss === "string" ? iss : undefined;
  } catch {
    // No JWT: refused like one of an issuer that nobody knows.
    return undefined;
  }
}
