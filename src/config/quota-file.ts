/** The file of quotas: YAML or JSON, defaults and tenants' own. */
import { parseTenantId } from "../base/ids.ts";
import {
  largestLimits,
  longestPeriodSeconds,
  type Quota,
  type QuotaName,
  type QuotaTable,
  quotaNames,
  type TenantQuotas,
} from "../base/quotas.ts";
import { mapOf, membersOf, parseDataFile, refuse } from "./data-file.ts";

/**
 * Parses the file's text: `default` and `tenants`, each with quotas by name: `limit` and `period_seconds`, or null for
 * none. A tenant keeps the defaults that it does not name. Throws an Error with all problems.
 */
export function parseQuotaFile(text: string): QuotaTable {
  const problems: string[] = [];
  const { default: given = {}, tenants: named = {} } = membersOf(
    parseDataFile(text),
    "",
    ["default", "tenants"],
    problems,
  );
  const defaults = quotasOf(given, "default", {}, problems);
  const tenants = new Map<string, TenantQuotas>();
  for (const [tenant, own] of Object.entries(mapOf(named, "tenants", problems))) {
    if (parseTenantId(tenant) === undefined) problems.push("tenants: has a name that is not a tenant id");
    else tenants.set(tenant, quotasOf(own, `tenants.${tenant}`, defaults, problems));
  }
  refuse(problems);
  return { defaults, tenants };
}

function quotasOf(value: unknown, path: string, defaults: TenantQuotas, problems: string[]): TenantQuotas {
  const quotas: Partial<Record<QuotaName, Quota>> = { ...defaults };
  const members = membersOf(value, path, quotaNames, problems);
  for (const name of quotaNames) {
    if (!Object.hasOwn(members, name)) continue;
    if (members[name] === null) delete quotas[name];
    else quotas[name] = quotaOf(members[name], `${path}.${name}`, largestLimits[name], problems);
  }
  return quotas;
}

function quotaOf(value: unknown, path: string, largest: number, problems: string[]): Quota {
  const { limit, period_seconds: periodSeconds } = membersOf(value, path, ["limit", "period_seconds"], problems);
  return {
    limit: whole(limit, `${path}.limit`, largest, problems),
    periodSeconds: whole(periodSeconds, `${path}.period_seconds`, longestPeriodSeconds, problems),
  };
}

function whole(value: unknown, path: string, largest: number, problems: string[]): number {
  if (typeof value === "number" && Number.isInteger(value) && value >= 1 && value <= largest) return value;
  problems.push(`${path}: must be a whole number from 1 to ${largest}`);
  return 1;
}
