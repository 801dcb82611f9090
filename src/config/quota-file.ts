/** The file of quotas: YAML or JSON, defaults and tenants' own. */
import { type Document, isScalar, parseDocument, visit } from "yaml";
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

/** Problems that one message names. */
const maxProblems = 16;

/**
 * Reads the file's text: `default` and `tenants`, each with quotas by name: `limit` and `period_seconds`, or null for
 * none. A tenant keeps the defaults that it does not name. Throws an Error with all that is wrong.
 */
export function parseQuotaFile(text: string): QuotaTable {
  const problems: string[] = [];
  const { default: given = {}, tenants: named = {}, ...others } = mapOf(parsed(text), "the file", problems);
  for (const name of Object.keys(others)) problems.push(`${name}: is not known; there are default and tenants`);
  const defaults = quotasOf(given, "default", {}, problems);
  const tenants = new Map<string, TenantQuotas>();
  for (const [tenant, own] of Object.entries(mapOf(named, "tenants", problems))) {
    if (parseTenantId(tenant) === undefined) problems.push("tenants: has a name that is no tenant id");
    else tenants.set(tenant, quotasOf(own, `tenants.${tenant}`, defaults, problems));
  }
  if (problems.length > 0) {
    const more = problems.length - maxProblems;
    throw new Error(`${problems.slice(0, maxProblems).join("; ")}${more > 0 ? `; and ${more} more` : ""}`);
  }
  return { defaults, tenants };
}

function parsed(text: string): unknown {
  const json = parsedAsJson(text);
  if (json !== undefined) return json;
  // A tenant may be named 0123, or 1e3. To hold each key against all others takes time in the square of their number.
  const document = parseDocument(text, { uniqueKeys: false, merge: false, stringKeys: true });
  const [error] = [...document.errors, ...document.warnings];
  if (error !== undefined) throw new Error(error.message.split("\n", 1)[0]);
  requireUniqueKeys(document);
  try {
    // No file of this kind repeats itself: an alias would only be a way to make a short text long.
    return document.toJS({ maxAliasCount: 0 }) ?? {};
  } catch {
    throw new Error("must not use aliases");
  }
}

/**
 * The content of JSON, in a hundredth of the time; undefined where it is none, or where a number or a key is not written in
 * the shortest way, or is there twice: then it is longer than what is made of it.
 */
function parsedAsJson(text: string): unknown {
  try {
    const value: unknown = JSON.parse(text);
    const written = text.replaceAll(/("(?:[^"\\]|\\.)*")|\s+/g, "$1");
    return JSON.stringify(value).length === written.length ? value : undefined;
  } catch {
    return undefined;
  }
}

function requireUniqueKeys(document: Document): void {
  visit(document, {
    Map(_, { items }) {
      const known = new Set<unknown>();
      for (const { key } of items) {
        const name = isScalar(key) ? key.value : key;
        if (known.has(name)) throw new Error(`${String(name)}: is there twice`);
        known.add(name);
      }
    },
  });
}

function quotasOf(value: unknown, path: string, defaults: TenantQuotas, problems: string[]): TenantQuotas {
  const quotas: Partial<Record<QuotaName, Quota>> = { ...defaults };
  for (const [name, given] of Object.entries(mapOf(value, path, problems))) {
    if (!isQuotaName(name)) problems.push(`${path}.${name}: is not known; there are ${quotaNames.join(", ")}`);
    else if (given === null) delete quotas[name];
    else quotas[name] = quotaOf(given, `${path}.${name}`, largestLimits[name], problems);
  }
  return quotas;
}

function quotaOf(value: unknown, path: string, largest: number, problems: string[]): Quota {
  const { limit, period_seconds: periodSeconds, ...others } = mapOf(value, path, problems);
  for (const name of Object.keys(others))
    problems.push(`${path}.${name}: is not known; there are limit, period_seconds`);
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

function mapOf(value: unknown, path: string, problems: string[]): Record<string, unknown> {
  if (typeof value === "object" && value !== null && !Array.isArray(value)) return value as Record<string, unknown>;
  problems.push(`${path}: must be a map`);
  return {};
}

function isQuotaName(name: string): name is QuotaName {
  return (quotaNames as readonly string[]).includes(name);
}
