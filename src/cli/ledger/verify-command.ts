import type { Command } from "commander";
import { systemClock } from "../../base/clock.ts";
import { formatBase64 } from "../../base/text-forms.ts";
import { type Audit, auditLog } from "../../ledger/audit/audit.ts";
import { companionChecks, describeOrphans, PolicyCheck } from "../../ledger/audit/companions.ts";
import type { AuditProblem } from "../../ledger/audit/finding.ts";
import { rotationProblem } from "../../ledger/audit/rotation-audit.ts";
import { describeUndone, undoneRemedy } from "../../ledger/audit/undone-erasures.ts";
import type { StoreArchive } from "../../ledger/ports/archive.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import { NoteError } from "../../ledger/tlog/note.ts";
import { formatVerifierKey } from "../../ledger/tlog/note-keys.ts";
import { parseTrustedKey } from "../../ledger/tlog/trusted-key.ts";
import { requireQuorum } from "../../ledger/witness/cosignature.ts";
import { type CommonOptions, withCommonOptions } from "../options.ts";
import { createOutput, type Output } from "../output.ts";
import { createProgress, type Terminal } from "../terminal.ts";
import { type EarlierState, readEarlierState } from "./earlier-trees.ts";
import { logsOrReport, withStoreOrReport } from "./store.ts";
import { readTrust, type Trust, type TrustOptions, withTrustOptions } from "./trust-options.ts";

interface VerifyOptions extends CommonOptions, TrustOptions {
  readonly tenant?: string;
  readonly against?: readonly string[];
}

/** `ledger verify`: whether every log of the store is sound, and goes on from its anchor. */
export function addLedgerVerifyCommand(ledger: Command, terminal: Terminal): void {
  const command = withCommonOptions(ledger.command("verify"))
    .description(
      "walk whole logs: every leaf, record, tile and root, rotations of the key, the anchor, and what stands beside",
    )
    .option("--tenant <tenant>", "this tenant's log only")
    .option(
      "--against <file>",
      "an older checkpoint or receipt of a log, which must only have grown since; several times for several",
      (file: string, files: readonly string[] = []) => [...files, file],
    );
  withTrustOptions(
    command,
    "with --against, a verifier key that must have signed it; the keys of the store otherwise",
  ).action((options: VerifyOptions) => {
    const output = createOutput(options.json === true, terminal);
    const trust = readTrust(options);
    if ("problem" in trust) return output.fail([trust.problem]);
    if (options.against === undefined && (trust.keys.length > 0 || trust.witnesses !== undefined))
      return output.fail(["--key, --witness: are about what --against names"]);
    return withStoreOrReport(options, output, async ({ archive }) => {
      const logs = await logsOrReport(archive, options.tenant, output);
      if (logs === undefined) return;
      const signingKeys = await archive.signingKeys();
      const earlier = readEarlierOrReport(options.against ?? [], logs, signingKeys, trust, output);
      if (earlier !== undefined) await verify({ archive, logs, earlier }, options.tenant, output, terminal);
    });
  });
}

/** The older states, each of one of the logs; where one is none, or is not to be believed, reports it. */
function readEarlierOrReport(
  files: readonly string[],
  logs: readonly LogState[],
  signingKeys: readonly Uint8Array[],
  { keys, witnesses }: Trust,
  output: Output,
): readonly EarlierState[] | undefined {
  const ownKeys = (origin: string) =>
    signingKeys.flatMap((key) => parseTrustedKey(formatVerifierKey(origin, key)) ?? []);
  try {
    return files.map((file) => {
      const state = readEarlierState(file, (origin) => (keys.length > 0 ? keys : ownKeys(origin)));
      if (!logs.some(({ origin }) => origin === state.origin))
        throw new NoteError(`${file}: is of ${state.origin}, which is none of these logs`);
      if (witnesses !== undefined) requireQuorum(state.note, witnesses, systemClock.now());
      return state;
    });
  } catch (error) {
    if (!(error instanceof NoteError)) throw error;
    output.fail([`--against: ${error.message}`]);
    return undefined;
  }
}

/** What is verified. */
interface Verified {
  readonly archive: StoreArchive;
  readonly logs: readonly LogState[];
  readonly earlier: readonly EarlierState[];
}

async function verify(
  { archive, logs, earlier }: Verified,
  tenant: string | undefined,
  output: Output,
  terminal: Terminal,
) {
  const progress = createProgress(terminal);
  const policies = new PolicyCheck((revision) => archive.policyRevision(revision));
  const audits: AuditedHead[] = [];
  for (const [position, head] of logs.entries()) {
    const onProgress = (leaves: number) =>
      progress.show(`log ${position + 1} of ${logs.length}: ${leaves} of ${head.size}`);
    const own = earlier.filter(({ origin }) => origin === head.origin);
    const checks = companionChecks(await archive.companions(head), head, systemClock.now());
    const options = { onProgress, earlier: own, checks: [...checks, policies] };
    const audit = withKeys(await auditLog(archive.log(head), options), await archive.signingKeys(head));
    audits.push({ head, audit, earlier: own, beside: checks.flatMap((check) => check.problems) });
  }
  if (tenant === undefined) for (const revision of await archive.policyRevisions()) await policies.look(revision);
  progress.done();
  const problems = (await archive.anchorProblems())
    .filter(({ tenantId }) => tenant === undefined || tenantId === undefined || tenantId === tenant)
    .map(({ message }) => message);
  const policyProblems = policies.problems.map(({ message }) => message);
  const undone = (await archive.undoneErasures()).filter(({ tenantId }) => tenant === undefined || tenantId === tenant);
  const orphans = describeOrphans(
    (await archive.orphanRows()).filter(({ tenantId }) => tenant === undefined || tenantId === tenant),
  );
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
  if (all.length === 0) output.succeed(value, text === "" ? "there are no logs" : text);
  else output.fail(all, value, text);
}

/** Adds what the log's rotations say against the keys that have signed. */
function withKeys(audit: Audit, signingKeys: readonly Uint8Array[]): Audit {
  const problem = audit.problem ?? rotationProblem(audit, signingKeys);
  return problem === undefined ? audit : { ...audit, problem };
}

interface AuditedHead {
  readonly head: LogState;
  readonly audit: Audit;
  /** States that the log was compared with. */
  readonly earlier: readonly EarlierState[];
  /** What is wrong with rows that stand beside the log. */
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
