/** The options that commands share. */
import type { Command } from "commander";
import { loadConfig } from "../config/load.ts";
import type { ConfigFor, Use } from "../config/uses.ts";
import { AnchorFileError, BackupTargetError } from "../stores/errors.ts";
import type { Output } from "./output.ts";

export interface CommonOptions {
  readonly json?: boolean;
  readonly config?: string;
}

/** Adds `--json` and `--config` to a command. */
export function withCommonOptions(command: Command): Command {
  return command
    .option("--json", "answer with one JSON object")
    .option("--config <file>", "YAML file of settings; the environment wins over it");
}

/** The configuration of this process for the use; where it is wrong, reports why and returns undefined. */
export function loadOrReport<U extends Use>(
  uses: U,
  { config }: CommonOptions,
  output: Output,
): ConfigFor<U> | undefined {
  const result = loadConfig(uses, config);
  if ("config" in result) return result.config;
  output.fail(result.problems);
  return undefined;
}

/** Why a store could not be used, under the name of the setting that it is about. */
export function storeProblem(error: unknown): string {
  const isTarget = error instanceof BackupTargetError;
  const setting = isTarget ? "--to" : error instanceof AnchorFileError ? "SVC_ANCHOR" : "SVC_STORE";
  return `${setting}: ${error instanceof Error ? error.message : String(error)}`;
}
