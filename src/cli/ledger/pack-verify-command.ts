import { createReadStream } from "node:fs";
import type { Command } from "commander";
import { systemClock } from "../../base/clock.ts";
import { LineageCollector } from "../../domain/lineage/lineage.ts";
import { packReport } from "../../domain/lineage/report.ts";
import { PackError } from "../../ledger/pack/format.ts";
import { verifyPack } from "../../ledger/pack/verify.ts";
import { NoteError } from "../../ledger/tlog/note.ts";
import { requireQuorum } from "../../ledger/witness/cosignature.ts";
import { createOutput, type Output } from "../output.ts";
import { createProgress, type Progress, type Terminal } from "../terminal.ts";
import { reportText } from "./pack-text.ts";
import { readTrust, type Trust, type TrustOptions, withTrustOptions } from "./trust-options.ts";

interface VerifyOptions extends TrustOptions {
  readonly json?: boolean;
}

/** How often progress is shown, in entries. */
const progressEvery = 1_024;

/** `ledger pack verify`: needs the pack and the trusted keys, and nothing else. */
export function addLedgerPackVerifyCommand(pack: Command, terminal: Terminal): void {
  withTrustOptions(
    pack.command("verify").argument("<file>", "a pack"),
    "a verifier key of the log, from whoever you trust: never from the pack; several times where keys were rotated",
  )
    .option("--json", "answer with one JSON object")
    .description("check offline that a log holds exactly what a pack says, and report what that is")
    .action(async (file: string, options: VerifyOptions) => {
      const output = createOutput(options.json === true, terminal);
      const trust = readTrust(options);
      if ("problem" in trust) return output.fail([trust.problem]);
      if (trust.keys.length === 0) return output.fail(["--key: is required"]);
      await verify(file, trust, output, createProgress(terminal));
    });
}

async function verify(file: string, { keys, witnesses }: Trust, output: Output, progress: Progress): Promise<void> {
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
    progress.done();
    const cosigned = witnesses === undefined ? [] : requireQuorum(pack.note, witnesses, systemClock.now());
    const report = packReport(pack, shares, lineage.report(pack.range), cosigned);
    output.succeed(report, reportText(report));
  } catch (error) {
    progress.done();
    if (error instanceof PackError || error instanceof NoteError) return output.fail([`${file}: ${error.message}`]);
    if (!(error instanceof Error && "code" in error)) throw error;
    output.fail([`${file}: cannot be read (${String(error.code)})`]);
  }
}
