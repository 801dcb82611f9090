import { readFileSync } from "node:fs";
import type { TlsOptions } from "svc-platform-client/node";

/** Where the platform is and who calls it. */
export interface Settings {
  readonly url: string;
  readonly issuer: string;
  readonly clientId: string;
  readonly clientSecret: string;
  /** What to ask for; none for what the issuer grants unasked. */
  readonly scopes: readonly string[];
  /** PEM: authorities of the servers, certificate and key of this workload; none where there is no TLS. */
  readonly tls: TlsOptions;
  /** Verifier key of the tenant's log; absent where receipts are not checked. */
  readonly logKey: string | undefined;
}

/** Reads them from the environment. Secrets never come from arguments. */
export function readSettings(environment: Readonly<Record<string, string | undefined>>): Settings {
  const required = (name: string): string => {
    const value = environment[`PLATFORM_${name}`];
    if (value === undefined || value === "") throw new Error(`PLATFORM_${name} is not set`);
    return value;
  };
  const file = (member: string, name: string) => {
    const path = environment[`PLATFORM_${name}`];
    return path === undefined || path === "" ? {} : { [member]: readFileSync(path, "utf8") };
  };
  return {
    url: required("URL"),
    issuer: required("ISSUER"),
    clientId: required("CLIENT_ID"),
    clientSecret: required("CLIENT_SECRET"),
    scopes: (environment.PLATFORM_SCOPE ?? "").split(" ").filter((scope) => scope !== ""),
    tls: { ...file("ca", "CA"), ...file("cert", "CERT"), ...file("key", "KEY") },
    logKey: environment.PLATFORM_LOG_KEY,
  };
}
