/** `ledger receipt`: the receipt of a record of the store. `ledger receipt verify` is for the outsider. */
import { parseRecordId } from "../../base/ids.ts";
import { formatBase64 } from "../../base/text-forms.ts";
import { receiptOf } from "../../ledger/append/answering.ts";
import { receiptMembers } from "../../ledger/ports/ledger.ts";
import { logNameOf } from "../../ledger/tlog/log-name.ts";
import { command } from "../frame/command.ts";
import { logOf, oneTenantFlag, withArchive } from "../frame/store.ts";
import { Refusal } from "../frame/terminal.ts";
import { signed } from "./keys-commands.ts";

export const ledgerReceiptCommand = command({
  name: "ledger receipt",
  says: "print the full receipt of a record, in the newest state of its log that may be signed",
  arguments: { "<record>": "id of the record" },
  options: {
    "--tenant <tenant>": oneTenantFlag,
    "--cose": "with its COSE receipt (RFC 9942), which tools of others verify",
  },
  run(context) {
    const { tenant, cose } = context.options;
    const recordId = parseRecordId(context.args[0] ?? "");
    if (recordId === undefined) throw new Refusal("<record>: is not a record id");
    return withArchive(context, async (opened) => {
      const state = await signed(opened, await logOf(opened.archive, tenant));
      const { head } = state;
      const proven = await opened.archive.proven(logNameOf(head.origin), head, recordId);
      if (proven === "unknown") throw new Refusal(`the log of tenant ${head.tenantId} has no such record`);
      if (proven === "erased") throw new Refusal("the record was erased");
      const receipt = receiptOf(head.origin, proven, state);
      const value = { ...receiptMembers(receipt), ...(cose === true && { cose: formatBase64(receipt.cose()) }) };
      return { value, text: JSON.stringify(value, undefined, 2) };
    });
  },
});
