/** Metrics of what ages and what ends: certificates, keys. All are points in time, so that an alert does the sum. */

import { Counter, Gauge, type Registry } from "prom-client";
import type { Clock } from "../base/clock.ts";

/** From when to when certificates are valid, all of those in a file. Milliseconds since the Unix epoch. */
export interface Validity {
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

export interface ExpiryMetrics {
  /** The certificates of the file that the setting names are in force from now on. */
  certificatesInForce(setting: string, validity: Validity): void;
  /** From now on asks, whenever metrics are read, when each key file was written last, by setting; in milliseconds. */
  watchKeyFiles(writtenAtMs: () => Promise<ReadonlyMap<string, number>>): void;
  /** The keys of this issuer were fetched, or could not be. Issuers are those of the settings: their number is bounded. */
  issuerKeysFetched(issuer: string, ok: boolean): void;
  /** From now on these are the issuers: what is said of others is no longer shown. */
  issuersInForce(issuers: readonly string[]): void;
  /** The issuer was asked about a token, or would have been. */
  introspected(issuer: string, result: "active" | "inactive" | "failed" | "unasked"): void;
  /** The issuer signed a token for a tenant of which it may not speak. */
  issuerOverreached(issuer: string): void;
}

const introspectionResults = ["active", "inactive", "failed", "unasked"];

/** Makes them in the registries. */
export function expiryMetrics(registers: Registry[], clock: Clock): ExpiryMetrics {
  const expiries = new Gauge({
    name: "svc_certificate_expiry_timestamp_seconds",
    help: "When the first of the certificates in force expires, by the setting that names their file",
    labelNames: ["setting"],
    registers,
  });
  const beginnings = new Gauge({
    name: "svc_certificate_not_before_timestamp_seconds",
    help: "Since when all of the certificates in force are valid, by the setting that names their file",
    labelNames: ["setting"],
    registers,
  });
  let keyFiles = async (): Promise<ReadonlyMap<string, number>> => new Map();
  new Gauge({
    name: "svc_key_file_timestamp_seconds",
    help: "When the file of a key was written last, by the setting that names it",
    labelNames: ["setting"],
    registers,
    async collect() {
      this.reset();
      for (const [setting, writtenAtMs] of await keyFiles()) this.set({ setting }, writtenAtMs / 1000);
    },
  });
  const fetches = new Counter({
    name: "svc_issuer_key_fetches_total",
    help: "Fetches of the keys of token issuers",
    labelNames: ["issuer", "result"],
    registers,
  });
  const fetchedAt = new Gauge({
    name: "svc_issuer_keys_fetched_timestamp_seconds",
    help: "When the keys of a token issuer were fetched last; 0 where they never were",
    labelNames: ["issuer"],
    registers,
  });
  const overreaches = new Counter({
    name: "svc_issuer_overreaches_total",
    help: "Tokens that an issuer signed for a tenant of which it may not speak; one that is remembered counts once",
    labelNames: ["issuer"],
    registers,
  });
  const introspections = new Counter({
    name: "svc_introspections_total",
    help: "Tokens that an issuer was asked about; unasked: there was no room for it",
    labelNames: ["issuer", "result"],
    registers,
  });
  let issuers: ReadonlySet<string> = new Set();
  return {
    certificatesInForce(setting, { notBeforeMs, notAfterMs }) {
      beginnings.set({ setting }, notBeforeMs / 1000);
      expiries.set({ setting }, notAfterMs / 1000);
    },
    watchKeyFiles(writtenAtMs) {
      keyFiles = writtenAtMs;
    },
    issuerKeysFetched(issuer, ok) {
      // A fetch that ends after its issuer was removed.
      if (!issuers.has(issuer)) return;
      fetches.inc({ issuer, result: ok ? "ok" : "failed" });
      if (ok) fetchedAt.set({ issuer }, clock.now() / 1000);
    },
    issuersInForce(inForce) {
      for (const issuer of issuers) {
        if (inForce.includes(issuer)) continue;
        fetchedAt.remove({ issuer });
        overreaches.remove({ issuer });
        for (const result of ["ok", "failed"]) fetches.remove({ issuer, result });
        for (const result of introspectionResults) introspections.remove({ issuer, result });
      }
      for (const issuer of inForce) if (!issuers.has(issuer)) fetchedAt.set({ issuer }, 0);
      issuers = new Set(inForce);
    },
    introspected: (issuer, result) => introspections.inc({ issuer, result }),
    issuerOverreached: (issuer) => overreaches.inc({ issuer }),
  };
}
