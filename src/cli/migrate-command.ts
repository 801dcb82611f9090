import { randomFillSync } from "node:crypto";
import type { Command } from "commander";
import { type CommonOptions, loadOrReport, withCommonOptions } from "./options.ts";
import { createOutput, type Output } from "./output.ts";
import type { Terminal } from "./terminal.ts";

/** How long to wait for another process that migrates the same store. */
const busyTimeoutMs = 60_000;

/** `migrate`: brings the store to this program's schema. */
export function addMigrateCommand(program: Command, terminal: Terminal): void {
  withCommonOptions(program.command("migrate"))
    .description("create the store where it is missing, and bring it to this program's schema")
    .action(async (options: CommonOptions) => {
      const output = createOutput(options.json === true, terminal);
      const store = loadOrReport("migrate", options, output)?.store;
      if (store === undefined) return;
      if (store.kind !== "sqlite")
        return output.fail([`SVC_STORE: ${store.kind} stores are not migrated by this build`]);
      await migrate(store.path, output);
    });
}

async function migrate(path: string, output: Output): Promise<void> {
  const { migrateSqlite } = await import("../stores/sqlite/migrate.ts");
  const { migrations } = await import("../stores/sqlite/schema.ts");
  let applied: readonly string[];
  try {
    applied = migrateSqlite({ path, random: (bytes) => randomFillSync(bytes), busyTimeoutMs });
  } catch (error) {
    return output.fail([`SVC_STORE: ${error instanceof Error ? error.message : String(error)}`]);
  }
  const version = migrations.length;
  output.succeed(
    { store: "sqlite", schema_version: version, applied },
    `schema version ${version}: ${applied.length === 0 ? "nothing to do" : `applied ${applied.join(", ")}`}`,
  );
}
