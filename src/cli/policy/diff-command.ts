import { type Command, InvalidArgumentError } from "commander";
import { systemClock } from "../../base/clock.ts";
import { parseTenantId } from "../../base/ids.ts";
import { parseDecimal } from "../../base/text-forms.ts";
import { parseTimestamp } from "../../base/timestamps.ts";
import type { RecordedComparison } from "../../domain/recorded-differences.ts";
import { compareBundles, type PolicyChange, type PolicyComparison } from "../../policy/diff/compare.ts";
import type { CompiledEngine } from "../../policy/engine/bundle-engine.ts";
import type { PolicyBundle } from "../../policy/load/bundle.ts";
import type { ProofOutcome } from "../../policy/prove/prove.ts";
import type { WrittenQuestion } from "../../policy/samples/question.ts";
import { storeBackend } from "../../stores/backends.ts";
import { interruptible } from "../interruptible.ts";
import { type CommonOptions, loadOrReport, storeProblem, withCommonOptions } from "../options.ts";
import { createOutput, type Output } from "../output.ts";
import { createProgress, type Terminal } from "../terminal.ts";
import { comparisonMembers, comparisonText, recordedMembers, recordedText } from "./diff-text.ts";
import { type CompiledDirectory, compileOrReport, readTestsOrReport } from "./directory.ts";
import { heldTo, isDecided, isProven, proofMembers, proofText, withFound } from "./proof-text.ts";
import { askProver } from "./prover-process.ts";

interface DiffOptions extends CommonOptions {
  readonly since?: number;
  readonly tenant?: string;
  readonly maxChanges?: number;
  readonly sampled?: boolean;
  readonly prove?: boolean;
  readonly prover?: string;
  readonly solverTimeout?: number;
}

/** What the process ends with, besides 0. */
const exitCodes = { tooManyChanges: 1, notCompared: 2, notExhaustive: 3, noProver: 4 } as const;

const defaultProver = "policy-prover";
const defaultTimeoutSeconds = 30;

/** `policy diff`: what would be decided differently under another policy directory. */
export function addPolicyDiffCommand(policy: Command, terminal: Terminal): void {
  withCommonOptions(policy.command("diff"))
    .argument("<old>", "policy directory")
    .argument("<new>", "policy directory to take its place")
    .option(
      "--since <time>",
      "also ask recorded decisions: of the last 7d or 12h, or since an RFC 3339 time",
      parseSince,
    )
    .option("--tenant <id>", "recorded decisions of this tenant only")
    .option("--max-changes <number>", "end with 1 only if there are more differences (default: 0)", parseCount)
    .option("--sampled", "end with 0 if no question that was asked is decided differently, without a proof")
    .option("--prove", "also have a solver prove that every request is decided alike, or find one that is not")
    .option("--prover <program>", `program that --prove asks (default: ${defaultProver}, on the PATH)`)
    .option(
      "--solver-timeout <seconds>",
      `how long the solver may look at one statement (default: ${defaultTimeoutSeconds})`,
      parseTimeout,
    )
    .description("show which requests a changed policy directory decides differently, with examples")
    .action(async (old: string, next: string, options: DiffOptions) => {
      const output = createOutput(options.json === true, terminal);
      // A failure is one of the comparison, until there is one.
      const failing: Output = {
        ...output,
        fail(...said) {
          output.fail(...said);
          terminal.exitCode(exitCodes.notCompared);
        },
      };
      const directories: CompiledDirectory[] = [];
      try {
        for (const directory of [old, next]) {
          const compiled = await compileOrReport(directory, options, failing);
          if (compiled === undefined) return;
          directories.push(compiled);
        }
        const [from, to] = directories as [CompiledDirectory, CompiledDirectory];
        const [before, after] = [from.engine, to.engine];
        if (options.prove !== true) {
          const needless = options.prover === undefined ? options.solverTimeout && "--solver-timeout" : "--prover";
          if (needless !== undefined) return failing.fail([`${needless}: is about --prove`]);
        }
        const recorded = await recordedOrReport([before, after], options, failing, terminal);
        if (recorded === "failed") return;
        const tests: WrittenQuestion[] = [];
        for (const { directory } of [from, to]) {
          const own = await readTestsOrReport(directory, failing);
          if (own === undefined) return;
          tests.push(...own.map(({ question }) => question));
        }
        const compared = compareBundles(from.bundle, to.bundle, tests);
        const proof = await proofOrUndefined(from.bundle, to.bundle, compared.changes, options, terminal);
        report(compared, proof, recorded, [before, after], options, output, terminal);
      } finally {
        for (const { engine } of directories) engine.release();
      }
    });
}

function parseSince(text: string): number {
  const [, number, unit] = /^(\d{1,5})([dh])$/.exec(text) ?? [];
  const hours = Number(number) * (unit === "d" ? 24 : 1);
  const sinceMs = number === undefined ? parseTimestamp(text) : systemClock.now() - hours * 3_600_000;
  if (sinceMs === undefined) throw new InvalidArgumentError("must be like 7d, 12h or 2026-01-31T00:00:00Z");
  return sinceMs;
}

function parseCount(text: string): number {
  const count = parseDecimal(text);
  if (count === undefined) throw new InvalidArgumentError("must be a whole number");
  return count;
}

function parseTimeout(text: string): number {
  const seconds = parseDecimal(text) ?? 0;
  if (seconds < 1 || seconds > 86_400) throw new InvalidArgumentError("must be a whole number from 1 to 86400");
  return seconds;
}

/** Undefined where recorded decisions are not asked for. */
async function recordedOrReport(
  engines: readonly [CompiledEngine, CompiledEngine],
  options: DiffOptions,
  output: Output,
  terminal: Terminal,
): Promise<RecordedComparison | "failed" | undefined> {
  const { since, tenant } = options;
  const fail = (problem: string) => {
    output.fail([problem]);
    return "failed" as const;
  };
  if (since === undefined) return tenant === undefined ? undefined : fail("--tenant: is about --since");
  const tenantId = tenant === undefined ? undefined : parseTenantId(tenant);
  if (tenant !== undefined && tenantId === undefined) return fail("--tenant: is no tenant id");
  const settings = loadOrReport("policy_replay", options, output);
  if (settings === undefined) return "failed";
  const progress = createProgress(terminal);
  try {
    const archive = await (await storeBackend(settings)).openArchive();
    try {
      // Loaded here, so that no other command pays for it.
      const { compareRecorded } = await import("../../domain/recorded-differences.ts");
      const tenants = tenantId === undefined ? (await archive.logs()).map((log) => log.tenantId) : [tenantId];
      return await compareRecorded(archive, tenants, since, engines, (count) => {
        if (count % 1_000 === 0) progress.show(`${count} recorded decisions`);
      });
    } finally {
      progress.done();
      await archive.close();
    }
  } catch (error) {
    return fail(storeProblem(error));
  }
}

/** Undefined where no proof is asked for. */
async function proofOrUndefined(
  old: PolicyBundle,
  next: PolicyBundle,
  known: readonly PolicyChange[],
  { prove, prover = defaultProver, solverTimeout = defaultTimeoutSeconds }: DiffOptions,
  terminal: Terminal,
): Promise<ProofOutcome | undefined> {
  // Loaded here, so that no other command pays for it.
  const { proveEqual } = await import("../../policy/prove/prove.ts");
  if (prove !== true) {
    // A refactoring of layout, ids or order is equal by its form, which needs no solver.
    const byForm = await proveEqual(old, next, 0, async () => ({ missing: "not asked" }), known);
    return "missing" in byForm || !isProven(byForm) ? undefined : byForm;
  }
  const progress = createProgress(terminal);
  try {
    return await interruptible((signal) =>
      proveEqual(
        old,
        next,
        solverTimeout * 1_000,
        (request) => {
          const onAnswer = (answered: number) => progress.show(`${answered} of ${request.questions.length} statements`);
          return askProver(request, { program: prover, signal, onAnswer });
        },
        known,
      ),
    );
  } finally {
    progress.done();
  }
}

function report(
  searched: PolicyComparison,
  proof: ProofOutcome | undefined,
  recorded: RecordedComparison | undefined,
  [before, after]: readonly [CompiledEngine, CompiledEngine],
  { maxChanges = 0, sampled }: DiffOptions,
  output: Output,
  terminal: Terminal,
): void {
  const proven = proof === undefined || "missing" in proof ? undefined : heldTo(proof, searched);
  const compared = proven === undefined ? searched : withFound(searched, proven);
  // The same answer for other reasons is no difference.
  const seen = recorded?.changes.filter(({ kind }) => kind !== "reasons").length ?? 0;
  const changes = Math.max(compared.changes.length, seen);
  const isExhaustive = proven !== undefined && isDecided(proven);
  const value = {
    old_revision: before.revision,
    new_revision: after.revision,
    changes,
    exhaustive: isExhaustive,
    ...comparisonMembers(compared),
    ...(proven !== undefined && { proof: proofMembers(proven) }),
    ...(recorded !== undefined && { recorded: recordedMembers(recorded) }),
  };
  const text = [
    `from ${before.revision} to ${after.revision}`,
    comparisonText(compared),
    ...(proven === undefined ? [] : [proofText(proven)]),
    ...(recorded === undefined ? [] : [recordedText(recorded)]),
  ].join("\n");
  const end = (code: number, problem: string) => {
    output.fail([problem], value, text);
    terminal.exitCode(code);
  };
  if (proof !== undefined && "missing" in proof) end(exitCodes.noProver, `--prove: ${proof.missing}`);
  else if (changes > maxChanges) end(exitCodes.tooManyChanges, tooMany(changes, maxChanges));
  else if (isExhaustive || sampled === true) output.succeed(value, text);
  else end(exitCodes.notExhaustive, proven === undefined ? unproven : "not everything was proven or refuted");
}

const unproven =
  "no proof: other questions may be decided differently; --prove asks a solver, --sampled accepts what was asked";

function tooMany(changes: number, allowed: number): string {
  const found = `${changes} ${changes === 1 ? "difference" : "differences"} found`;
  return allowed === 0 ? found : `--max-changes: ${allowed} allowed, ${found}`;
}
