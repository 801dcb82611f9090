import { randomFillSync } from "node:crypto";
import type { Command } from "commander";
import { type CommonOptions, loadOrReport, withCommonOptions } from "./options.ts";
import { createOutput } from "./output.ts";
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
      const { migrateSqlite } = await import("../stores/sqlite/migrate.ts");
      const { migrations } = await import("../stores/sqlite/schema.ts");
      const applied = migrateSqlite({ path: store.path, random: (bytes) => randomFillSync(bytes), busyTimeoutMs });
      const version = migrations.length;
      output.succeed(
        { store: "sqlite", schema_version: version, applied },
        applied.length === 0
          ? `schema version ${version}: nothing to do`
          : `schema version ${version}: applied ${applied.join(", ")}`,
      );
    });
}
