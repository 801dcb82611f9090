/** The report on a pack, for a person. */
import type { Lineage } from "../../domain/lineage/lineage.ts";
import type { PackReport } from "../../domain/lineage/report.ts";
import type { Step } from "../../domain/lineage/step.ts";
import { visibleLine } from "../frame/output.ts";

/**
 * The report as lines. Text of callers is shown without control characters, because it may be made to deceive a
 * terminal.
 */
export function reportText(report: PackReport): string {
  const { lineages, others } = report;
  return [
    `verified: ${count(report.records, "record")} of ${report.log}`,
    "",
    ...table([
      ["tenant", report.tenant_id],
      ["selection", selectionText(report.selection)],
      ["erased", `${count(report.erased, "record")}, of which the leaf alone is left`],
      ["log", `${count(report.tree_size, "leaf")}, the newest recorded at ${report.newest_recorded_at}`],
      ["root", report.root],
      ["signed by", `key ${report.key_id}`],
      ...report.witnesses.map(({ name, cosigned_at }) => ["cosigned by", `${name}, ${cosigned_at}`] as const),
      ["pack made", `${report.made_at}, according to its maker`],
    ]),
    ...(lineages === undefined ? tooMany : lineages.flatMap((lineage) => ["", ...lineageLines(lineage)])),
    ...(others === undefined || others.length === 0 ? [] : ["", "other records", ...others.map(stepLine)]),
    ...(report.policies.length === 0 ? [] : ["", "policy revisions that decided"]),
    ...report.policies.map(({ revision, shown }) => `  ${revision}${shown ? "" : "  (its text is not in the pack)"}`),
    "",
    "proven",
    ...report.proven.map((line) => `  + ${line}`),
    "not proven",
    ...report.not_proven.map((line) => `  - ${line}`),
  ]
    .map(visibleLine)
    .join("\n");
}

const tooMany = ["", "too many records to put in order by artifact: packs of shorter ranges show that"];

function lineageLines({ artifact_digests, cids, steps, remarks }: Lineage): readonly string[] {
  const names = [...artifact_digests, ...cids.map((cid) => `CID ${cid}`)];
  const marks = Map.groupBy(remarks, ({ leaf_index }) => leaf_index);
  return [
    names.length === 0 ? "no artifact named" : `artifact ${names.join(", ")}`,
    ...steps.flatMap((step) => [
      stepLine(step),
      ...(marks.get(step.leaf_index) ?? []).map(({ message }) => `      ! ${message}`),
    ]),
  ];
}

function stepLine(step: Step): string {
  const { leaf_index, recorded_at, kind, record_id, erased, operation, outcome, principal, subject } = step;
  const what = [kind.replace("_", " "), operation, erased === true ? "ERASED" : outcome].filter(isGiven).join(" ");
  const who = principal === undefined ? "" : `  by ${principal}${subject === principal ? "" : ` (${subject})`}`;
  return `  ${recorded_at}  leaf ${leaf_index}  ${what}${who}  ${record_id}${citationText(step)}`;
}

function citationText({ kind, citation, decision_id, relied_on }: Step): string {
  if (relied_on !== undefined)
    return `  relies on ${relied_on.length === 0 ? "nothing registered" : relied_on.join(", ")}`;
  if (kind === "decision" || citation === undefined || decision_id === undefined) return "";
  return `  cites ${decision_id}: ${citation}`;
}

function selectionText(selection: PackReport["selection"]): string {
  const { from, to, ...field } = selection;
  const [name, value] = Object.entries(field)[0] ?? [];
  if (name !== undefined) return `${name.replace("_", " ")} ${String(value)}`;
  return `recorded ${[from && `from ${String(from)}`, to && `before ${String(to)}`].filter(isGiven).join(", ")}`;
}

function table(rows: readonly (readonly [name: string, value: string])[]): readonly string[] {
  return rows.map(([name, value]) => `  ${name.padEnd(13)}${value}`);
}

function count(number: number, noun: "record" | "leaf"): string {
  const plural = noun === "leaf" ? "leaves" : "records";
  return `${number} ${number === 1 ? noun : plural}`;
}

function isGiven(text: unknown): text is string {
  return typeof text === "string" && text !== "";
}
