/** What a deployment lets each of its tenants use in a period of time. */

/** What is counted, by the name that the file of quotas has for it. */
export const quotaNames = ["requests", "records", "artifact_bytes"] as const;
export type QuotaName = (typeof quotaNames)[number];

export interface Quota {
  /** Whole, at least 1. */
  readonly limit: number;
  readonly periodSeconds: number;
}

/** Quotas of one tenant; what is left out is not limited. */
export type TenantQuotas = Readonly<Partial<Record<QuotaName, Quota>>>;

export interface QuotaTable {
  /** Of tenants that are not named. */
  readonly defaults: TenantQuotas;
  /** Of tenants that are, with the defaults that they keep. */
  readonly tenants: ReadonlyMap<string, TenantQuotas>;
}

/** The most that can be counted: portions are counted in 32 bits, of artifacts in KiB. */
export const largestLimits: Readonly<Record<QuotaName, number>> = {
  requests: 1_000_000_000,
  records: 1_000_000_000,
  artifact_bytes: 1_000_000_000 * 1024,
};
export const longestPeriodSeconds = 31 * 86_400;
