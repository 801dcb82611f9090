/** `store backup` and `store compact`: upkeep beside a running service. Neither takes anything that somebody needs. */
import { setTimeout } from "node:timers/promises";
import type { Command } from "commander";
import { systemClock } from "../base/clock.ts";
import { formatBase64 } from "../base/text-forms.ts";
import type { Backup, Compacted, StoreBackend } from "../stores/backend.ts";
import { storeBackend } from "../stores/backends.ts";
import { type CommonOptions, loadOrReport, storeProblem, withCommonOptions } from "./options.ts";
import { createOutput, type Output } from "./output.ts";
import { createProgress, type Terminal } from "./terminal.ts";

/** Between two transactions: a service that waits for its turn gets it. */
const pauseMs = 40;

export function addStoreBackupCommand(store: Command, terminal: Terminal): void {
  withCommonOptions(store.command("backup"))
    .description("copy an embedded store, as it is at one moment, to a new file; a service may run on it")
    .requiredOption(
      "--to <file>",
      "the copy; nothing may be there. Anchor and ledger key are not in it: keep them apart",
    )
    .action(async (options: CommonOptions & { readonly to: string }) => {
      const output = createOutput(options.json === true, terminal);
      const backup = await withBackendOrReport(options, output, (backend) => backend.backUp(options.to));
      if (backup !== undefined) printBackup(backup, output);
    });
}

export function addStoreCompactCommand(store: Command, terminal: Terminal): void {
  withCommonOptions(store.command("compact"))
    .description("remove answers to retries, proofs and counters that have expired; a service may run on it")
    .option(
      "--rewrite",
      "write an embedded store's file anew too, without what is free: its callers are refused meanwhile",
    )
    .action(async (options: CommonOptions & { readonly rewrite?: boolean }) => {
      const output = createOutput(options.json === true, terminal);
      const progress = createProgress(terminal);
      const compacted = await withBackendOrReport(options, output, (backend) =>
        backend.compact({
          nowMs: systemClock.now(),
          rewrite: options.rewrite === true,
          pause: () => setTimeout(pauseMs),
          onProgress: progress.show,
        }),
      ).finally(progress.done);
      if (compacted !== undefined) printCompacted(compacted, output);
    });
}

async function withBackendOrReport<Result>(
  options: CommonOptions,
  output: Output,
  work: (backend: StoreBackend) => Promise<Result>,
): Promise<Result | undefined> {
  const config = loadOrReport("store", options, output);
  if (config === undefined) return undefined;
  try {
    return await work(await storeBackend(config));
  } catch (error) {
    output.fail([storeProblem(error)]);
    return undefined;
  }
}

function printBackup({ path, sizeBytes, storeId, logs }: Backup, output: Output): void {
  const described = logs.map(({ tenantId, origin, size, root }) => ({
    tenant_id: tenantId,
    origin,
    tree_size: size,
    root: formatBase64(root),
  }));
  const lines = described.map(
    (log) => `${log.origin} (tenant ${log.tenant_id}): ${log.tree_size} leaves, root ${log.root}`,
  );
  const done = `${path}: ${sizeBytes} bytes, store ${storeId}; without its anchor and key`;
  output.succeed({ path, size_bytes: sizeBytes, store_id: storeId, logs: described }, [...lines, done].join("\n"));
}

function printCompacted({ removed, beforeBytes, afterBytes, isLogEmpty }: Compacted, output: Output): void {
  const lines = [
    ...Object.entries(removed).map(([table, count]) => `${table}: ${count} expired rows removed`),
    `${beforeBytes} bytes before, ${afterBytes} after`,
    ...(isLogEmpty === false ? ["the write-ahead log is not empty: somebody reads an older state"] : []),
  ];
  const log = isLogEmpty === undefined ? {} : { is_log_empty: isLogEmpty };
  output.succeed({ removed, before_bytes: beforeBytes, after_bytes: afterBytes, ...log }, lines.join("\n"));
}
