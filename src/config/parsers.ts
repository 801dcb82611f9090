/** Parsers of single values. Each throws `ValueProblem` and never repeats the value, because it may be a secret. */
import { isLoopbackHost, type Network, parseNetwork } from "../base/network.ts";
import { type PostgresTarget, parsePostgresUrl, type StoreLocation } from "../base/postgres-url.ts";
import { parseThumbprint } from "../base/text-forms.ts";
import { type SdkRoute, sdkRoutes } from "../base/vocabulary.ts";
import { map, type Parser, text, ValueProblem } from "./raw.ts";

/** Address of a listener. */
export interface ListenAddress {
  /** Name or address, IPv6 without brackets. */
  readonly host: string;
  /** 0 to 65535; 0 lets the system choose. */
  readonly port: number;
  /** Whether only this machine can reach it. */
  readonly loopback: boolean;
}

/** `host:port`, with an IPv6 address in brackets: `127.0.0.1:8080`, `[::1]:0`. */
export const listenAddress = text((value): ListenAddress => {
  const match = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]+)):(\d{1,5})$/.exec(value);
  const host = match?.[1] ?? match?.[2];
  const port = Number(match?.[3]);
  if (host === undefined || port > 65_535 || (match?.[1] !== undefined && parseNetwork(host) === undefined)) {
    throw new ValueProblem("must be host:port, an IPv6 address in brackets, the port at most 65535");
  }
  return { host, port, loopback: isLoopbackHost(match?.[1] === undefined ? host : `[${host}]`) };
});

/** One of the given words. */
export function oneOf<const T extends string>(values: readonly T[]): Parser<T> {
  return text(wordOf(values));
}

/** The text as one of the given words; for items of lists. */
export function wordOf<const T extends string>(values: readonly T[]): (value: string) => T {
  return (value) => {
    const found = values.find((candidate) => candidate === value);
    if (found === undefined) throw new ValueProblem(`must be one of ${values.join(", ")}`);
    return found;
  };
}

/** `on` or `off`; YAML's `true` and `false` too. */
export const onOff = text((value): boolean => {
  const word = wordOf(["on", "off", "true", "false"])(value);
  return word === "on" || word === "true";
});

/** A decimal integer in the given range, both ends included. */
export function integer(min: number, max: number): Parser<number> {
  return text((value) => {
    const number = Number(value);
    if (!/^(0|[1-9]\d{0,15})$/.test(value) || number < min || number > max) {
      throw new ValueProblem(`must be an integer from ${min} to ${max}`);
    }
    return number;
  });
}

/** A text that matches the pattern. `rule` completes "must be …". */
export function matching(pattern: RegExp, rule: string): Parser<string> {
  return text(itemMatching(pattern, rule));
}

/** The text if it matches the pattern; for items of lists. */
export function itemMatching(pattern: RegExp, rule: string): (value: string) => string {
  return (value) => {
    if (!pattern.test(value)) throw new ValueProblem(`must be ${rule}`);
    return value;
  };
}

/** A path of the file system, unchanged. */
export const path = text((value): string => {
  if (value.includes("\0")) throw new ValueProblem("must be a path");
  return value;
});

/**
 * An http or https URL without user information, query or fragment. Whether plain http is allowed is checked elsewhere.
 */
export function httpUrl(value: string): URL {
  const url = URL.parse(value);
  if (url === null || !/^https?:\/\/\S+$/.test(value) || !["http:", "https:"].includes(url.protocol)) {
    throw new ValueProblem("must be an http or https URL");
  }
  if (url.username !== "" || url.password !== "" || value.includes("?") || value.includes("#")) {
    throw new ValueProblem("must be a URL without user information, query or fragment");
  }
  return url;
}

/** An issuer identifier (OpenID Connect Discovery 1.0 §2), unchanged, because tokens are compared with it. */
export const issuer = text((value): string => {
  httpUrl(value);
  return value;
});

/** An audience, as a token carries it. */
export const audience = matching(/^[\x21-\x7e]{1,256}$/, "1 to 256 visible ASCII characters");

/** The name of a claim. */
export const claimName = matching(/^[\x21-\x7e]{1,256}$/, "the name of a claim");

/** A base URL. Returned without a trailing slash. */
export const baseUrl = text((value): string => httpUrl(value).href.replace(/\/+$/, ""));

/** One scope (RFC 6749 §3.3), without the comma that separates lists. */
export const scope = itemMatching(/^[\x21\x23-\x2b\x2d-\x5b\x5d-\x7e]{1,256}$/, "scopes of visible ASCII characters");

/** One network of trusted proxies. A block that covers every address is refused, because it would trust everybody. */
export function trustedNetwork(value: string): Network {
  const network = parseNetwork(value);
  if (network === undefined) {
    throw new ValueProblem("must be addresses or CIDR blocks without host bits, such as 10.0.0.0/8 or 2001:db8::/32");
  }
  if (network.prefixLength === 0) throw new ValueProblem("must not trust every address");
  return network;
}

/** The thumbprint of one certificate: 32 bytes. */
export function thumbprint(value: string): Uint8Array {
  const bytes = parseThumbprint(value);
  if (bytes === undefined) throw new ValueProblem("must be SHA-256 thumbprints in base64url, 43 characters each");
  return bytes;
}

/** `sqlite:<path>` or a PostgreSQL URL. */
export const storeLocation = text((value): StoreLocation => {
  if (/^postgres(ql)?:/.test(value)) return { kind: "postgres", target: postgresTarget(value) };
  const file = /^sqlite:([^\0]+)$/.exec(value)?.[1];
  if (file === undefined) throw new ValueProblem("must be sqlite:<path> or postgres://…");
  if (file.includes(":memory:")) throw new ValueProblem("must name a file: records in memory are not durable");
  return { kind: "sqlite", path: file };
});

/** The database of a PostgreSQL URL. */
function postgresTarget(value: string): PostgresTarget {
  const target = parsePostgresUrl(value);
  if ("problem" in target) throw new ValueProblem(target.problem);
  return target;
}

/** Scopes of every route; an empty list if only the defaults are needed. */
type RouteScopes = Readonly<Record<SdkRoute, readonly string[]>>;

/** Scopes of routes that the setting does not name. */
export const defaultRouteScopes: RouteScopes = {
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
export const routeScopes = map((routes): RouteScopes => {
  const scopes = Object.entries(routes).map(([route, list]): [string, readonly string[]] => {
    if (!sdkRoutes.some((known) => known === route)) {
      throw new ValueProblem(`has an unknown route; the routes are ${sdkRoutes.join(", ")}`);
    }
    if (!Array.isArray(list) || !list.every((item) => typeof item === "string")) {
      throw new ValueProblem(`needs a list of scopes for route ${route}`);
    }
    return [route, list.map(scope)];
  });
  return { ...defaultRouteScopes, ...Object.fromEntries(scopes) };
});

export interface WitnessSetting {
  /** Verifier key of its cosignatures (C2SP vkey, type 4). */
  readonly key: string;
  /** Submission prefix (C2SP tlog-witness). */
  readonly url: string;
}

/** Sixteen cosignatures of any kind in C2SP fit a note several times. */
const maxWitnesses = 16;

/** A map from verifier key to URL. The keys themselves are checked on use. */
export const witnesses = map((entries): readonly WitnessSetting[] => {
  const settings = Object.entries(entries).map(([key, url]) => {
    if (!/^[^+\s]+\+[0-9a-f]{8}\+[A-Za-z0-9+/]+={0,2}$/.test(key))
      throw new ValueProblem("must be a map from verifier keys (name+id+key) to URLs");
    if (typeof url !== "string") throw new ValueProblem("must be a map from verifier keys to URLs");
    const { protocol, hostname, href } = httpUrl(url);
    if (protocol === "http:" && !isLoopbackHost(hostname))
      throw new ValueProblem("must use https: plain http is accepted on loopback only");
    return { key, url: href };
  });
  if (settings.length === 0 || settings.length > maxWitnesses)
    throw new ValueProblem(`must name 1 to ${maxWitnesses} witnesses`);
  return settings;
});
