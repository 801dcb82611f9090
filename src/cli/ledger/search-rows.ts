/** Rows of records, as a table for a person or as CSV. */
import type { Counted, FoundRecord } from "../../ledger/ports/search.ts";
import { visibleLine } from "../frame/terminal.ts";

/** Values by column. */
export type Row = Readonly<Record<string, string>>;

/** When, who, did what to what, with which result, why, and whether its evidence arrived. */
export function rowOf({ recordedAt, recordId, kind, erased, summary = {} }: FoundRecord): Row {
  const { principal = "", subject = principal, operation = "", resource, artifact_digest, cids, outcome } = summary;
  const { reasons = [], alerts = [], decision_id, citation, reason, evidence = "" } = summary;
  const cites = kind === "decision" || citation === undefined ? [] : [`cites ${decision_id ?? "nothing"}: ${citation}`];
  return {
    time: recordedAt,
    who: subject === principal ? principal : `${principal} (${subject})`,
    did: `${kind.replaceAll("_", " ")} ${operation}`.trim(),
    resource: [resource?.kind, resource?.id].filter(Boolean).join("/"),
    artifact: artifact_digest ?? cids?.[0] ?? "",
    result: erased ? "ERASED" : (outcome ?? ""),
    why: [...reasons, ...alerts.map((alert) => `alert ${alert}`), ...cites, ...(reason ? [reason] : [])].join(", "),
    evidenced: evidence === "evidenced" ? "yes" : evidence === "missing" ? "no" : evidence.replaceAll("_", " "),
    record: recordId,
  };
}

export function countRows({ values }: Counted): readonly Row[] {
  return values.map(({ value, records }) => ({ value, records: String(records) }));
}

/** Aligned columns with their names in capitals. Resource and artifact are one column, the artifact cut short. */
export function tableText(rows: readonly Row[]): readonly string[] {
  const shown = rows.map(({ resource, artifact, ...others }): Row => {
    if (resource === undefined || artifact === undefined) return others;
    const { time = "", who = "", did = "", ...rest } = others;
    return { time, who, did, what: `${resource} ${shortened(artifact)}`.trim(), ...rest };
  });
  const columns = Object.keys(shown[0] ?? {});
  const lines = [
    columns.map((column) => column.toUpperCase()),
    ...shown.map((row) => columns.map((column) => row[column] ?? "")),
  ];
  const visible = lines.map((cells) => cells.map(visibleLine));
  const widths = columns.map((_, at) => Math.max(...visible.map((cells) => cells[at]?.length ?? 0)));
  return visible.map((cells) =>
    cells
      .map((cell, at) => cell.padEnd(widths[at] ?? 0))
      .join("  ")
      .trimEnd(),
  );
}

/** `sha256:` and 16 more characters tell an artifact from others of a page. */
const shortLength = 23;

function shortened(artifact: string): string {
  return artifact.length > shortLength ? `${artifact.slice(0, shortLength)}…` : artifact;
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
