import { readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { makeDirectory } from "../../files/file-system.ts";
import type { StoreArchive } from "../../ledger/ports/archive.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import { allTiles, type TileName, tilePath } from "../../ledger/tlog/tiles.ts";
import { command } from "../frame/command.ts";
import { logOf, oneTenantFlag, withArchive } from "../frame/store.ts";
import { createProgress, type Progress, Refusal } from "../frame/terminal.ts";
import { signed } from "./keys-commands.ts";

/** A log as a directory of files for public tools (C2SP tlog-tiles). */
export const ledgerExportCommand = command({
  name: "ledger export",
  says: "write a tenant's log as static files: checkpoint, tiles and entries (C2SP tlog-tiles), and its keys",
  options: {
    "--tenant <tenant>": oneTenantFlag,
    "--out <directory>": { says: "where to; must be empty or not there yet", required: true },
  },
  run(context) {
    const { tenant, out } = context.options;
    return withArchive(context, async (opened) => {
      const committed = await logOf(opened.archive, tenant);
      makeEmptyDirectory(out);
      const { head, verifierKeys, checkpoint } = await signed(opened, committed);
      await writeTiles(opened.archive, head, out, createProgress(context.terminal));
      writeFileSync(join(out, "vkey"), `${verifierKeys.join("\n")}\n`);
      // Last, so that everything that it covers exists.
      writeFileSync(join(out, "checkpoint"), checkpoint);
      const { origin, size } = head;
      return { value: { origin, tree_size: size, directory: out }, text: `${out}: ${size} leaves of ${origin}` };
    });
  },
});

/** Creates the directory if it is missing. Throws a Refusal if it cannot be written to. */
function makeEmptyDirectory(out: string): void {
  try {
    makeDirectory(out);
    if (readdirSync(out).length === 0) return;
  } catch (error) {
    const code = error instanceof Error && "code" in error ? ` (${String(error.code)})` : "";
    throw new Refusal(`--out: ${JSON.stringify(out)} cannot be a directory to write to${code}`);
  }
  throw new Refusal(`${out} is not empty`);
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
