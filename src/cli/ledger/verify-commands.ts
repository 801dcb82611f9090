/** `ledger verify` and `receipt verify`, and the keys that a verification trusts. */

import { readFileSync } from "node:fs";
import { systemClock } from "../../base/clock.ts";
import { hasRepeatedMember, orUndefined, parseJson } from "../../base/json.ts";
import { formatBase64 } from "../../base/text-forms.ts";
import {
  answerDifferences,
  answerParts,
  evaluationDifferences,
  isOfEvaluation,
  wholeDifferences,
} from "../../domain/lineage/answer-check.ts";
import { cosignedMembers } from "../../domain/lineage/report.ts";
import { codeText } from "../../files/file-system.ts";
import {
  type Audit,
  type AuditProblem,
  auditLog,
  type EarlierTree,
  rotationProblem,
} from "../../ledger/audit/audit.ts";
import { companionChecks, describeOrphans, policyCheck } from "../../ledger/audit/companions.ts";
import { describeUndone, undoneRemedy } from "../../ledger/audit/undone-erasures.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import { findReceipt, type GivenReceipt, type VerifiedReceipt, verifyReceipt } from "../../ledger/record/receipt.ts";
import { type LogVerifier, parseCheckpoint } from "../../ledger/tlog/checkpoint.ts";
import { NoteError } from "../../ledger/tlog/note.ts";
import { formatVerifierKey } from "../../ledger/tlog/note-keys.ts";
import { parseTlogProof } from "../../ledger/tlog/tlog-proof.ts";
import { openWithAny, parseTrustedKey } from "../../ledger/tlog/trusted-key.ts";
import {
  type Cosigned,
  parseCosignerKey,
  requireQuorum,
  type WitnessQuorum,
} from "../../ledger/witness/cosignature.ts";
import type { OperatorArchive } from "../../stores/sql/archive.ts";
import { command, gather } from "../frame/command.ts";
import { logsOf, withArchive } from "../frame/store.ts";
import { type Answer, type Progress, Refusal } from "../frame/terminal.ts";

/** Verifies every log of the store, and that it continues from its anchor. */
export const ledgerVerifyCommand = command({
  name: "ledger verify",
  says: "walk whole logs: every leaf, record, tile and root, rotations of the key, the anchor, and what stands beside",
  options: {
    "--tenant <tenant>": "this tenant's log only",
    "--against <file>": {
      says: "an older checkpoint or receipt of a log, which must only have grown since; several times for several",
      parse: gather,
    },
    ...trustFlags("with --against, a verifier key that must have signed it; the keys of the store otherwise"),
  },
  run(context) {
    const { options, progress } = context;
    const trust = readTrust(options);
    if (options.against === undefined && (trust.keys.length > 0 || trust.witnesses !== undefined))
      throw new Refusal("--key, --witness: are about what --against names");
    return withArchive(context, async ({ archive }) => {
      const logs = await logsOf(archive, options.tenant);
      const earlier = readEarlier(options.against ?? [], logs, await archive.signingKeys(), trust);
      return verify(archive, logs, earlier, options.tenant, progress);
    });
  },
});

/** The older states, each of one of the logs. Throws a Refusal that names invalid or untrusted ones. */
function readEarlier(
  files: readonly string[],
  logs: readonly LogState[],
  signingKeys: readonly Uint8Array[],
  { keys, witnesses }: Trust,
): readonly EarlierState[] {
  const ownKeys = (origin: string) =>
    signingKeys.flatMap((key) => parseTrustedKey(formatVerifierKey(origin, key)) ?? []);
  try {
    return files.map((file) => {
      const state = readEarlierState(file, (origin) => (keys.length > 0 ? keys : ownKeys(origin)));
      if (!logs.some(({ origin }) => origin === state.origin))
        throw new NoteError(`${file}: is of ${state.origin}, which is not one of these logs`);
      if (witnesses !== undefined) requireQuorum(state.note, witnesses, systemClock.now());
      return state;
    });
  } catch (error) {
    if (!(error instanceof NoteError)) throw error;
    throw new Refusal(`--against: ${error.message}`);
  }
}

async function verify(
  archive: OperatorArchive,
  logs: readonly LogState[],
  earlier: readonly EarlierState[],
  tenant: string | undefined,
  progress: Progress,
): Promise<Answer> {
  const policies = policyCheck((revision) => archive.policyRevision(revision));
  const audits: AuditedHead[] = [];
  for (const [position, head] of logs.entries()) {
    const onProgress = (leaves: number) => progress(`log ${position + 1} of ${logs.length}: ${leaves} of ${head.size}`);
    const own = earlier.filter(({ origin }) => origin === head.origin);
    const checks = companionChecks(await archive.companions(head), head, systemClock.now());
    const options = { onProgress, earlier: own, checks: [...checks, policies] };
    const audit = await auditLog(archive, head, options);
    const problem = audit.problem ?? rotationProblem(audit, await archive.keysOfLog(head));
    const beside = checks.flatMap((check) => check.problems);
    audits.push({ head, audit: { ...audit, ...(problem && { problem }) }, earlier: own, beside });
  }
  if (tenant === undefined) for (const revision of await archive.policyRevisions()) await policies.look(revision);
  const isMeant = ({ tenantId }: { readonly tenantId: string | undefined }) => (tenant ?? tenantId) === tenantId;
  const anchored = await archive.anchorProblems();
  const problems = anchored.filter((one) => one.tenantId === undefined || isMeant(one)).map(({ message }) => message);
  const policyProblems = policies.problems.map(({ message }) => message);
  const undone = (await archive.undoneErasures()).filter(isMeant);
  const orphans = describeOrphans((await archive.orphanRows()).filter(isMeant));
  const value = {
    logs: audits.map(describe),
    stray_rows: orphans,
    policy_problems: policyProblems,
    anchor_problems: problems,
    returned_erasures: undone.length,
  };
  const wrong = audits.flatMap(({ head, audit, beside }) =>
    [...(audit.problem === undefined ? [] : [audit.problem]), ...beside].map(
      ({ message }) => `${head.origin}: ${message}`,
    ),
  );
  const text = audits.map(line).join("\n");
  const came = describeUndone(undone).map((line) => `${line}; ${undoneRemedy}`);
  const all = [...wrong, ...orphans, ...policyProblems, ...problems, ...came];
  return { value, text: text === "" && all.length === 0 ? "there are no logs" : text, problems: all };
}

interface AuditedHead {
  readonly head: LogState;
  readonly audit: Audit;
  /** States that the log was compared with. */
  readonly earlier: readonly EarlierState[];
  /** Problems of rows beside the log. */
  readonly beside: readonly AuditProblem[];
}

function describe({ head, audit, earlier, beside }: AuditedHead) {
  return {
    tenant_id: head.tenantId,
    origin: head.origin,
    leaves: audit.leaves,
    erased: audit.erased,
    root: formatBase64(audit.root),
    beside_problems: beside.map(({ message }) => message),
    ...(audit.problem === undefined
      ? { grown_since: earlier.map(({ source, size }) => ({ file: source, tree_size: size })) }
      : { problem: audit.problem.message, first_bad_index: audit.problem.leafIndex }),
  };
}

function line({ head, audit: { leaves, erased, root, problem }, earlier, beside }: AuditedHead): string {
  const found = problem === undefined && beside.length === 0 ? "ok" : "WRONG";
  const grown =
    problem === undefined ? earlier.map(({ size, source }) => `, only added to since ${size} leaves (${source})`) : [];
  return `${found} ${head.origin} (tenant ${head.tenantId}): ${leaves} leaves, ${erased} erased, root ${formatBase64(root)}${grown.join("")}`;
}

/** A tree that was published before: of an old checkpoint or an old receipt. */
interface EarlierState extends EarlierTree {
  readonly origin: string;
  /** The signed checkpoint. */
  readonly note: string;
}

/** Most bytes of a checkpoint or receipt. */
const maxFileBytes = 16 * 1024 * 1024;

/**
 * Reads a checkpoint, a receipt, or an answer that carries one. Throws a NoteError that names the file if it contains
 * none, if no key of the log signed it, or if the receipt is invalid.
 *
 * @param keysOf the trusted keys of a log, by its origin
 */
function readEarlierState(file: string, keysOf: (origin: string) => readonly LogVerifier[]): EarlierState {
  const bytes = readBytes(file);
  if (bytes.length > maxFileBytes) throw new NoteError(`${file}: is too large for a checkpoint or a receipt`);
  try {
    const text = bytes.toString("utf8");
    const receipt = findReceipt(readJson(bytes));
    const note = receipt === undefined ? text : parseTlogProof(receipt.proof).checkpoint;
    const { checkpoint, verifier } = openWithAny(note, keysOf(parseCheckpoint(note).origin));
    if (receipt !== undefined) verifyReceipt(receipt, verifier);
    return { ...checkpoint, note, source: file };
  } catch (error) {
    if (error instanceof NoteError) throw new NoteError(`${file}: ${error.message}`);
    throw error;
  }
}

function readBytes(file: string): Buffer {
  try {
    return readFileSync(file);
  } catch (error) {
    throw new NoteError(`${file}: cannot be read${codeText(error)}`);
  }
}

/** Undefined if the bytes are not JSON: they may be a checkpoint. */
function readJson(bytes: Uint8Array): unknown {
  return orUndefined(() => parseJson(new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes)));
}

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
    return verifyFile(read(file), trust);
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
  const bytes = readBytes(file);
  const answer = readJson(bytes);
  if (answer === undefined) throw new Refusal(`${file}: cannot be read: it is not JSON`);
  // Readers differ in which of two values they take.
  if (hasRepeatedMember(bytes.toString("utf8"), answer))
    throw new Refusal(`${file}: has an object with two members of the same name`);
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
  const verified = verifyReceipt(receipt, openWithAny(checkpoint, keys).verifier, keys);
  const cosigned = witnesses === undefined ? [] : requireQuorum(checkpoint, witnesses, systemClock.now());
  const { record } = verified;
  const isCompared = answer !== undefined && record !== undefined;
  const compare = record !== undefined && isOfEvaluation(record) ? evaluationDifferences : answerDifferences;
  const differences = isCompared ? compare(answer, record, path).map((member) => path + member) : [];
  return { ...verified, path, receipt, cosigned, isCompared, differences };
}

function verifyFile({ answer, given }: File, trust: Trust): Answer {
  const checked = given.map((each) => check(each, trust));
  const records = checked.flatMap(({ record }) => record ?? []);
  const isWhole = records.length === checked.length && checked.every(({ isCompared }) => isCompared);
  const differences = [
    ...checked.flatMap((each) => each.differences),
    ...(isWhole ? wholeDifferences(answer, records) : []),
  ];
  if (differences.length > 0)
    throw new Refusal([...new Set(differences)].map((path) => `the answer's ${path} is not what its record says`));
  const [only, ...others] = checked.map(membersOf);
  // A receipt in an answer vouches for it: without the record it does not.
  const brief = given.filter(({ receipt, answer }) => receipt.record === undefined && answer !== undefined);
  return {
    value: others.length === 0 ? (only ?? {}) : { parts: [only, ...others] },
    text: checked.map((each) => each.path + textOf(each)).join("\n"),
    problems: brief.map(({ path }) => `${path}receipt is brief: the answer was not compared with its record`),
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

// Options that name the trusted keys of a verification.

interface TrustOptions {
  readonly key?: readonly string[];
  readonly witness?: readonly string[];
  readonly quorum?: string;
}

/** Trusted keys and witnesses. */
interface Trust {
  readonly keys: readonly LogVerifier[];
  /** Undefined if no witness is required. */
  readonly witnesses: WitnessQuorum | undefined;
}

/** `--key`, `--witness` and `--quorum`. */
export function trustFlags(keySays: string) {
  return {
    "--key <vkey>": { says: keySays, parse: gather },
    "--witness <vkey>": {
      says: "a verifier key of a witness that must have cosigned the checkpoint; several times for several",
      parse: gather,
    },
    "--quorum <count>": "number of witnesses that are enough (default: all)",
  } as const;
}

/** Reads the options. Throws a Refusal with their problems. */
function readTrust({ key = [], witness = [], quorum }: TrustOptions): Trust {
  const keys = key.map(parseTrustedKey);
  if (keys.includes(undefined))
    throw new Refusal("--key: is not a verifier key (name+id+key, C2SP signed-note; @size behind a retired one)");
  const witnesses = witness.map(parseCosignerKey);
  if (witnesses.includes(undefined))
    throw new Refusal("--witness: is not a verifier key of Ed25519 cosignatures (name+id+key, type 4)");
  // One key under two names would count twice.
  const publicKeys = witness.map((vkey) => vkey.split("+").slice(2).join("+"));
  if (new Set(publicKeys).size < publicKeys.length) throw new Refusal("--witness: names a key twice");
  if (quorum !== undefined && witness.length === 0) throw new Refusal("--quorum: needs --witness");
  const count = quorum === undefined ? witness.length : Number(quorum);
  if (quorum !== undefined && !(/^[1-9][0-9]*$/.test(quorum) && count <= witness.length))
    throw new Refusal(`--quorum: must be 1 to ${witness.length}, the number of witnesses`);
  return {
    keys: keys as Trust["keys"],
    witnesses: witness.length === 0 ? undefined : { witnesses: witnesses as WitnessQuorum["witnesses"], quorum: count },
  };
}

/** The same for a command that has no other keys. */
export function requireTrust(options: TrustOptions): Trust {
  const trust = readTrust(options);
  if (trust.keys.length === 0) throw new Refusal("--key: is required");
  return trust;
}
