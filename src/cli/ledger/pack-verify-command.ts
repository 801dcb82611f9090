import { createReadStream } from "node:fs";
import { systemClock } from "../../base/clock.ts";
import { LineageCollector } from "../../domain/lineage/lineage.ts";
import { packReport } from "../../domain/lineage/report.ts";
import { PackError } from "../../ledger/pack/format.ts";
import { verifyPack } from "../../ledger/pack/verify.ts";
import { NoteError } from "../../ledger/tlog/note.ts";
import { requireQuorum } from "../../ledger/witness/cosignature.ts";
import { command } from "../frame/command.ts";
import { Refusal } from "../frame/output.ts";
import { createProgress } from "../frame/terminal.ts";
import { reportText } from "./pack-text.ts";
import { requireTrust, trustFlags } from "./trust-options.ts";

/** Progress interval, in entries. */
const progressEvery = 1_024;

/** Needs only the pack and the trusted keys. */
export const ledgerPackVerifyCommand = command({
  name: "ledger pack verify",
  says: "check offline that a log holds exactly what a pack says, and report what that is",
  arguments: { "<file>": "a pack" },
  options: trustFlags("a trusted verifier key of the log: never from the pack; several times if keys were rotated"),
  async run({ options, args: [file = ""], terminal }) {
    const { keys, witnesses } = requireTrust(options);
    const progress = createProgress(terminal);
    const lineage = new LineageCollector();
    const shares = { records: 0, erased: 0, leavesOnly: 0 };
    let entries = 0;
    try {
      const pack = await verifyPack(createReadStream(file), keys, (entry) => {
        lineage.add(entry);
        shares[entry.record !== undefined ? "records" : entry.erased ? "erased" : "leavesOnly"] += 1;
        entries += 1;
        if (entries % progressEvery === 0) progress.show(`${entries} entries, up to leaf ${entry.leafIndex}`);
      });
      const cosigned = witnesses === undefined ? [] : requireQuorum(pack.note, witnesses, systemClock.now());
      const report = packReport(pack, shares, lineage.report(pack.range), cosigned);
      return { value: report, text: reportText(report) };
    } catch (error) {
      if (error instanceof PackError || error instanceof NoteError) throw new Refusal(`${file}: ${error.message}`);
      if (!(error instanceof Error && "code" in error)) throw error;
      throw new Refusal(`${file}: cannot be read (${String(error.code)})`);
    } finally {
      progress.done();
    }
  },
});
