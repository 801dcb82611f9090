/** Commands about one log: its files, the receipt of a record, and its search index. */
import { readdirSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { setTimeout } from "node:timers/promises";
import { parseRecordId, systemRandom } from "../../base/ids.ts";
import { formatBase64 } from "../../base/text-forms.ts";
import { codeText, makeDirectory } from "../../files/file-system.ts";
import { receiptOf } from "../../ledger/append/answering.ts";
import type { StoreArchive } from "../../ledger/ports/archive.ts";
import { receiptMembers } from "../../ledger/ports/ledger.ts";
import type { RebuiltIndex } from "../../ledger/ports/search.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import { logNameOf } from "../../ledger/tlog/log-name.ts";
import { allTiles, type TileName, tilePath } from "../../ledger/tlog/tiles.ts";
import { storeBackend } from "../../stores/backends.ts";
import type { StoreDatabase } from "../../stores/sql/backend.ts";
import { rebuildIndexes } from "../../stores/sql/search-indexer.ts";
import { command } from "../frame/command.ts";
import { logOf, logsOf, oneTenantFlag, withArchive, withOpened } from "../frame/store.ts";
import { type Answer, type Progress, Refusal, unfinished, untilFailure } from "../frame/terminal.ts";
import { signed } from "./keys-commands.ts";

/** A log as a directory of files for public tools (C2SP tlog-tiles). */
export const ledgerExportCommand = command({
  name: "ledger export",
  says: "write a tenant's log as static files: checkpoint, tiles and entries (C2SP tlog-tiles), and its keys",
  options: {
    "--tenant <tenant>": oneTenantFlag,
    "--out <directory>": { says: "output directory; must be empty or not exist yet", required: true },
  },
  run(context) {
    const { tenant, out } = context.options;
    return withArchive(context, async (opened) => {
      const committed = await logOf(opened.archive, tenant);
      makeEmptyDirectory(out);
      const { head, verifierKeys, checkpoint } = await signed(opened, committed);
      await writeTiles(opened.archive, head, out, context.progress);
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
    throw new Refusal(`--out: ${JSON.stringify(out)} cannot be a directory to write to${codeText(error)}`);
  }
  throw new Refusal(`${out} is not empty`);
}

async function writeTiles(archive: StoreArchive, head: LogState, out: string, progress: Progress): Promise<void> {
  const write = async (tile: TileName) => {
    const bytes = await archive.tile(logNameOf(head.origin), tile);
    if (bytes === undefined) throw new Error(`The tile ${tilePath(tile)} is missing from the store.`);
    const path = join(out, "tile", tilePath(tile));
    makeDirectory(dirname(path));
    writeFileSync(path, bytes);
  };
  for (const tile of allTiles(head.size)) {
    await write(tile);
    if (tile.level !== 0) continue;
    await write({ ...tile, level: "entries" });
    progress(`tile ${tile.index + 1} of ${Math.ceil(head.size / 256)}`);
  }
}

export const ledgerReceiptCommand = command({
  name: "ledger receipt",
  says: "print the full receipt of a record, in the newest state of its log that may be signed",
  arguments: { "<record>": "id of the record" },
  options: {
    "--tenant <tenant>": oneTenantFlag,
    "--cose": "with its COSE receipt (RFC 9942), which tools of others verify",
  },
  run(context) {
    const { tenant, cose } = context.options;
    const recordId = parseRecordId(context.args[0] ?? "");
    if (recordId === undefined) throw new Refusal("<record>: is not a record id");
    return withArchive(context, async (opened) => {
      const state = await signed(opened, await logOf(opened.archive, tenant));
      const { head } = state;
      const proven = await opened.archive.proven(logNameOf(head.origin), head, recordId);
      if (proven === "unknown") throw new Refusal(`the log of tenant ${head.tenantId} has no such record`);
      if (proven === "erased") throw new Refusal("the record was erased");
      const receipt = receiptOf(head.origin, proven, state);
      const value = { ...receiptMembers(receipt), ...(cose === true && { cose: formatBase64(receipt.cose()) }) };
      return { value, text: JSON.stringify(value, undefined, 2) };
    });
  },
});

interface Rebuilt {
  readonly head: LogState;
  readonly index: RebuiltIndex;
}

/**
 * Twice the duration of one transaction. A service that waits for the lock polls instead of queueing, so the store must
 * be free more often than not.
 */
const pauseMs = 40;

export const ledgerReindexCommand = command({
  name: "ledger reindex",
  says: "rebuild the search index from the records; the old one is used until then",
  options: { "--tenant <tenant>": "this tenant's only" },
  async run(context) {
    // With the archive closed, because it would keep the current state of the store, including everything that is
    // replaced.
    const logs = await withArchive(context, ({ archive }) => logsOf(archive, context.options.tenant));
    const config = context.load("ledger");
    const pause = () => setTimeout(pauseMs);
    const open = async () => (await storeBackend(config)).openDatabase("upkeep");
    async function* rebuildIn(database: StoreDatabase): AsyncGenerator<Rebuilt> {
      for (const [position, head] of logs.entries()) {
        const onProgress = (leaves: number) =>
          context.progress(`log ${position + 1} of ${logs.length}: ${leaves} of ${head.size}`);
        const options = { random: systemRandom, pause, onProgress };
        yield { head, index: await rebuildIndexes(database, head.tenantId, options) };
      }
    }
    const { done, failure } = await withOpened(open, (database) => untilFailure(rebuildIn(database)));
    return answerOf(done, failure);
  },
});

function answerOf(rebuilt: readonly Rebuilt[], failure: string | undefined): Answer {
  const logs = rebuilt.map(({ head: { tenantId, origin }, index: { leaves, erased, damaged } }) => {
    return { tenant_id: tenantId, origin, leaves, erased, damaged };
  });
  const lines = logs.map(
    (log) => `${log.origin} (tenant ${log.tenant_id}): ${log.leaves} leaves indexed, ${log.erased} of them erased`,
  );
  const problems = logs.flatMap(({ origin, damaged }) =>
    damaged.map((leaf) => `${origin}: leaf ${leaf} cannot be opened, and so not be found`),
  );
  const all = [...problems, ...unfinished(failure, "logs are indexed")];
  return { value: { logs }, text: lines.join("\n") || "there are no logs", problems: all };
}
