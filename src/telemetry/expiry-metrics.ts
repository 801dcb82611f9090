/** Metrics of certificates and keys. All are points in time; alerts compute durations. */
import { Counter, Gauge, type Registry } from "prom-client";
import type { Clock } from "../base/clock.ts";

/** When all certificates of a file are valid. Milliseconds since the Unix epoch. */
export interface Validity {
  readonly notBeforeMs: number;
  readonly notAfterMs: number;
}

export interface ExpiryMetrics {
  /** Notes the certificates now in force for a setting. */
  certificatesInForce(setting: string, validity: Validity): void;
  /** Sets the source of the times at which key files were last written, in milliseconds by setting. */
  watchKeyFiles(writtenAtMs: () => Promise<ReadonlyMap<string, number>>): void;
  /** Counts a fetch of the issuer's keys. Issuers come from the settings, so their number is bounded. */
  issuerKeysFetched(issuer: string, ok: boolean): void;
  /** Replaces the list of issuers: series of others are removed. */
  issuersInForce(issuers: readonly string[]): void;
  /** Counts a question to the issuer about a token, asked or not. */
  introspected(issuer: string, result: "active" | "inactive" | "failed" | "unasked"): void;
  /** The issuer signed a token for a foreign tenant. */
  issuerOverreached(issuer: string): void;
}

const introspectionResults = ["active", "inactive", "failed", "unasked"];

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
    help: "When the file of a key was last written, by the setting that names it",
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
    help: "When the keys of a token issuer were last fetched; 0 if they never were",
    labelNames: ["issuer"],
    registers,
  });
  const overreaches = new Counter({
    name: "svc_issuer_overreaches_total",
    help: "Tokens that an issuer signed for a foreign tenant; a cached token counts once",
    labelNames: ["issuer"],
    registers,
  });
  const introspections = new Counter({
    name: "svc_introspections_total",
    help: "Introspections of tokens at their issuer; unasked: a limit was reached",
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
      // The fetch ended after its issuer was removed.
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
