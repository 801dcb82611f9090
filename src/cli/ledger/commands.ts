import type { Command } from "commander";
import type { Terminal } from "../terminal.ts";
import { addLedgerAnchorCommand } from "./anchor-command.ts";
import { addLedgerClockCommand } from "./clock-command.ts";
import { addLedgerEraseCommand } from "./erase-command.ts";
import { addLedgerExportCommand } from "./export-command.ts";
import { addLedgerHoldCommands } from "./hold-commands.ts";
import { addLedgerPackCommands } from "./pack-command.ts";
import { addLedgerReapplyCommand } from "./reapply-command.ts";
import { addReceiptVerifyCommand } from "./receipt-verify-command.ts";
import { addLedgerReindexCommand } from "./reindex-command.ts";
import { addLedgerSearchCommand } from "./search-command.ts";
import { addLedgerVerifyCommand } from "./verify-command.ts";

/** `ledger …`: commands about the evidence logs. They work beside a running service. */
export function addLedgerCommands(program: Command, terminal: Terminal): void {
  const ledger = program
    .command("ledger")
    .description(
      "verify, export and search the evidence logs, pack evidence, erase and hold records, and verify receipts",
    );
  addLedgerVerifyCommand(ledger, terminal);
  addLedgerAnchorCommand(ledger, terminal);
  addLedgerClockCommand(ledger, terminal);
  addLedgerExportCommand(ledger, terminal);
  addLedgerPackCommands(ledger, terminal);
  addLedgerSearchCommand(ledger, terminal);
  addLedgerReindexCommand(ledger, terminal);
  addLedgerEraseCommand(ledger, terminal);
  addLedgerReapplyCommand(ledger, terminal);
  addLedgerHoldCommands(ledger, terminal);
  addReceiptVerifyCommand(ledger.command("receipt").description("receipts"), terminal);
}
