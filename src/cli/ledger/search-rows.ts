/** Rows of records, as a table for a person. */
import { visibleLine } from "../../base/visible-text.ts";
import type { Row } from "../../ledger/search/rows.ts";

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
