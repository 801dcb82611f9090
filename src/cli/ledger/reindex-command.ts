import { randomFillSync } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import type { Command } from "commander";
import type { RebuiltIndex, SearchIndexer } from "../../ledger/ports/search.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import { storeBackend } from "../../stores/backends.ts";
import { type CommonOptions, loadOrReport, storeProblem, withCommonOptions } from "../options.ts";
import { createOutput, type Output } from "../output.ts";
import { createProgress, type Terminal } from "../terminal.ts";
import { logsOrReport, withStoreOrReport } from "./store.ts";

interface ReindexOptions extends CommonOptions {
  readonly tenant?: string;
}

interface Rebuilt {
  readonly head: LogState;
  readonly index: RebuiltIndex;
}

/**
 * Twice the time that one transaction takes. A service that waits for the lock looks again now and then, rather than
 * queue: it must find the store free more often than not.
 */
const pauseMs = 40;

/** `ledger reindex`: builds the search index anew from the records. */
export function addLedgerReindexCommand(ledger: Command, terminal: Terminal): void {
  withCommonOptions(ledger.command("reindex"))
    .description("build the search index anew from the records; the old one serves until that is done")
    .option("--tenant <tenant>", "this tenant's only")
    .action(async (options: ReindexOptions) => {
      const output = createOutput(options.json === true, terminal);
      const logs = await readLogs(options, output);
      if (logs === undefined) return;
      const indexer = await openOrReport(options, output);
      if (indexer === undefined) return;
      try {
        printRebuilt(await rebuildAll(indexer, logs, terminal), output);
      } finally {
        await indexer.close();
      }
    });
}

/** The logs, with the archive closed again: it would hold on to the store as it is now, and to all that is replaced. */
async function readLogs(options: ReindexOptions, output: Output): Promise<readonly LogState[] | undefined> {
  let logs: readonly LogState[] | undefined;
  await withStoreOrReport(options, output, async ({ archive }) => {
    logs = await logsOrReport(archive, options.tenant, output);
  });
  return logs;
}

async function openOrReport(options: ReindexOptions, output: Output): Promise<SearchIndexer | undefined> {
  const config = loadOrReport("ledger", options, output);
  if (config === undefined) return undefined;
  try {
    const random = (bytes: Uint8Array) => randomFillSync(bytes);
    return await (await storeBackend(config)).openIndexer({ random, pause: () => setTimeout(pauseMs) });
  } catch (error) {
    output.fail([storeProblem(error)]);
    return undefined;
  }
}

async function rebuildAll(
  indexer: SearchIndexer,
  logs: readonly LogState[],
  terminal: Terminal,
): Promise<readonly Rebuilt[]> {
  const progress = createProgress(terminal);
  const rebuilt: Rebuilt[] = [];
  for (const [position, head] of logs.entries()) {
    const show = (leaves: number) => progress.show(`log ${position + 1} of ${logs.length}: ${leaves} of ${head.size}`);
    rebuilt.push({ head, index: await indexer.rebuild(head.tenantId, show) });
  }
  progress.done();
  return rebuilt;
}

function printRebuilt(rebuilt: readonly Rebuilt[], output: Output): void {
  const value = {
    logs: rebuilt.map(({ head, index }) => ({
      tenant_id: head.tenantId,
      origin: head.origin,
      leaves: index.leaves,
      erased: index.erased,
      damaged: index.damaged,
    })),
  };
  const lines = rebuilt.map(
    ({ head, index }) =>
      `${head.origin} (tenant ${head.tenantId}): ${index.leaves} leaves indexed, ${index.erased} of them erased`,
  );
  const text = lines.length === 0 ? "there are no logs" : lines.join("\n");
  const problems = rebuilt.flatMap(({ head, index }) =>
    index.damaged.map((leaf) => `${head.origin}: leaf ${leaf} cannot be opened, and so not be found`),
  );
  if (problems.length === 0) output.succeed(value, text);
  else output.fail(problems, value, text);
}
