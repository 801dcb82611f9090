import type { Command } from "commander";
import { addLedgerExportCommand } from "./ledger-export-command.ts";
import { addLedgerVerifyCommand } from "./ledger-verify-command.ts";
import { addReceiptVerifyCommand } from "./receipt-verify-command.ts";
import type { Terminal } from "./terminal.ts";

/** `ledger …`: commands about the evidence logs. They read beside a running service. */
export function addLedgerCommands(program: Command, terminal: Terminal): void {
  const ledger = program.command("ledger").description("verify and export the evidence logs, and verify receipts");
  addLedgerVerifyCommand(ledger, terminal);
  addLedgerExportCommand(ledger, terminal);
  addReceiptVerifyCommand(ledger.command("receipt").description("receipts"), terminal);
}
