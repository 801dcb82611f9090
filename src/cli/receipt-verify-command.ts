import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { NoteError } from "../ledger/note.ts";
import { type NoteVerifier, parseVerifierKey } from "../ledger/note-keys.ts";
import { findReceipt, type GivenReceipt, type VerifiedReceipt, verifyReceipt } from "../ledger/receipt.ts";
import { formatBase64 } from "../ledger/text-forms.ts";
import { createOutput, type Output } from "./output.ts";
import type { Terminal } from "./terminal.ts";

interface ReceiptOptions {
  readonly json?: boolean;
  readonly key: string;
}

/** `ledger receipt verify`: needs the receipt and the trusted key, and nothing else. */
export function addReceiptVerifyCommand(receipt: Command, terminal: Terminal): void {
  receipt
    .command("verify")
    .argument("<file>", "a receipt as JSON, or an answer of the service that carries one")
    .requiredOption("--key <vkey>", "the log's verifier key, from whoever you trust: never from the receipt")
    .option("--json", "answer with one JSON object")
    .description("check offline that a log holds exactly the record of a receipt")
    .action((file: string, options: ReceiptOptions) => {
      const output = createOutput(options.json === true, terminal);
      const verifier = parseVerifierKey(options.key);
      if (verifier === undefined) return output.fail(["--key: is no verifier key (name+id+key, C2SP signed-note)"]);
      const receipt = readReceiptOrReport(file, output);
      if (receipt !== undefined) verify(receipt, verifier, output);
    });
}

function readReceiptOrReport(file: string, output: Output): GivenReceipt | undefined {
  let value: unknown;
  try {
    value = JSON.parse(readFileSync(file, "utf8"));
  } catch (error) {
    const code = error instanceof Error && "code" in error ? ` (${String(error.code)})` : ": it is not JSON";
    output.fail([`${file}: cannot be read${code}`]);
    return undefined;
  }
  const receipt = findReceipt(value);
  if (receipt === undefined) output.fail([`${file}: holds no receipt`]);
  return receipt;
}

function verify(receipt: GivenReceipt, verifier: NoteVerifier, output: Output) {
  let verified: VerifiedReceipt;
  try {
    verified = verifyReceipt(receipt, verifier);
  } catch (error) {
    if (!(error instanceof NoteError)) throw error;
    return output.fail([error.message]);
  }
  const { leafIndex, treeSize, root, record } = verified;
  const proves = record === undefined ? "position" : "record";
  const position = `leaf ${leafIndex} of ${treeSize} in ${receipt.log_origin}`;
  output.succeed(
    {
      proves,
      log_origin: receipt.log_origin,
      leaf_index: leafIndex,
      tree_size: treeSize,
      root: formatBase64(root),
      record,
    },
    record === undefined
      ? `position only: ${position}; the receipt does not show which record that is`
      : `${position} is exactly this record:\n${JSON.stringify(record, undefined, 2)}`,
  );
}
