/** TLS identity and trusted authorities of a client: PEM, or PEM files that are reloaded when they change. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { readFileSync, statSync } from "node:fs";

/** Each may be given as text or as a file, but not both. */
export interface TlsOptions {
  /** Authorities of the server's certificate, as PEM. Default: the system's. */
  readonly ca?: string | readonly string[];
  /** Certificate chain and key of this workload, as PEM. Default: none. */
  readonly cert?: string;
  readonly key?: string;
  /**
   * Paths of the same. A replaced file counts from the next connection on; calls in progress keep theirs. Unreadable
   * files, or a certificate without its key, change nothing: the replacement may be incomplete.
   */
  readonly caFile?: string;
  readonly certFile?: string;
  readonly keyFile?: string;
}

/** The current identity: the same object until a file changes. */
export interface TlsIdentity {
  readonly ca?: string | string[];
  readonly cert?: string;
  readonly key?: string;
}

/**
 * Returns a function for the current identity, which checks the files on each call.
 *
 * @throws Error if a file cannot be read, or key and certificate are not a pair
 */
export function tlsIdentities(options: TlsOptions = {}): () => TlsIdentity {
  for (const name of ["ca", "cert", "key"] as const)
    if (options[name] !== undefined && options[`${name}File`] !== undefined)
      throw new Error(`${name} and ${name}File are both given`);
  const files = [options.caFile, options.certFile, options.keyFile].filter((file) => file !== undefined);
  let held = read(options);
  if (files.length === 0) return () => held;
  let stamp = stampOf(files);
  return () => {
    const now = stampOf(files);
    if (now === stamp) return held;
    try {
      const fresh = read(options);
      stamp = now;
      if (JSON.stringify(fresh) !== JSON.stringify(held)) held = fresh;
    } catch {
      // Checked again next time.
    }
    return held;
  };
}

function read({ caFile, certFile, keyFile, ...texts }: TlsOptions): TlsIdentity {
  const ca = caFile === undefined ? texts.ca : readFileSync(caFile, "utf8");
  const cert = certFile === undefined ? texts.cert : readFileSync(certFile, "utf8");
  const key = keyFile === undefined ? texts.key : readFileSync(keyFile, "utf8");
  if (caFile !== undefined) new X509Certificate(ca as string);
  if (certFile !== undefined || keyFile !== undefined) {
    const isPair = cert !== undefined && key !== undefined;
    if (!isPair || !new X509Certificate(cert).checkPrivateKey(createPrivateKey(key)))
      throw new Error("certificate and key are not a pair");
  }
  return {
    ...(ca !== undefined && { ca: typeof ca === "string" ? ca : [...ca] }),
    ...(cert !== undefined && { cert }),
    ...(key !== undefined && { key }),
  };
}

/** Changes when a file is written or replaced, even behind a link. */
function stampOf(files: readonly string[]): string {
  return files
    .map((file) => {
      const stat = statSync(file, { bigint: true, throwIfNoEntry: false });
      return stat === undefined ? "" : `${stat.ino} ${stat.mtimeNs} ${stat.ctimeNs} ${stat.size}`;
    })
    .join();
}
