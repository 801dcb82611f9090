/** All commands, of which a command line names one. */
import type { Command } from "commander";
import { addClientsCommands } from "./clients-commands.ts";
import { addDoctorCommand } from "./doctor/doctor-command.ts";
import { addKeysCommands } from "./keys-commands.ts";
import { addLedgerCommands } from "./ledger/commands.ts";
import { addMigrateCommand } from "./migrate-command.ts";
import { addOperatorsCommands } from "./operators-commands.ts";
import { addPolicyCommands } from "./policy/commands.ts";
import { programOf, runProgram } from "./program.ts";
import { addServeCommand } from "./serve-command.ts";
import { addStoreCommands } from "./store-commands.ts";
import type { Terminal } from "./terminal.ts";

/**
 * Runs the command that the arguments name, without program and script. Resolves when it is done; the terminal knows
 * how it went. Never rejects.
 */
export function runCommandLine(commandLine: readonly string[], terminal: Terminal): Promise<void> {
  return runProgram(commandsOf(terminal), commandLine, terminal);
}

/** Every command. */
export function commandsOf(terminal: Terminal): Command {
  return programOf(terminal, [
    addServeCommand,
    addDoctorCommand,
    addPolicyCommands,
    addMigrateCommand,
    addStoreCommands,
    addKeysCommands,
    addLedgerCommands,
    addClientsCommands,
    addOperatorsCommands,
  ]);
}
