/** Reports: what a template selects of the records of a period. */
import { ServiceError } from "../../base/errors.ts";
import type { TenantId } from "../../base/ids.ts";
import type { StoreArchive } from "../ports/archive.ts";
import { type Counted, type EvidenceCode, evidenceCodes, type FoundRecord, type SearchTerm } from "../ports/search.ts";
import { csvText, rowColumns, rowOf } from "../search/rows.ts";
import { everyFound } from "../search/search-query.ts";
import { countOf, reasonsOf } from "../search/summary.ts";
import { parseCheckpoint } from "../tlog/checkpoint.ts";

export const reportTemplates = ["access", "denials", "unevidenced", "break-glass", "erasures"] as const;
type ReportTemplate = (typeof reportTemplates)[number];

/** What a report is about. */
interface ReportScope {
  readonly template: ReportTemplate;
  readonly tenantId: TenantId;
  /** Records from this time on. Milliseconds since the Unix epoch, as is the other. */
  readonly fromMs: number;
  /** Records before this time. */
  readonly toMs: number;
  /** Signed state of the log that the report covers. */
  readonly checkpoint: string;
}

export interface Report extends ReportScope {
  /** In the order of the log. */
  readonly rows: readonly FoundRecord[];
  /** Number of listed decisions by what arrived of their evidence. Empty if none is allowed. */
  readonly evidence: readonly (readonly [EvidenceCode, number])[];
  /** Policy revisions of all records that were looked at, with the time of the first. */
  readonly revisions: readonly { readonly revision: string; readonly since: string }[];
}

interface Template {
  readonly title: string;
  /** What the report lists. */
  readonly lists: string;
  readonly terms: readonly SearchTerm[];
  readonly isListed: (found: FoundRecord) => boolean;
  /** What the second plot counts by. */
  readonly by: string;
  readonly values: (found: FoundRecord) => readonly string[];
}

const allowed: readonly SearchTerm[] = [{ field: "outcome", value: "allow" }];
const byPrincipal = { by: "principal", values: ({ summary }: FoundRecord) => [summary?.principal ?? "unknown"] };
/** Operations that open data. */
const accesses: readonly (string | undefined)[] = ["access", "unwrap"];
const isIn = (codes: readonly EvidenceCode[]) => (found: FoundRecord) =>
  found.summary?.evidence !== undefined && codes.includes(found.summary.evidence);

export const templates: Readonly<Record<ReportTemplate, Template>> = {
  access: {
    title: "Accesses",
    lists: "Every decision that allowed an access (access or unwrap), and what arrived of its evidence.",
    terms: allowed,
    isListed: ({ summary }) => accesses.includes(summary?.operation),
    ...byPrincipal,
  },
  denials: {
    title: "Denials",
    lists: "Every decision that denied, and the policies that decided.",
    terms: [{ field: "outcome", value: "deny" }],
    isListed: () => true,
    by: "reason",
    values: reasonsOf,
  },
  unevidenced: {
    title: "Decisions without evidence",
    lists: "Every decision that allowed an act whose evidence is missing, reports a failure, or has no known outcome.",
    terms: allowed,
    isListed: isIn(["missing", "failed", "outcome_unknown", "not_shown"]),
    ...byPrincipal,
  },
  "break-glass": {
    title: "Break-glass",
    lists: "Every decision of a policy with the alert break-glass. Alerts of another name are not among them.",
    terms: [{ field: "alert", value: "break-glass" }],
    isListed: () => true,
    ...byPrincipal,
  },
  erasures: {
    title: "Erasures",
    lists: "Every erasure of a record: by which operator, when and why. What was erased is not in the log any more.",
    terms: [],
    isListed: ({ kind }) => kind === "erasure",
    by: "operator",
    values: byPrincipal.values,
  },
};

/** Most records of a report, so that it needs bounded memory: 0.1 GB. */
const maxRecords = 100_000;

/**
 * Reads a report, page by page. The log may grow meanwhile: records beyond the checkpoint neither count nor are evidence.
 * Rejects with `invalid_request` if there are more than `maxRecords`, and as the search does.
 */
export async function readReport(archive: Pick<StoreArchive, "search">, scope: ReportScope): Promise<Report> {
  const { template, tenantId, fromMs, toMs, checkpoint } = scope;
  const { size } = parseCheckpoint(checkpoint);
  const { terms, isListed } = templates[template];
  // The kind of a record is in its leaf: records need not be opened to find the erasures.
  const summary = template !== "erasures";
  const rows: FoundRecord[] = [];
  const revisions = new Map<string, string>();
  for await (const each of everyFound(archive, { tenantId, terms, fromMs, toMs, size, summary })) {
    const { recordId, policyRevision, recordedAt } = each;
    if (policyRevision !== undefined && !revisions.has(policyRevision)) revisions.set(policyRevision, recordedAt);
    if (!isListed(each)) continue;
    const byId: readonly SearchTerm[] = [{ field: "record_id", value: recordId }];
    const one = { tenantId, terms: byId, limit: 1, summary: true };
    rows.push(...(summary ? [each] : (await archive.search(one)).found));
    if (rows.length > maxRecords)
      throw new ServiceError("invalid_request", `there are more than ${maxRecords} records: choose a shorter period`);
  }
  const codes = evidenceCodes.map(
    (code) => [code, rows.filter((each) => each.summary?.evidence === code).length] as const,
  );
  return {
    ...scope,
    rows,
    evidence: codes.filter(([, records]) => records > 0),
    revisions: [...revisions].map(([revision, since]) => ({ revision, since })),
  };
}

/** Values with their number of records, most records first. */
export function countsOf({ template, rows }: Report): Counted["values"] {
  return countOf(rows.map(templates[template].values)).values;
}

const dayMs = 86_400_000;
/** Length of a day, a month and a year at the beginning of a time. */
const units = ["2026-01-31".length, "2026-01".length, "2026".length] as const;
const maxColumns = 100;

/**
 * Days, months or years: the shortest of which a plot has room for all of the period. `of`: name of the unit of a time;
 * `counts`: number of records by unit, in order.
 */
export function unitsOf({ fromMs, toMs, rows }: Report) {
  const times = rows.map(({ recordedAt }) => Date.parse(recordedAt));
  const isLong = toMs - fromMs > maxColumns * dayMs;
  // A long period may begin before the log, and end in the future.
  const first = isLong ? Math.min(...times.slice(0, 1), toMs) : fromMs;
  const last = isLong ? Math.max(...times.slice(-1), first) : toMs - 1;
  const days = Array.from({ length: Math.floor(last / dayMs) - Math.floor(first / dayMs) + 1 }, (_, day) =>
    new Date((Math.floor(first / dayMs) + day) * dayMs).toISOString(),
  );
  const namesBy = units.map((length) => [...new Set(days.map((day) => day.slice(0, length)))]);
  const at = namesBy.findIndex((names) => names.length <= maxColumns);
  const of = (time: string) => time.slice(0, units.at(at) ?? 0);
  const recorded = Map.groupBy(rows, ({ recordedAt }) => of(recordedAt));
  return { of, counts: (namesBy.at(at) ?? []).map((value) => ({ value, records: recorded.get(value)?.length ?? 0 })) };
}

/** The rows as `ledger search --csv` prints them, with the purpose and the position of each. */
export function reportCsv({ rows }: Report): string {
  const cells = rows.map((each) => ({
    ...rowOf(each),
    purpose: each.summary?.purpose ?? "",
    leaf: String(each.leafIndex),
  }));
  return `${csvText([...rowColumns, "purpose", "leaf"], cells)}\n`;
}
