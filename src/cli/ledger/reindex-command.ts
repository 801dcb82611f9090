import { randomFillSync } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import type { RebuiltIndex } from "../../ledger/ports/search.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import { storeBackend } from "../../stores/backends.ts";
import { StoredSearchIndexer } from "../../stores/sql/search-indexer.ts";
import { command } from "../frame/command.ts";
import { inStore, logsOf, withArchive } from "../frame/store.ts";
import { type Answer, createProgress } from "../frame/terminal.ts";

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
    const random = (bytes: Uint8Array) => randomFillSync(bytes);
    const pause = () => setTimeout(pauseMs);
    const indexer = await inStore(async () => {
      const database = await (await storeBackend(config)).openDatabase("upkeep");
      return new StoredSearchIndexer(database, { random, pause });
    });
    const progress = createProgress(context.terminal);
    const rebuilt: Rebuilt[] = [];
    try {
      for (const [position, head] of logs.entries()) {
        const onProgress = (leaves: number) =>
          progress.show(`log ${position + 1} of ${logs.length}: ${leaves} of ${head.size}`);
        rebuilt.push({ head, index: await indexer.rebuild(head.tenantId, onProgress) });
      }
    } finally {
      progress.done();
      await indexer.close();
    }
    return answerOf(rebuilt);
  },
});

function answerOf(rebuilt: readonly Rebuilt[]): Answer {
  const logs = rebuilt.map(({ head: { tenantId, origin }, index: { leaves, erased, damaged } }) => {
    return { tenant_id: tenantId, origin, leaves, erased, damaged };
  });
  const lines = logs.map(
    (log) => `${log.origin} (tenant ${log.tenant_id}): ${log.leaves} leaves indexed, ${log.erased} of them erased`,
  );
  const problems = logs.flatMap(({ origin, damaged }) =>
    damaged.map((leaf) => `${origin}: leaf ${leaf} cannot be opened, and so not be found`),
  );
  return { value: { logs }, text: lines.join("\n") || "there are no logs", problems };
}
