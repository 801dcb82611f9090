/** Schemas of the values of settings. */

import * as v from "valibot";
import { parseTenantId, type TenantId } from "../base/ids.ts";
import { defined, hasRepeatedMember, orUndefined, parseJson } from "../base/json.ts";
import { isCanonicalKeyReference } from "../base/key-reference-form.ts";
import { isLoopbackHost, parseNetwork } from "../base/network.ts";
import { parsePostgresUrl, type StoreLocation } from "../base/postgres-url.ts";
import { parseThumbprint } from "../base/text-forms.ts";
import {
  type KeyReferenceRule,
  keyTransportModes,
  type SdkRoute,
  sdkRoutes,
  type TdfKeyName,
  tdfKeyAlgorithms,
  tdfKeyForms,
} from "../base/vocabulary.ts";
import { mapOf, matching, members, oneOf, parsed, type Schema, text } from "./schema.ts";

/**
 * `host:port`, with an IPv6 address in brackets: `127.0.0.1:8080`, `[::1]:0`. The host of the value has no brackets. Port
 * 0 lets the system choose. `loopback` is whether only this machine can reach it.
 */
export const listenAddress = v.pipe(
  text,
  parsed((value) => {
    const [, address, name, digits] = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]+)):(\d{1,5})$/.exec(value) ?? [];
    const host = address ?? name;
    const port = Number(digits);
    if (host === undefined || port > 65_535 || (address !== undefined && parseNetwork(address) === undefined))
      return undefined;
    return { host, port, loopback: isLoopbackHost(address === undefined ? host : `[${host}]`) };
  }, "must be host:port, an IPv6 address in brackets, the port at most 65535"),
);

/** `on` or `off`; YAML's `true` and `false` too. */
export const onOff = v.pipe(
  oneOf(["on", "off", "true", "false"]),
  v.transform((word) => word === "on" || word === "true"),
);

/** A decimal integer in the given range, both ends included. */
export function integer(min: number, max: number) {
  const rule = `must be an integer from ${min} to ${max}`;
  return v.pipe(
    text,
    v.regex(/^(0|[1-9]\d{0,15})$/, rule),
    v.transform(Number),
    v.minValue(min, rule),
    v.maxValue(max, rule),
  );
}

/** A path of the file system, unchanged. */
export const path = v.pipe(
  text,
  v.check((value) => !value.includes("\0"), "must be a path"),
);

/**
 * An http or https URL without user information, query or fragment. Whether plain http is allowed is checked elsewhere.
 */
const httpUrl = v.pipe(
  text,
  v.check((value) => /^https?:\/\/\S+$/.test(value) && URL.canParse(value), "must be an http or https URL"),
  v.check((value) => {
    const { username, password } = new URL(value);
    return username === "" && password === "" && !/[?#]/.test(value);
  }, "must be a URL without user information, query or fragment"),
);

/** An `httpUrl` in the normalized form of the `URL` class. */
export const href = v.pipe(
  httpUrl,
  v.transform((value) => new URL(value).href),
);

/** Whether the URL is https, or http that does not leave the machine. */
export function isGuarded(url: string): boolean {
  const { protocol, hostname } = new URL(url);
  return protocol === "https:" || isLoopbackHost(hostname);
}

/** An http URL off loopback is refused with this text. */
const mustUseHttps = "must use https: plain http is accepted on loopback only";

/** A URL as above that is guarded. */
export const guardedUrl = v.pipe(href, v.check(isGuarded, mustUseHttps));

/** A base URL, without a trailing slash. */
export const baseUrl = v.pipe(
  href,
  v.transform((value) => value.replace(/\/+$/, "")),
);

/** An issuer identifier (OpenID Connect Discovery 1.0 §2), unchanged, because tokens are compared with it. */
export const issuer = v.pipe(httpUrl, v.check(isGuarded, mustUseHttps));

/** An audience, as a token carries it. */
export const audience = matching(/^[\x21-\x7e]{1,256}$/, "1 to 256 visible ASCII characters");

/** The name of a claim. */
export const claimName = matching(/^[\x21-\x7e]{1,256}$/, "the name of a claim");

/** One scope (RFC 6749 §3.3), without the comma that separates lists. */
export const scope = matching(/^[\x21\x23-\x2b\x2d-\x5b\x5d-\x7e]{1,256}$/, "scopes of visible ASCII characters");

/** One network of trusted proxies. A block that covers every address is refused, because it would trust everybody. */
export const trustedNetwork = v.pipe(
  text,
  parsed(parseNetwork, "must be addresses or CIDR blocks without host bits, such as 10.0.0.0/8 or 2001:db8::/32"),
  v.check(({ prefixLength }) => prefixLength > 0, "must not trust every address"),
);

/** The thumbprint of one certificate: 32 bytes. */
export const thumbprint = v.pipe(
  text,
  parsed(parseThumbprint, "must be SHA-256 thumbprints in base64url, 43 characters each"),
);

/** `sqlite:<path>` or a PostgreSQL URL. */
export const storeLocation: Schema<StoreLocation> = v.pipe(
  text,
  v.rawTransform(({ dataset: { value }, addIssue, NEVER }): StoreLocation => {
    if (/^postgres(ql)?:/.test(value)) {
      const target = parsePostgresUrl(value);
      if (!("problem" in target)) return { kind: "postgres", target };
      addIssue({ message: target.problem });
      return NEVER;
    }
    const file = /^sqlite:([^\0]+)$/.exec(value)?.[1];
    if (file === undefined) addIssue({ message: "must be sqlite:<path> or postgres://…" });
    else if (!file.includes(":memory:")) return { kind: "sqlite", path: file };
    else addIssue({ message: "must name a file: records in memory are not durable" });
    return NEVER;
  }),
);

const isTenantId = (value: unknown): value is TenantId =>
  typeof value === "string" && parseTenantId(value) !== undefined;

export const tenantId = v.custom<TenantId>(isTenantId, "must be a tenant id");

export const tenantIds = v.custom<readonly TenantId[]>(
  (value) => Array.isArray(value) && value.length > 0 && value.every(isTenantId),
  "must be a list of tenant ids",
);

/** A map from JSON in the environment, or a real map of the file. */
function mapSetting<T>(schema: Schema<T>): Schema<T> {
  return v.pipe(
    v.unknown(),
    v.rawTransform(({ dataset: { value }, addIssue, NEVER }): unknown => {
      if (typeof value !== "string") return value;
      const map = orUndefined(() => parseJson(value));
      if (map !== undefined && !hasRepeatedMember(value, map)) return map;
      addIssue({ message: map === undefined ? "must be a map, as a JSON object" : "names a key twice" });
      return NEVER;
    }),
    schema,
  );
}

/** Scopes of routes that the setting does not name. */
export const defaultRouteScopes: Readonly<Record<SdkRoute, readonly string[]>> = {
  capabilities: [],
  whoami: [],
  bootstrap: [],
  "protection-plan": ["policy.read"],
  "policy-resolve": ["policy.read"],
  "key-access-plan": ["keys.use"],
  "artifact-register": ["artifacts.write"],
  evidence: ["evidence.write"],
};

/** A map from route, as the last part of its path, to a list of scopes that replaces the route's default. */
export const routeScopes = mapSetting(
  v.pipe(
    members(v.entriesFromList(sdkRoutes, v.exactOptional(v.array(scope, "must be a list of scopes")))),
    v.transform((given) => ({ ...defaultRouteScopes, ...given })),
  ),
);

/** Sixteen cosignatures of any kind in C2SP fit a note several times. */
const maxWitnesses = 16;

/**
 * A map from verifier key of cosignatures (C2SP vkey, type 4) to submission prefix (C2SP tlog-witness). The keys
 * themselves are checked on use.
 */
export const witnesses = mapSetting(
  v.pipe(
    mapOf(
      matching(/^[^+\s]+\+[0-9a-f]{8}\+[A-Za-z0-9+/]+={0,2}$/, "a verifier key (name+id+key), with a URL as its value"),
      guardedUrl,
    ),
    v.check(({ size }) => size > 0 && size <= maxWitnesses, `must name 1 to ${maxWitnesses} witnesses`),
    // A cosignature does not cover the name: one key under two names would count twice for the quorum.
    v.check(
      (map) => new Set([...map.keys()].map((vkey) => vkey.split("+").slice(2).join("+"))).size === map.size,
      "names a witness's key twice",
    ),
    v.transform((map) => [...map].map(([key, url]) => ({ key, url }))),
  ),
);

/** Headers of HTTP itself, and those that callers and proxies use for other purposes. */
const takenHeaders: readonly string[] = [
  ...["authorization", "proxy-authorization", "dpop", "host", "connection", "trailer", "te", "upgrade", "expect"],
  ...["content-type", "content-length", "content-encoding", "transfer-encoding", "accept", "accept-encoding", "cookie"],
  ...["x-forwarded-for", "x-request-id", "idempotency-key", "traceparent", "tracestate", "forwarded"],
];

/** A map from attribute to the lowercase header in which a trusted ingress sends it. Each header has one meaning. */
export const attributeHeaders = mapSetting(
  v.pipe(
    mapOf(
      matching(/^[a-z][a-z0-9_]{0,63}$/, "an attribute's name: lowercase letters, digits and underscores"),
      v.pipe(
        matching(/^[a-z0-9][a-z0-9-]{0,126}$/, "the lowercase name of a header"),
        v.check((header) => !takenHeaders.includes(header), "must be a header that has no other use"),
      ),
    ),
    v.check((map) => new Set(map.values()).size === map.size, "names a header twice"),
    v.transform((map): Readonly<Record<string, string>> => Object.fromEntries(map)),
  ),
);

const keyText = matching(/^[\x21-\x2b\x2d-\x7e]{1,256}$/, "visible ASCII text without a comma, 256 characters at most");

/** Managed references are canonical, so a pattern that matches no canonical one would not restrict anything. */
const keyPattern = v.pipe(
  matching(/^[\x21-\x7e]{1,256}$/, "a pattern of visible ASCII text, 256 characters at most"),
  v.check(
    (pattern) => isCanonicalKeyReference(pattern.replaceAll("*", "x")),
    "is a pattern that no canonical key reference matches: scheme and authority are lowercase, " +
      "without user, port, query, fragment, percent sign, empty or dot segment",
  ),
);

/**
 * A map from pattern to `{"mode", "origin", "tenants"?, "public_key_distribution"?, "exchange_algorithm"?, "tdf_key"?}`;
 * `tdf_key` is `{"url", "kid", "algorithm", "attribute_fqns"?}`.
 */
export const keyReferences = mapSetting(
  v.pipe(
    mapOf(
      keyPattern,
      members({
        mode: oneOf(keyTransportModes),
        origin: keyText,
        tenants: v.exactOptional(tenantIds),
        public_key_distribution: v.exactOptional(keyText),
        exchange_algorithm: v.exactOptional(keyText),
        tdf_key: v.exactOptional(
          v.pipe(
            members({
              url: matching(tdfKeyForms.url, "an http(s) URL without query"),
              kid: matching(tdfKeyForms.kid, "visible ASCII text without a comma"),
              algorithm: oneOf(tdfKeyAlgorithms),
              attribute_fqns: v.exactOptional(
                v.array(matching(tdfKeyForms.attributeFqn, "https://<namespace>/attr/<name>/value/<value>")),
              ),
            }),
            v.transform(({ attribute_fqns: attributeFqns = [], ...key }): TdfKeyName => ({ ...key, attributeFqns })),
          ),
        ),
      }),
    ),
    v.transform((map): readonly KeyReferenceRule[] =>
      [...map].map(([pattern, { public_key_distribution: publicKeyDistribution, tdf_key: tdfKey, ...named }]) => {
        const { exchange_algorithm: exchangeAlgorithm, ...rule } = named;
        return { pattern, ...rule, ...defined({ publicKeyDistribution, exchangeAlgorithm, tdfKey }) };
      }),
    ),
  ),
);
