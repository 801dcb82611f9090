/** The file of quotas: YAML or JSON, defaults and tenants' own. */
import * as v from "valibot";
import {
  largestLimits,
  longestPeriodSeconds,
  type Quota,
  type QuotaName,
  type QuotaTable,
  quotaNames,
  type TenantQuotas,
} from "../base/quotas.ts";
import { readDataFile } from "./data-file.ts";
import { mapOf, members } from "./schema.ts";
import { tenantId } from "./values.ts";

/** `limit` and `period_seconds`; null for no quota. */
function quota(name: QuotaName) {
  const entries = { limit: whole(largestLimits[name]), period_seconds: whole(longestPeriodSeconds) };
  const renamed = v.transform((given: { limit: number; period_seconds: number }): Quota => {
    return { limit: given.limit, periodSeconds: given.period_seconds };
  });
  return v.exactOptional(v.nullable(v.pipe(members(entries), renamed)));
}

function whole(largest: number) {
  const isWhole = (value: unknown) => Number.isInteger(value) && (value as number) >= 1 && (value as number) <= largest;
  return v.custom<number>(isWhole, `must be a whole number from 1 to ${largest}`);
}

const quotas = members({
  requests: quota("requests"),
  records: quota("records"),
  artifact_bytes: quota("artifact_bytes"),
});
const file = members({ default: v.optional(quotas, {}), tenants: v.optional(mapOf(tenantId, quotas), {}) });

/**
 * Parses the file's text: `default` and `tenants`, each with quotas by name. A tenant keeps the defaults that it does not
 * name. Throws an Error with all problems.
 */
export function parseQuotaFile(text: string): QuotaTable {
  const { default: given, tenants } = readDataFile(text, file);
  const defaults = quotasOf({}, given);
  return { defaults, tenants: new Map([...tenants].map(([tenant, own]) => [tenant, quotasOf(defaults, own)])) };
}

function quotasOf(defaults: TenantQuotas, own: Readonly<Partial<Record<QuotaName, Quota | null>>>): TenantQuotas {
  const all = { ...defaults, ...own };
  return Object.fromEntries(quotaNames.flatMap((name) => (all[name] ? [[name, all[name]]] : [])));
}
