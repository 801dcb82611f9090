/** Certificates of one test run, made by openssl in a folder of their own. */
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";

/** PEM files of a certificate and its key. */
export interface CertificateFiles {
  readonly cert: string;
  readonly key: string;
}

export interface Certificates {
  /** The authority that all but the stranger come from. */
  readonly ca: string;
  /** For `localhost` and 127.0.0.1. */
  readonly server: CertificateFiles;
  /** For `localhost` alone. */
  readonly named: CertificateFiles;
  readonly client: CertificateFiles;
  /** The same client's, of the same authority. */
  readonly renewed: CertificateFiles;
  /** Of an untrusted authority. */
  readonly stranger: CertificateFiles;
  /** That authority. */
  readonly strangerCa: string;
}

/** Makes them in the folder. Needs the openssl command. */
export function makeCertificates(folder: string): Certificates {
  const openssl = (...args: string[]) =>
    execFileSync("openssl", args, { cwd: folder, stdio: ["ignore", "pipe", "pipe"] });
  const authority = (name: string): CertificateFiles => {
    const files = filesOf(folder, name);
    const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-keyout", files.key];
    const extensions = ["-addext", "basicConstraints=critical,CA:TRUE", "-addext", "keyUsage=critical,keyCertSign"];
    openssl("req", "-x509", ...key, "-out", files.cert, "-days", "2", "-subj", `/CN=${name}`, ...extensions);
    return files;
  };
  const issue = (name: string, by: CertificateFiles, extensions: string): CertificateFiles => {
    const files = filesOf(folder, name);
    const request = join(folder, `${name}.csr`);
    const extensionFile = join(folder, `${name}.ext`);
    writeFileSync(extensionFile, `basicConstraints=CA:FALSE\n${extensions}\n`);
    const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-noenc", "-keyout", files.key];
    openssl("req", "-new", ...key, "-out", request, "-subj", `/CN=${name}`);
    const signer = ["-CA", by.cert, "-CAkey", by.key, "-CAcreateserial"];
    openssl("x509", "-req", "-in", request, ...signer, "-out", files.cert, "-days", "2", "-extfile", extensionFile);
    return files;
  };
  const ca = authority("ca");
  const serverNames = "subjectAltName=DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth";
  const clientUse = "extendedKeyUsage=clientAuth";
  const strangerCa = authority("other-ca");
  return {
    ca: ca.cert,
    server: issue("server", ca, serverNames),
    named: issue("named", ca, "subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth"),
    client: issue("client", ca, clientUse),
    renewed: issue("renewed", ca, clientUse),
    stranger: issue("stranger", strangerCa, clientUse),
    strangerCa: strangerCa.cert,
  };
}

function filesOf(folder: string, name: string): CertificateFiles {
  return { cert: join(folder, `${name}.crt.pem`), key: join(folder, `${name}.key.pem`) };
}
