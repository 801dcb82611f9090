/** URLs of PostgreSQL databases: a safe subset of what libpq accepts. */
import { orUndefined } from "./json.ts";
import { isLoopbackHost } from "./network.ts";

/** Paths of PEM files. */
export interface PostgresTls {
  /** Authorities of the server's certificate; undefined for the runtime's. */
  readonly rootCertificate: string | undefined;
  /** Client certificate and its key; both or neither. */
  readonly certificate: string | undefined;
  readonly key: string | undefined;
}

export interface PostgresTarget {
  /** Host name, address without brackets, or the directory of a Unix socket, which begins with a slash. */
  readonly host: string;
  readonly port: number;
  readonly database: string;
  readonly user: string;
  readonly password: string | undefined;
  /** Undefined for plaintext, which is only possible on loopback and Unix sockets. */
  readonly tls: PostgresTls | undefined;
}

/** Location of the store, from the settings. */
export type StoreLocation =
  | { readonly kind: "sqlite"; readonly path: string }
  | { readonly kind: "postgres"; readonly target: PostgresTarget };

/** Why the URL is invalid. Does not quote it: a URL may have a password. */
interface PostgresUrlProblem {
  readonly problem: string;
}

const parameters = new Set(["sslmode", "sslrootcert", "sslcert", "sslkey"]);

/**
 * Parses `postgres://user[:password]@host[:port]/database[?sslmode=verify-full&sslrootcert=…]`. The host of a Unix
 * socket is its percent-encoded directory: `%2Frun%2Fpostgresql`. Other machines require `verify-full`: weaker modes do
 * not authenticate the server.
 */
export function parsePostgresUrl(text: string): PostgresTarget | PostgresUrlProblem {
  if (!/^postgres(ql)?:\/\//.test(text) || !URL.canParse(text)) return problem("must be a URL postgres://…");
  const url = new URL(text);
  const unknown = [...url.searchParams.keys()].find((name, at, all) => !parameters.has(name) || all.indexOf(name) < at);
  if (unknown !== undefined) return problem(`must have no parameters but ${[...parameters].join(", ")}, once each`);
  const parts = [url.username, url.password, url.pathname.slice(1), url.hostname];
  const decoded = orUndefined(() => parts.map(decodeURIComponent));
  if (decoded === undefined) return problem("must be percent-encoded UTF-8");
  const [user, password, database, hostname] = decoded as [string, string, string, string];
  if (user === "" || database === "" || database.includes("/")) return problem("must name a user and one database");
  if (hostname === "") return problem("must name a host");
  const isLocal = hostname.startsWith("/") || isLoopbackHost(hostname);
  const tls = tlsOf(url.searchParams, isLocal);
  if (tls !== undefined && "problem" in tls) return tls;
  return {
    host: hostname.replace(/^\[(.*)\]$/, "$1"),
    port: url.port === "" ? 5432 : Number(url.port),
    database,
    user,
    password: password === "" ? undefined : password,
    tls,
  };
}

function tlsOf(search: URLSearchParams, isLocal: boolean): PostgresTls | PostgresUrlProblem | undefined {
  const mode = search.get("sslmode") ?? "disable";
  const file = (name: string) => search.get(name) ?? undefined;
  const [rootCertificate, certificate, key] = [file("sslrootcert"), file("sslcert"), file("sslkey")];
  if (mode === "verify-full") {
    if ((certificate === undefined) !== (key === undefined)) return problem("must have sslcert and sslkey, or neither");
    return { rootCertificate, certificate, key };
  }
  if (mode !== "disable") return problem("must have sslmode=verify-full, or on this machine sslmode=disable");
  if (!isLocal) return problem("must have sslmode=verify-full: the database is not on this machine");
  if (rootCertificate ?? certificate ?? key) return problem("names certificates, and needs sslmode=verify-full");
  return undefined;
}

function problem(text: string): PostgresUrlProblem {
  return { problem: text };
}
