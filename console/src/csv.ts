/** Rows of a search as CSV, in the columns of `ledger search --csv`. */
import type { Row } from "./api.ts";

const columns = ["time", "who", "did", "resource", "artifact", "result", "why", "evidenced", "record"];

/** CSV (RFC 4180, except that lines end with LF). A text that a spreadsheet would run as a formula begins with an apostrophe. */
export function csvOf(rows: readonly Row[]): string {
  return [columns, ...rows.map(cellsOf)].map((cells) => `${cells.map(cell).join(",")}\n`).join("");
}

function cellsOf({ recorded_at, record_id, kind, erased, summary = {} }: Row): readonly string[] {
  const { principal = "", subject = principal, operation = "", resource, artifact_digest, cids, outcome } = summary;
  const { reasons = [], alerts = [], decision_id, citation, reason, evidence = "", about_record } = summary;
  const cites = kind === "decision" || citation === undefined ? [] : [`cites ${decision_id ?? "nothing"}: ${citation}`];
  return [
    recorded_at,
    subject === principal ? principal : `${principal} (${subject})`,
    `${kind.replaceAll("_", " ")} ${operation}`.trim(),
    [about_record && "record", about_record, resource?.kind, resource?.id].filter(Boolean).join("/"),
    artifact_digest ?? cids?.[0] ?? "",
    erased ? "ERASED" : (outcome ?? ""),
    [...reasons, ...alerts.map((alert) => `alert ${alert}`), ...cites, ...(reason ? [reason] : [])].join(", "),
    evidence === "evidenced" ? "yes" : evidence === "missing" ? "no" : evidence.replaceAll("_", " "),
    record_id,
  ];
}

function cell(text: string): string {
  const inert = /^[=+\-@\t\r]/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(inert) ? `"${inert.replaceAll('"', '""')}"` : inert;
}
