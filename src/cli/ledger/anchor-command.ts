import { randomFillSync } from "node:crypto";
import { systemClock } from "../../base/clock.ts";
import { systemTimers } from "../../base/timers.ts";
import type { ConfigFor } from "../../config/config.ts";
import { auditLog } from "../../ledger/audit/audit.ts";
import type { LogState } from "../../ledger/ports/store.ts";
import { LogSigner } from "../../ledger/tlog/signer.ts";
import { trustedWitnesses } from "../../ledger/witness/http-witness.ts";
import { WitnessLog } from "../../ledger/witness/witness-log.ts";
import type { StoredArchive } from "../../stores/sql/archive.ts";
import { sqlitePaths } from "../../stores/sqlite/paths.ts";
import { command } from "../frame/command.ts";
import { readStatement, recordedStepFlags } from "../frame/confirmation.ts";
import { Refusal } from "../frame/output.ts";
import { logLine, logMembers } from "../frame/store.ts";
import { createProgress, type Terminal } from "../frame/terminal.ts";
import { readKeys } from "./checkpoint.ts";

const warning =
  "Nothing outside the store says any more that these states are the newest. If the store is an older copy, receipts " +
  "exist for records that it lacks, and what is signed from here on contradicts them permanently. Give " +
  "--accept-unproven-state if you know that it is the newest.";

/** Recovery of a store that lost its anchor. */
export const ledgerAnchorCommand = command({
  name: "ledger anchor adopt",
  says: "make a new anchor for a store that lost its own: audits every log, asks the witnesses, records it",
  options: {
    ...recordedStepFlags,
    "--accept-unproven-state": "the store is the newest there was, as far as you know; without it only look",
  },
  async run({ options, load, terminal }) {
    const config = load("anchor");
    const isVouched = options.acceptUnprovenState === true;
    // Before the long audit.
    if (isVouched && options.dryRun !== true) readStatement(options);
    if (config.store.kind !== "sqlite")
      throw new Refusal("SVC_STORE: beside PostgreSQL the next start makes a lost anchor file again");
    const paths = sqlitePaths(config.store.path, config);
    const { openSqliteArchive } = await import("../../stores/sqlite/operators.ts");
    const { adoptAnchor, anchorIsThere } = await import("../../stores/sqlite/adopt-anchor.ts");
    const archive = openSqliteArchive(paths);
    try {
      const there = anchorIsThere(paths.path, paths.anchorPath);
      if (there !== undefined) throw new Refusal(there);
      const heads = await archive.logs();
      const found = [...(await audit(archive, heads, terminal)), ...(await askWitnesses(archive, heads, config))];
      const logs = heads.map(logMembers);
      const lines = logs.map(logLine);
      const problems = found.length > 0 || isVouched ? found : [warning];
      if (problems.length > 0)
        throw new Refusal([...problems, "nothing was adopted"], { value: { logs }, text: lines.join("\n") });
      return {
        question: `Adopt ${logs.length} ${logs.length === 1 ? "log" : "logs"} as the newest, for good?`,
        preview: { value: { logs }, text: [...lines, "would be adopted"].join("\n") },
        async take(statement) {
          await adoptAnchor(
            { ...paths, clock: systemClock, random: (bytes) => randomFillSync(bytes), statement },
            heads,
          );
          const done = `${paths.anchorPath} is the anchor; every log has a leaf that says so`;
          return { value: { anchor: paths.anchorPath, logs }, text: [...lines, done].join("\n") };
        },
      };
    } finally {
      await archive.close();
    }
  },
});

async function audit(archive: StoredArchive, heads: readonly LogState[], terminal: Terminal): Promise<string[]> {
  const progress = createProgress(terminal);
  const problems: string[] = [];
  for (const head of heads) {
    const { problem } = await auditLog(archive.log(head), {
      onProgress: (leaves) => progress.show(`${head.origin}: ${leaves} leaves`),
    });
    if (problem !== undefined) problems.push(`${head.origin}: ${problem.message}`);
  }
  progress.done();
  return problems;
}

/** Every configured witness must find that every log continues the state that it has seen. */
async function askWitnesses(
  archive: StoredArchive,
  heads: readonly LogState[],
  { witnesses, ledgerKey }: Pick<ConfigFor<"anchor">, "witnesses" | "ledgerKey">,
): Promise<string[]> {
  const trusted = trustedWitnesses(witnesses, { fetch: globalThis.fetch, timers: systemTimers });
  if (trusted.length === 0) return [];
  const signer = new LogSigner(readKeys(ledgerKey));
  const problems: string[] = [];
  for (const log of heads) {
    const logs = {
      head: async () => log,
      consistencyProof: async (_name: string, first: number, second: number) =>
        (await archive.consistencyProof(log, first, second)) ?? [],
      sign: signer.sign.bind(signer),
    };
    for (const witness of trusted) {
      const atWitness = new WitnessLog(witness, log, undefined, { logs, clock: systemClock, onEnded: () => {} });
      await atWitness.submit();
      const { status } = atWitness;
      if (status.kind === "unsound") problems.push(status.message);
      if (status.kind === "failed")
        problems.push(`witness ${witness.verifier.name} says nothing of ${log.origin}: ${status.message}`);
    }
  }
  return problems;
}
