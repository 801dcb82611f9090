import { randomFillSync } from "node:crypto";
import type { Command } from "commander";
import type { ConfigFor } from "../config/uses.ts";
import type { Migrated } from "../stores/backend.ts";
import { storeBackend } from "../stores/backends.ts";
import { type CommonOptions, loadOrReport, storeProblem, withCommonOptions } from "./options.ts";
import { createOutput, type Output } from "./output.ts";
import type { Terminal } from "./terminal.ts";

/** `migrate`: brings the store to this program's schema. */
export function addMigrateCommand(program: Command, terminal: Terminal): void {
  withCommonOptions(program.command("migrate"))
    .description("create the store where it is missing, and bring it to this program's schema")
    .option("--distributed", "spread the tables over the nodes of a Citus cluster, by tenant")
    .action(async (options: MigrateOptions) => {
      const output = createOutput(options.json === true, terminal);
      const config = loadOrReport("migrate", options, output);
      if (config !== undefined) await migrate(config, options.distributed === true, output);
    });
}

interface MigrateOptions extends CommonOptions {
  readonly distributed?: boolean;
}

async function migrate(config: ConfigFor<"migrate">, distributed: boolean, output: Output): Promise<void> {
  let done: Migrated;
  try {
    const backend = await storeBackend({ ...config, anchor: undefined });
    done = await backend.migrate({ random: (bytes) => randomFillSync(bytes), distributed });
  } catch (error) {
    return output.fail([storeProblem(error)]);
  }
  const { version, applied } = done;
  output.succeed(
    { store: config.store.kind, schema_version: version, applied },
    `schema version ${version}: ${applied.length === 0 ? "nothing to do" : `applied ${applied.join(", ")}`}`,
  );
}
