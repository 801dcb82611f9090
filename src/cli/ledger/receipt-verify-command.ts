import { readFileSync } from "node:fs";
import { systemClock } from "../../base/clock.ts";
import { formatBase64 } from "../../base/text-forms.ts";
import { answerDifferences } from "../../domain/lineage/answer-check.ts";
import {
  answerParts,
  evaluationDifferences,
  isOfEvaluation,
  wholeDifferences,
} from "../../domain/lineage/authzen-check.ts";
import { cosignedMembers } from "../../domain/lineage/report.ts";
import { findReceipt, type GivenReceipt, type VerifiedReceipt, verifyReceipt } from "../../ledger/record/receipt.ts";
import { NoteError } from "../../ledger/tlog/note.ts";
import { parseTlogProof } from "../../ledger/tlog/tlog-proof.ts";
import { openWithAny } from "../../ledger/tlog/trusted-key.ts";
import { type Cosigned, requireQuorum } from "../../ledger/witness/cosignature.ts";
import { command } from "../frame/command.ts";
import { type Answer, Refusal } from "../frame/output.ts";
import { requireTrust, type Trust, trustFlags } from "./trust-options.ts";

/** Needs only the receipt and the trusted key. */
export const receiptVerifyCommand = command({
  name: "ledger receipt verify",
  says: "check offline that a log holds exactly the record of a receipt, and that the answer says the same",
  arguments: { "<file>": "a receipt as JSON, or an answer of the service that carries one" },
  options: trustFlags(
    "a trusted verifier key of the log: never from the receipt; several times if keys were rotated, a retired one with @ and the size that it counts up to",
  ),
  run({ options, args: [file = ""] }) {
    const trust = requireTrust(options);
    return verify(read(file), trust);
  },
});

interface Given {
  /** Its place in the answer, such as `evaluations[2].`. */
  readonly path: string;
  readonly receipt: GivenReceipt;
  /** The answer around it; absent if the file has only the receipt. */
  readonly answer?: unknown;
}

interface File {
  readonly answer: unknown;
  readonly given: readonly [Given, ...Given[]];
}

function read(file: string): File {
  let answer: unknown;
  try {
    answer = JSON.parse(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(readFileSync(file)));
  } catch (error) {
    const isOfFile = error instanceof Error && "code" in error && error.code !== "ERR_ENCODING_INVALID_ENCODED_DATA";
    const code = isOfFile ? ` (${String(error.code)})` : ": it is not JSON";
    throw new Refusal(`${file}: cannot be read${code}`);
  }
  const parts = answerParts(answer);
  const given = parts.flatMap(({ path, answer: part }): readonly Given[] => {
    const receipt = findReceipt(part);
    if (receipt === undefined) return [];
    return [receipt === part ? { path, receipt } : { path, receipt, answer: part }];
  });
  const [first, ...others] = given;
  if (first !== undefined && given.length === parts.length) return { answer, given: [first, ...others] };
  const without = parts.find(({ answer: part }) => findReceipt(part) === undefined)?.path ?? "";
  throw new Refusal(`${file}: ${without === "" ? "" : `${without.slice(0, -1)} `}holds no receipt`);
}

/** A verified receipt, and the differences between its record and the answer around it. */
interface Checked extends VerifiedReceipt {
  readonly path: string;
  readonly receipt: GivenReceipt;
  readonly cosigned: readonly Cosigned[];
  readonly isCompared: boolean;
  readonly differences: readonly string[];
}

function check({ path, receipt, answer }: Given, { keys, witnesses }: Trust): Checked {
  const { checkpoint } = parseTlogProof(receipt.proof);
  const verified = verifyReceipt(receipt, openWithAny(checkpoint, keys).verifier);
  const cosigned = witnesses === undefined ? [] : requireQuorum(checkpoint, witnesses, systemClock.now());
  const { record } = verified;
  const isCompared = answer !== undefined && record !== undefined;
  const compare = record !== undefined && isOfEvaluation(record) ? evaluationDifferences : answerDifferences;
  const differences = isCompared ? compare(answer, record).map((member) => path + member) : [];
  return { ...verified, path, receipt, cosigned, isCompared, differences };
}

function verify({ answer, given }: File, trust: Trust): Answer {
  let checked: readonly Checked[];
  try {
    checked = given.map((each) => check(each, trust));
  } catch (error) {
    if (!(error instanceof NoteError)) throw error;
    throw new Refusal(error.message);
  }
  const records = checked.flatMap(({ record }) => record ?? []);
  const isWhole = records.length === checked.length && checked.every(({ isCompared }) => isCompared);
  const differences = [
    ...checked.flatMap((each) => each.differences),
    ...(isWhole ? wholeDifferences(answer, records) : []),
  ];
  if (differences.length > 0)
    throw new Refusal([...new Set(differences)].map((path) => `the answer's ${path} is not what its record says`));
  const [only, ...others] = checked.map(membersOf);
  return {
    value: others.length === 0 ? (only ?? {}) : { parts: [only, ...others] },
    text: checked.map((each) => each.path + textOf(each)).join("\n"),
  };
}

function membersOf({ record, receipt, isCompared, leafIndex, treeSize, root, cosigned }: Checked) {
  return {
    proves: record === undefined ? "position" : "record",
    answer: isCompared ? "agrees" : "not_checked",
    log_origin: receipt.log_origin,
    leaf_index: leafIndex,
    tree_size: treeSize,
    root: formatBase64(root),
    witnesses: cosignedMembers(cosigned),
    record,
  };
}

function textOf({ record, receipt, isCompared, leafIndex, treeSize }: Checked): string {
  const position = `leaf ${leafIndex} of ${treeSize} in ${receipt.log_origin}`;
  if (record === undefined) return `position only: ${position}; the receipt does not show which record that is`;
  return (
    `${position} is exactly this record:\n${JSON.stringify(record, undefined, 2)}\n` +
    (isCompared ? "the answer says the same" : "only the receipt was checked: the file has no answer")
  );
}
