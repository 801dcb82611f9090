import type { Command } from "commander";
import type { StoreArchive } from "../ledger/archive.ts";
import { type Audit, auditLog } from "../ledger/audit.ts";
import { describeReturned, returnedRemedy } from "../ledger/returned.ts";
import { rotationProblem } from "../ledger/rotation-audit.ts";
import type { LogState } from "../ledger/store.ts";
import { formatBase64 } from "../ledger/text-forms.ts";
import { logsOrReport, withStoreOrReport } from "./ledger-store.ts";
import { type CommonOptions, withCommonOptions } from "./options.ts";
import { createOutput, type Output } from "./output.ts";
import { createProgress } from "./progress.ts";
import type { Terminal } from "./terminal.ts";

interface VerifyOptions extends CommonOptions {
  readonly tenant?: string;
}

/** `ledger verify`: whether every log of the store is sound, and goes on from its anchor. */
export function addLedgerVerifyCommand(ledger: Command, terminal: Terminal): void {
  withCommonOptions(ledger.command("verify"))
    .description("walk whole logs: every leaf, record, tile and root, rotations of the key, and the anchor")
    .option("--tenant <tenant>", "this tenant's log only")
    .action((options: VerifyOptions) => {
      const output = createOutput(options.json === true, terminal);
      return withStoreOrReport(options, output, async ({ archive }) => {
        const logs = await logsOrReport(archive, options.tenant, output);
        if (logs !== undefined) await verify(archive, logs, options.tenant, output, terminal);
      });
    });
}

async function verify(
  archive: StoreArchive,
  logs: readonly LogState[],
  tenant: string | undefined,
  output: Output,
  terminal: Terminal,
) {
  const progress = createProgress(terminal);
  const signingKeys = await archive.signingKeys();
  const audits: AuditedHead[] = [];
  for (const [position, head] of logs.entries()) {
    const show = (leaves: number) => progress.show(`log ${position + 1} of ${logs.length}: ${leaves} of ${head.size}`);
    audits.push({ head, audit: withKeys(await auditLog(archive.log(head), show), signingKeys) });
  }
  progress.done();
  const problems = (await archive.anchorProblems())
    .filter(({ tenantId }) => tenant === undefined || tenantId === undefined || tenantId === tenant)
    .map(({ message }) => message);
  const returned = (await archive.returnedErasures()).filter(
    ({ tenantId }) => tenant === undefined || tenantId === tenant,
  );
  const value = { logs: audits.map(describe), anchor_problems: problems, returned_erasures: returned.length };
  const wrong = audits.flatMap(({ head, audit }) =>
    audit.problem === undefined ? [] : [`${head.origin}: ${audit.problem.message}`],
  );
  const text = audits.map(({ head, audit }) => line(head, audit)).join("\n");
  const came = describeReturned(returned).map((line) => `${line}; ${returnedRemedy}`);
  if (problems.length + wrong.length + came.length === 0)
    output.succeed(value, text === "" ? "there are no logs" : text);
  else output.fail([...wrong, ...problems, ...came], value, text);
}

/** Adds what the log's rotations say against the keys that have signed. */
function withKeys(audit: Audit, signingKeys: readonly Uint8Array[]): Audit {
  const problem = audit.problem ?? rotationProblem(audit.rotations, signingKeys);
  return problem === undefined ? audit : { ...audit, problem };
}

interface AuditedHead {
  readonly head: LogState;
  readonly audit: Audit;
}

function describe({ head, audit }: AuditedHead) {
  return {
    tenant_id: head.tenantId,
    origin: head.origin,
    leaves: audit.leaves,
    erased: audit.erased,
    root: formatBase64(audit.root),
    ...(audit.problem !== undefined && {
      problem: audit.problem.message,
      first_bad_index: audit.problem.leafIndex,
    }),
  };
}

function line(head: LogState, { leaves, erased, root, problem }: Audit): string {
  const found = problem === undefined ? "ok" : "WRONG";
  return `${found} ${head.origin} (tenant ${head.tenantId}): ${leaves} leaves, ${erased} erased, root ${formatBase64(root)}`;
}
