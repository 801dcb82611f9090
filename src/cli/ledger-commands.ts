import type { Command } from "commander";
import { addLedgerAnchorCommand } from "./ledger-anchor-command.ts";
import { addLedgerEraseCommand } from "./ledger-erase-command.ts";
import { addLedgerExportCommand } from "./ledger-export-command.ts";
import { addLedgerHoldCommands } from "./ledger-hold-commands.ts";
import { addLedgerPackCommands } from "./ledger-pack-command.ts";
import { addLedgerReapplyCommand } from "./ledger-reapply-command.ts";
import { addLedgerReindexCommand } from "./ledger-reindex-command.ts";
import { addLedgerSearchCommand } from "./ledger-search-command.ts";
import { addLedgerVerifyCommand } from "./ledger-verify-command.ts";
import { addReceiptVerifyCommand } from "./receipt-verify-command.ts";
import type { Terminal } from "./terminal.ts";

/** `ledger …`: commands about the evidence logs. They work beside a running service. */
export function addLedgerCommands(program: Command, terminal: Terminal): void {
  const ledger = program
    .command("ledger")
    .description(
      "verify, export and search the evidence logs, pack evidence, erase and hold records, and verify receipts",
    );
  addLedgerVerifyCommand(ledger, terminal);
  addLedgerAnchorCommand(ledger, terminal);
  addLedgerExportCommand(ledger, terminal);
  addLedgerPackCommands(ledger, terminal);
  addLedgerSearchCommand(ledger, terminal);
  addLedgerReindexCommand(ledger, terminal);
  addLedgerEraseCommand(ledger, terminal);
  addLedgerReapplyCommand(ledger, terminal);
  addLedgerHoldCommands(ledger, terminal);
  addReceiptVerifyCommand(ledger.command("receipt").description("receipts"), terminal);
}
