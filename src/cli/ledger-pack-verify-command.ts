import { createReadStream } from "node:fs";
import type { Command } from "commander";
import type { LogVerifier } from "../ledger/checkpoint.ts";
import { LineageCollector } from "../ledger/pack/lineage.ts";
import { PackError } from "../ledger/pack/problem.ts";
import { packReport } from "../ledger/pack/report.ts";
import { verifyPack } from "../ledger/pack/verify.ts";
import { parseTrustedKey } from "../ledger/trusted-key.ts";
import { reportText } from "./ledger-pack-text.ts";
import { createOutput, type Output } from "./output.ts";
import { createProgress, type Progress } from "./progress.ts";
import type { Terminal } from "./terminal.ts";

interface VerifyOptions {
  readonly json?: boolean;
  readonly key: readonly string[];
}

/** How often progress is shown, in entries. */
const progressEvery = 1_024;

/** `ledger pack verify`: needs the pack and the trusted keys, and nothing else. */
export function addLedgerPackVerifyCommand(pack: Command, terminal: Terminal): void {
  pack
    .command("verify")
    .argument("<file>", "a pack")
    .requiredOption(
      "--key <vkey>",
      "a verifier key of the log, from whoever you trust: never from the pack; several times where keys were rotated",
      (key: string, keys: readonly string[] = []) => [...keys, key],
    )
    .option("--json", "answer with one JSON object")
    .description("check offline that a log holds exactly what a pack says, and report what that is")
    .action(async (file: string, { json, key }: VerifyOptions) => {
      const output = createOutput(json === true, terminal);
      const verifiers = key.map(parseTrustedKey);
      if (verifiers.includes(undefined))
        return output.fail(["--key: is no verifier key (name+id+key, C2SP signed-note; @size behind a retired one)"]);
      await verify(file, verifiers as readonly LogVerifier[], output, createProgress(terminal));
    });
}

async function verify(file: string, keys: readonly LogVerifier[], output: Output, progress: Progress): Promise<void> {
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
    const report = packReport(pack, shares, lineage.report(pack.range));
    output.succeed(report, reportText(report));
  } catch (error) {
    progress.done();
    if (error instanceof PackError) return output.fail([`${file}: ${error.message}`]);
    if (!(error instanceof Error && "code" in error)) throw error;
    output.fail([`${file}: cannot be read (${String(error.code)})`]);
  }
}
