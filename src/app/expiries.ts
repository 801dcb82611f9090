/** Reports age and expiry to operators: of the certificate and key files that settings name. */
import { X509Certificate } from "node:crypto";
import { stat } from "node:fs/promises";
import type { ConfigFor } from "../config/config.ts";
import { settings } from "../config/settings.ts";
import type { ExpiryMetrics, Validity } from "../telemetry/expiry-metrics.ts";

const keyFileKeys = ["ledgerKey", "sessionKey", "dpopNonceKey", "tlsKey", "opsTlsKey"] as const;

export function watchKeyFiles(
  config: Pick<ConfigFor<"serve">, (typeof keyFileKeys)[number]>,
  metrics: Pick<ExpiryMetrics, "watchKeyFiles">,
): void {
  const files = keyFileKeys.flatMap((key) => {
    const path = config[key];
    return path === undefined ? [] : [{ name: settings[key].name, path }];
  });
  metrics.watchKeyFiles(async () => {
    const times = await Promise.all(files.map(async ({ name, path }) => [name, await writtenAtMs(path)] as const));
    return new Map(times.flatMap(([name, time]) => (time === undefined ? [] : [[name, time]])));
  });
}

/** The period in which all certificates of the PEM text are valid. Throws if one is invalid. */
export function validityOf(pem: string): Validity {
  const certificates = (pem.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? []).map(
    (text) => new X509Certificate(text),
  );
  return {
    notBeforeMs: Math.max(...certificates.map(({ validFromDate }) => validFromDate.getTime())),
    notAfterMs: Math.min(...certificates.map(({ validToDate }) => validToDate.getTime())),
  };
}

/** Undefined if the file is absent or not accessible. */
async function writtenAtMs(path: string): Promise<number | undefined> {
  try {
    return (await stat(path)).mtimeMs;
  } catch {
    return undefined;
  }
}
