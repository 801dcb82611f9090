/** All commands. */
import type { Command } from "commander";
import {
  clientsAddCommand,
  clientsListCommand,
  clientsRemoveCommand,
  clientsRotateCommand,
} from "./clients-commands.ts";
import { doctorCommand } from "./doctor/doctor-command.ts";
import type { Terminal } from "./frame/terminal.ts";
import { ledgerAnchorCommand } from "./ledger/anchor-command.ts";
import { ledgerClockCommand } from "./ledger/clock-command.ts";
import { ledgerEraseCommand } from "./ledger/erase-command.ts";
import { ledgerExportCommand } from "./ledger/export-command.ts";
import { ledgerHoldListCommand, ledgerHoldPlaceCommand, ledgerHoldReleaseCommand } from "./ledger/hold-commands.ts";
import { keysGenerateCommand, keysRotateCommand, keysShowCommand } from "./ledger/keys-commands.ts";
import { ledgerPackCommand } from "./ledger/pack-command.ts";
import { ledgerPackVerifyCommand } from "./ledger/pack-verify-command.ts";
import { ledgerReapplyCommand } from "./ledger/reapply-command.ts";
import { receiptVerifyCommand } from "./ledger/receipt-verify-command.ts";
import { ledgerReindexCommand } from "./ledger/reindex-command.ts";
import { ledgerSearchCommand } from "./ledger/search-command.ts";
import { ledgerVerifyCommand } from "./ledger/verify-command.ts";
import { operatorsAddCommand, operatorsListCommand, operatorsRemoveCommand } from "./operators-commands.ts";
import { policyDiffCommand } from "./policy/diff-command.ts";
import { policyCheckCommand, policySchemaCommand, policyTestCommand } from "./policy/directory-commands.ts";
import { policyExplainCommand } from "./policy/explain-command.ts";
import { policyReplayCommand } from "./policy/replay-command.ts";
import { programOf, runProgram, serveCommand } from "./program.ts";
import { migrateCommand, storeBackupCommand, storeCompactCommand, storeCopyCommand } from "./store-commands.ts";

/**
 * Runs the command of the arguments, without program and script. Resolves when it is done; the terminal has its exit
 * code. Never rejects.
 */
export function runCommandLine(commandLine: readonly string[], terminal: Terminal): Promise<void> {
  return runProgram(commandsOf(terminal), commandLine, terminal);
}

/** Every command, in the order of help and reference. */
export function commandsOf(terminal: Terminal): Command {
  return programOf(terminal, [
    ...[serveCommand, doctorCommand],
    ...[policyCheckCommand, policySchemaCommand, policyTestCommand],
    ...[policyExplainCommand, policyDiffCommand, policyReplayCommand],
    ...[migrateCommand, storeBackupCommand, storeCompactCommand, storeCopyCommand],
    ...[keysGenerateCommand, keysRotateCommand, keysShowCommand],
    ...[ledgerVerifyCommand, ledgerAnchorCommand, ledgerClockCommand, ledgerExportCommand],
    ...[ledgerPackCommand, ledgerPackVerifyCommand, ledgerSearchCommand, ledgerReindexCommand],
    ...[ledgerEraseCommand, ledgerReapplyCommand],
    ...[ledgerHoldPlaceCommand, ledgerHoldReleaseCommand, ledgerHoldListCommand, receiptVerifyCommand],
    ...[clientsAddCommand, clientsRotateCommand, clientsListCommand, clientsRemoveCommand],
    ...[operatorsAddCommand, operatorsListCommand, operatorsRemoveCommand],
  ]);
}
