/** Protects or opens many small objects. Each is a separate operation; all share the service's bulk calls. */
import { bulkPlatform, SharedCalls } from "./bulk-platform.ts";
import type { BulkClient } from "./client.ts";
import type { EnforcementError } from "./errors.ts";
import type { Context } from "./operation.ts";
import type { Outcome } from "./protect.ts";
import type { EvidenceSpool } from "./spool.ts";

/** What came of one item, as of `Promise.allSettled`. */
export type Settled =
  | { readonly status: "fulfilled"; readonly value: Outcome }
  | { readonly status: "rejected"; readonly reason: EnforcementError };

/** Operations under way at once: bounds open files, and the answers in memory. */
const width = 256;

/** Carries out the work on each item, and resolves with the results in their order. */
export async function settleAll<Item>(
  items: readonly Item[],
  work: (item: Item) => Promise<Outcome>,
): Promise<readonly Settled[]> {
  const results: Settled[] = [];
  const waiting = items.entries();
  const worker = async () => {
    for (const [i, item] of waiting)
      results[i] = await work(item).then(
        (value) => ({ status: "fulfilled", value }) as const,
        (reason: EnforcementError) => ({ status: "rejected", reason }) as const,
      );
  };
  await Promise.all(Array.from({ length: Math.min(width, items.length) }, worker));
  return results;
}

/** The context of one call with many items. */
export function sharedContext(context: Context & { readonly spool: EvidenceSpool }, client: BulkClient): Context {
  const platform = bulkPlatform(context.platform, client);
  const spool = context.spool.through(platform);
  const flushes = new SharedCalls<undefined, Awaited<ReturnType<typeof spool.flush>>>(async (asked) => {
    const flushed = await spool.flush();
    return asked.map(() => () => flushed);
  });
  return {
    ...context,
    platform,
    spool: { begin: (...event) => spool.begin(...event), flush: (signal) => flushes.ask(undefined, signal) },
  };
}
