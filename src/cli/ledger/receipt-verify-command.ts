import { readFileSync } from "node:fs";
import type { Command } from "commander";
import { systemClock } from "../../base/clock.ts";
import { formatBase64 } from "../../base/text-forms.ts";
import { answerDifferences } from "../../domain/lineage/answer-check.ts";
import { cosignedMembers } from "../../domain/lineage/report.ts";
import { findReceipt, type GivenReceipt, type VerifiedReceipt, verifyReceipt } from "../../ledger/record/receipt.ts";
import { NoteError } from "../../ledger/tlog/note.ts";
import { parseTlogProof } from "../../ledger/tlog/tlog-proof.ts";
import { openWithAny } from "../../ledger/tlog/trusted-key.ts";
import { type Cosigned, requireQuorum } from "../../ledger/witness/cosignature.ts";
import { createOutput, type Output } from "../output.ts";
import type { Terminal } from "../terminal.ts";
import { readTrust, type Trust, type TrustOptions, withTrustOptions } from "./trust-options.ts";

interface ReceiptOptions extends TrustOptions {
  readonly json?: boolean;
}

/** `ledger receipt verify`: needs the receipt and the trusted key, and nothing else. */
export function addReceiptVerifyCommand(receipt: Command, terminal: Terminal): void {
  withTrustOptions(
    receipt.command("verify").argument("<file>", "a receipt as JSON, or an answer of the service that carries one"),
    "a verifier key of the log, from whoever you trust: never from the receipt; several times where keys were rotated, a retired one with @ and the size that it counts up to",
  )
    .option("--json", "answer with one JSON object")
    .description("check offline that a log holds exactly the record of a receipt, and that the answer says the same")
    .action((file: string, options: ReceiptOptions) => {
      const output = createOutput(options.json === true, terminal);
      const trust = readTrust(options);
      if ("problem" in trust) return output.fail([trust.problem]);
      if (trust.keys.length === 0) return output.fail(["--key: is required"]);
      const given = readReceiptOrReport(file, output);
      if (given !== undefined) verify(given, trust, output);
    });
}

interface Given {
  readonly receipt: GivenReceipt;
  /** The answer around it; absent where the file holds the receipt alone. */
  readonly answer?: unknown;
}

function readReceiptOrReport(file: string, output: Output): Given | undefined {
  let value: unknown;
  try {
    value = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(readFileSync(file)));
  } catch (error) {
    const isOfFile = error instanceof Error && "code" in error && error.code !== "ERR_ENCODING_INVALID_ENCODED_DATA";
    const code = isOfFile ? ` (${String(error.code)})` : ": it is not JSON";
    output.fail([`${file}: cannot be read${code}`]);
    return undefined;
  }
  const receipt = findReceipt(value);
  if (receipt === undefined) {
    output.fail([`${file}: holds no receipt`]);
    return undefined;
  }
  return receipt === value ? { receipt } : { receipt, answer: value };
}

function verify({ receipt, answer }: Given, { keys, witnesses }: Trust, output: Output) {
  let verified: VerifiedReceipt;
  let cosigned: readonly Cosigned[];
  try {
    const { checkpoint } = parseTlogProof(receipt.proof);
    verified = verifyReceipt(receipt, openWithAny(checkpoint, keys).verifier);
    cosigned = witnesses === undefined ? [] : requireQuorum(checkpoint, witnesses, systemClock.now());
  } catch (error) {
    if (!(error instanceof NoteError)) throw error;
    return output.fail([error.message]);
  }
  const { leafIndex, treeSize, root, record } = verified;
  const checksAnswer = answer !== undefined && record !== undefined;
  const differences = checksAnswer ? answerDifferences(answer, record) : [];
  if (differences.length > 0)
    return output.fail(differences.map((path) => `the answer's ${path} is not what its record says`));
  const proves = record === undefined ? "position" : "record";
  const position = `leaf ${leafIndex} of ${treeSize} in ${receipt.log_origin}`;
  output.succeed(
    {
      proves,
      answer: checksAnswer ? "agrees" : "not_checked",
      log_origin: receipt.log_origin,
      leaf_index: leafIndex,
      tree_size: treeSize,
      root: formatBase64(root),
      witnesses: cosignedMembers(cosigned),
      record,
    },
    record === undefined
      ? `position only: ${position}; the receipt does not show which record that is`
      : `${position} is exactly this record:\n${JSON.stringify(record, undefined, 2)}\n` +
          (checksAnswer ? "the answer says the same" : "only the receipt was checked: the file holds no answer"),
  );
}
