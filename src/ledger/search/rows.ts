/** Rows of records, as tables and CSV show them. */
import type { Counted, FoundRecord } from "../ports/search.ts";
import { reasonsOf } from "./summary.ts";

/** Values by column. */
export type Row = Readonly<Record<string, string>>;

/** Columns of `rowOf`. */
export const rowColumns = [
  "time",
  "who",
  "did",
  "resource",
  "artifact",
  "result",
  "why",
  "evidenced",
  "record",
] as const;

/** When, who, did what to what, with which result, why, and whether its evidence arrived. */
export function rowOf(found: FoundRecord): Row {
  const { recordedAt, recordId, kind, erased, summary = {} } = found;
  const { principal = "", subject = principal, operation = "", resource, artifact_digest, cids, outcome } = summary;
  const { alerts = [], decision_id, citation, reason, evidence = "", about_record } = summary;
  const cites = kind === "decision" || citation === undefined ? [] : [`cites ${decision_id ?? "nothing"}: ${citation}`];
  return {
    time: recordedAt,
    who: subject === principal ? principal : `${principal} (${subject})`,
    did: `${kind.replaceAll("_", " ")} ${operation}`.trim(),
    resource: [about_record && "record", about_record, resource?.kind, resource?.id].filter(Boolean).join("/"),
    artifact: artifact_digest ?? cids?.[0] ?? "",
    result: erased ? "ERASED" : (outcome ?? ""),
    why: [...reasonsOf(found), ...alerts.map((alert) => `alert ${alert}`), ...cites, ...(reason ? [reason] : [])].join(
      ", ",
    ),
    evidenced: evidence === "evidenced" ? "yes" : evidence === "missing" ? "no" : evidence.replaceAll("_", " "),
    record: recordId,
  };
}

export function countRows({ values }: Counted): readonly Row[] {
  return values.map(({ value, records }) => ({ value, records: String(records) }));
}

/** CSV (RFC 4180, except that lines end with LF) with a header line. A text that a spreadsheet would run as a formula begins with an apostrophe. */
export function csvText(columns: readonly string[], rows: readonly Row[]): string {
  const line = (cells: readonly string[]) => cells.map(csvCell).join(",");
  return [line(columns), ...rows.map((row) => line(columns.map((column) => row[column] ?? "")))].join("\n");
}

function csvCell(text: string): string {
  const inert = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
}
