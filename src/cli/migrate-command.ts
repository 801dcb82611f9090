import { randomFillSync } from "node:crypto";
import type { Command } from "commander";
import type { RandomFill } from "../base/ids.ts";
import type { PostgresTarget } from "../base/postgres-url.ts";
import type { ConfigFor } from "../config/uses.ts";
import { type CommonOptions, loadOrReport, withCommonOptions } from "./options.ts";
import { createOutput, type Output } from "./output.ts";
import type { Terminal } from "./terminal.ts";

/** How long to wait for another process that migrates the same store. */
const busyTimeoutMs = 60_000;

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

type MigrateConfig = ConfigFor<"migrate">;

async function migrate(config: MigrateConfig, distributed: boolean, output: Output): Promise<void> {
  const { store } = config;
  if (distributed && store.kind === "sqlite")
    return output.fail(["SVC_STORE: --distributed needs a database: a file is on one machine."]);
  let done: Migrated;
  try {
    done =
      store.kind === "sqlite"
        ? await migrateFile(store.path)
        : await migrateDatabase(store.target, distributed, config);
  } catch (error) {
    return output.fail([`SVC_STORE: ${error instanceof Error ? error.message : String(error)}`]);
  }
  const { version, applied } = done;
  output.succeed(
    { store: store.kind, schema_version: version, applied },
    `schema version ${version}: ${applied.length === 0 ? "nothing to do" : `applied ${applied.join(", ")}`}`,
  );
}

interface Migrated {
  readonly version: number;
  /** Names of the migrations that were applied, and of the tables that were spread. */
  readonly applied: readonly string[];
}

const random: RandomFill = (bytes) => randomFillSync(bytes);

async function migrateFile(path: string): Promise<Migrated> {
  const { migrateSqlite } = await import("../stores/sqlite/schema/migrate.ts");
  const { migrations } = await import("../stores/sqlite/schema/schema.ts");
  return { version: migrations.length, applied: migrateSqlite({ path, random, busyTimeoutMs }) };
}

async function migrateDatabase(
  target: PostgresTarget,
  distributed: boolean,
  { storePasswordFile: passwordFile }: MigrateConfig,
): Promise<Migrated> {
  const { migratePostgres } = await import("../stores/postgres/schema/migrate.ts");
  const { migrations } = await import("../stores/postgres/schema/schema.ts");
  return { version: migrations.length, applied: await migratePostgres({ target, passwordFile, random, distributed }) };
}
