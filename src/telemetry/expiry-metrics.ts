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
  /** The issuer's keys were fetched, or could not be. */
  issuerKeysFetched(ok: boolean): void;
}

/** Makes them in the registries. */
export function expiryMetrics(registers: Registry[], clock: Clock): ExpiryMetrics {
  const expiries = new Gauge({
    name: "svc_certificate_expiry_timestamp_seconds",
    help: "When the first of the certificates in force expires, by the setting that names their file",
    labelNames: ["setting"],
    // One that a thread has not replaced yet is the one to look at.
    aggregator: "min",
    registers,
  });
  const beginnings = new Gauge({
    name: "svc_certificate_not_before_timestamp_seconds",
    help: "Since when all of the certificates in force are valid, by the setting that names their file",
    labelNames: ["setting"],
    aggregator: "min",
    registers,
  });
  let keyFiles = async (): Promise<ReadonlyMap<string, number>> => new Map();
  new Gauge({
    name: "svc_key_file_timestamp_seconds",
    help: "When the file of a key was written last, by the setting that names it",
    labelNames: ["setting"],
    aggregator: "max",
    registers,
    async collect() {
      this.reset();
      for (const [setting, writtenAtMs] of await keyFiles()) this.set({ setting }, writtenAtMs / 1000);
    },
  });
  const fetches = new Counter({
    name: "svc_issuer_key_fetches_total",
    help: "Fetches of the issuer's keys",
    labelNames: ["result"],
    registers,
  });
  const fetchedAt = new Gauge({
    name: "svc_issuer_keys_fetched_timestamp_seconds",
    help: "When the issuer's keys were fetched last; 0 where they never were",
    aggregator: "min",
    registers,
  });
  return {
    certificatesInForce(setting, { notBeforeMs, notAfterMs }) {
      beginnings.set({ setting }, notBeforeMs / 1000);
      expiries.set({ setting }, notAfterMs / 1000);
    },
    watchKeyFiles(writtenAtMs) {
      keyFiles = writtenAtMs;
    },
    issuerKeysFetched(ok) {
      fetches.inc({ result: ok ? "ok" : "failed" });
      if (ok) fetchedAt.set(clock.now() / 1000);
    },
  };
}
