/** Quotas of tenants per period. */

/** Counted quantities, by their names in the quota file. */
export const quotaNames = ["requests", "records", "artifact_bytes"] as const;
export type QuotaName = (typeof quotaNames)[number];

export interface Quota {
  /** Whole, at least 1. */
  readonly limit: number;
  readonly periodSeconds: number;
}

/** Quotas of one tenant; absent ones are unlimited. */
export type TenantQuotas = Readonly<Partial<Record<QuotaName, Quota>>>;

export interface QuotaTable {
  /** Quotas of unlisted tenants. */
  readonly defaults: TenantQuotas;
  /** Quotas of listed tenants, with the defaults that apply to them. */
  readonly tenants: ReadonlyMap<string, TenantQuotas>;
}

/** Largest limits: portions are counted in 32 bits, artifact bytes in KiB. */
export const largestLimits: Readonly<Record<QuotaName, number>> = {
  requests: 1_000_000_000,
  records: 1_000_000_000,
  artifact_bytes: 1_000_000_000 * 1024,
};
export const longestPeriodSeconds = 31 * 86_400;
