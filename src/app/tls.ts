/** Certificates of the listeners, reloaded from their files. */
import { X509Certificate } from "node:crypto";
import { createSecureContext } from "node:tls";
import type { Clock } from "../base/clock.ts";
import { contextOptions, type TlsFiles } from "../http/replaceable-tls.ts";
import type { Followed, FollowedOptions } from "./followed-files.ts";
import { type FileSource, isNamed } from "./followed-files.ts";
import type { ServeConfig } from "./gateway.ts";

/** The listener. */
export type TlsOwner = "tls" | "ops_tls";

/** Watched TLS files of a listener; absent if it is plaintext. `onChange` puts them in force, and must not throw. */
export async function followTls(
  owner: TlsOwner,
  config: ServeConfig,
  { files, clock }: { readonly files: FileSource; readonly clock: Clock },
  onChange: (tls: TlsFiles) => void = () => {},
): Promise<Followed<TlsFiles> | undefined> {
  if (!isNamed(owner, config)) return undefined;
  return files.follow(owner, { ...tlsContent(clock), onChange });
}

/**
 * At startup a certificate outside its validity period is accepted, because the machine's clock may be wrong. As a
 * replacement for a working one it is refused as a mistake.
 */
export function tlsContent(clock: Clock): Omit<FollowedOptions<TlsFiles>, "onChange"> {
  return {
    parse([cert = "", key = "", clientCa], current) {
      const tls: TlsFiles = { cert, key, clientCa };
      createSecureContext(contextOptions(tls));
      if (current === undefined) return tls;
      const { validFromDate, validToDate } = new X509Certificate(cert);
      if (validToDate.getTime() <= clock.now())
        throw new Error(`the certificate expired on ${validToDate.toISOString()}`);
      if (validFromDate.getTime() > clock.now())
        throw new Error(`the certificate is not valid before ${validFromDate.toISOString()}`);
      return tls;
    },
    describe({ cert }) {
      const { fingerprint256, validToDate } = new X509Certificate(cert);
      return { certificate_sha256: fingerprint256, not_after: validToDate.toISOString() };
    },
  };
}
