import { readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import type { Command } from "commander";
import { makeDirectory } from "../../files/file-system.ts";
import type { StoreArchive } from "../../ledger/ports/archive.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import { allTiles, type TileName, tilePath } from "../../ledger/tlog/tiles.ts";
import { type CommonOptions, withCommonOptions } from "../options.ts";
import { createOutput, type Output } from "../output.ts";
import { createProgress, type Progress, type Terminal } from "../terminal.ts";
import { signOrReport } from "./checkpoint.ts";
import { logsOrReport, type OpenedStore, withStoreOrReport } from "./store.ts";

interface ExportOptions extends CommonOptions {
  readonly tenant: string;
  readonly out: string;
}

/** `ledger export`: a log as a directory of files that public tools read (C2SP tlog-tiles). */
export function addLedgerExportCommand(ledger: Command, terminal: Terminal): void {
  withCommonOptions(ledger.command("export"))
    .description("write a tenant's log as static files: checkpoint, tiles and entries (C2SP tlog-tiles), and its keys")
    .requiredOption("--tenant <tenant>", "whose log")
    .requiredOption("--out <directory>", "where to; must be empty or not there yet")
    .action((options: ExportOptions) => {
      const output = createOutput(options.json === true, terminal);
      return withStoreOrReport(options, output, async (opened) => {
        const [head] = (await logsOrReport(opened.archive, options.tenant, output)) ?? [];
        if (head !== undefined) await exportLog(opened, head, options.out, output, createProgress(terminal));
      });
    });
}

async function exportLog(
  opened: OpenedStore,
  committed: LogState,
  out: string,
  output: Output,
  progress: Progress,
): Promise<void> {
  const problem = directoryProblem(out);
  if (problem !== undefined) return output.fail([problem]);
  const signed = await signOrReport(opened, committed, output);
  if (signed === undefined) return;
  const { head } = signed;
  await writeTiles(opened.archive, head, out, progress);
  writeFileSync(join(out, "vkey"), `${signed.verifierKeys.join("\n")}\n`);
  // Last, so that what it speaks of is there.
  writeFileSync(join(out, "checkpoint"), signed.checkpoint);
  const { origin, size } = head;
  output.succeed({ origin, tree_size: size, directory: out }, `${out}: ${size} leaves of ${origin}`);
}

/** Makes the directory where it is missing, or says why nothing can be written there. */
function directoryProblem(out: string): string | undefined {
  try {
    makeDirectory(out);
    return readdirSync(out).length > 0 ? `${out} is not empty` : undefined;
  } catch (error) {
    const code = error instanceof Error && "code" in error ? ` (${String(error.code)})` : "";
    return `--out: ${JSON.stringify(out)} cannot be a directory to write to${code}`;
  }
}

async function writeTiles(archive: StoreArchive, head: LogState, out: string, progress: Progress): Promise<void> {
  const write = async (tile: TileName) => {
    const bytes = await archive.tile(head, tile);
    if (bytes === undefined) throw new Error(`The tile ${tilePath(tile)} is missing from the store.`);
    const path = join(out, "tile", tilePath(tile));
    makeDirectory(dirname(path));
    writeFileSync(path, bytes);
  };
  for (const tile of allTiles(head.size)) {
    await write(tile);
    if (tile.level !== 0) continue;
    await write({ ...tile, level: "entries" });
    progress.show(`tile ${tile.index + 1} of ${Math.ceil(head.size / 256)}`);
  }
  progress.done();
}
