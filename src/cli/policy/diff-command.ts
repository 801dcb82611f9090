/** `policy diff`: differences between two policy directories, and what was proven about them. */
import { InvalidArgumentError } from "commander";
import { systemClock } from "../../base/clock.ts";
import { parseDecimal, parseTimestamp } from "../../base/text-forms.ts";
import { listed, plural } from "../../base/visible-text.ts";
import type { RecordedChange, RecordedComparison } from "../../domain/replay.ts";
import {
  compareBundles,
  type PolicyChange,
  type PolicyComparison,
  type PolicySummary,
} from "../../policy/diff/compare.ts";
import type { Proof, ProofOutcome } from "../../policy/diff/prove.ts";
import { unnamedTenant } from "../../policy/diff/side.ts";
import type { CompiledEngine } from "../../policy/engine/engine.ts";
import type { PolicyBundle } from "../../policy/load/bundle.ts";
import type { Answered } from "../../policy/model/decision.ts";
import { type Context, command, type Values } from "../frame/command.ts";
import { inStore, logsOf, parseNames, withArchive } from "../frame/store.ts";
import { type Answer, Refusal } from "../frame/terminal.ts";
import { compileDirectory, readTests } from "./directory.ts";
import { askProver, interruptible } from "./prover-process.ts";

/** Exit codes besides 0. */
const exitCodes = { tooManyChanges: 1, notCompared: 2, notExhaustive: 3, noProver: 4 } as const;

const defaultProver = "policy-prover";
const defaultTimeoutSeconds = 30;

const flags = {
  "--since <time>": {
    says: "also ask recorded decisions: of the last 7d or 12h, or since an RFC 3339 time",
    parse: parseSince,
  },
  "--tenant <id>": "recorded decisions of this tenant only",
  "--max-changes <number>": { says: "end with 1 only if there are more differences (default: 0)", parse: parseCount },
  "--sampled": "end with 0 if no question that was asked is decided differently, without a proof",
  "--prove": "also have a solver prove that every request is decided alike, or find one that is not",
  "--prover <program>": `program that --prove asks (default: ${defaultProver}, on the PATH)`,
  "--solver-timeout <seconds>": {
    says: `how long the solver may look at one statement (default: ${defaultTimeoutSeconds})`,
    parse: parseTimeout,
  },
} as const;

type DiffOptions = Values<typeof flags>;

/** Differences between the decisions of two policy directories. */
export const policyDiffCommand = command({
  name: "policy diff",
  says: "show which requests a changed policy directory decides differently, with examples",
  arguments: { "<old>": "policy directory", "<new>": "policy directory to take its place" },
  options: flags,
  refusalCode: exitCodes.notCompared,
  async run(context) {
    const { options, args } = context;
    const from = await compileDirectory(args[0], context);
    const to = await compileDirectory(args[1], context);
    const engines = [from.engine, to.engine] as const;
    if (options.prove !== true) {
      const needless = options.prover === undefined ? options.solverTimeout && "--solver-timeout" : "--prover";
      if (needless !== undefined) throw new Refusal(`${needless}: is about --prove`);
    }
    const recorded = await compareRecords(engines, context);
    const tests = await Array.fromAsync([from, to], ({ directory }) => readTests(directory));
    const questions = tests.flat().map(({ question }) => question);
    const compared = compareBundles(from.bundle, to.bundle, questions);
    const proof = await proofOrUndefined(from.bundle, to.bundle, compared.ways, context);
    return answerOf(compared, proof, recorded, engines, options);
  },
});

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

/** Undefined if recorded decisions are not compared. */
async function compareRecords(
  engines: readonly [CompiledEngine, CompiledEngine],
  context: Context<DiffOptions>,
): Promise<RecordedComparison | undefined> {
  const { since, tenant } = context.options;
  if (since === undefined && tenant !== undefined) throw new Refusal("--tenant: is about --since");
  if (since === undefined) return undefined;
  const { tenantId } = parseNames({ tenant });
  return inStore(() =>
    withArchive(context, async ({ archive }) => {
      // Loaded here, so that other commands start faster.
      const { compareRecorded } = await import("../../domain/replay.ts");
      const tenants = (await logsOf(archive, tenantId)).map((log) => log.tenantId);
      return compareRecorded(archive, tenants, since, engines, (count) => {
        if (count % 1_000 === 0) context.progress(`${count} recorded decisions`);
      });
    }),
  );
}

/** Undefined if no proof is requested. */
async function proofOrUndefined(
  old: PolicyBundle,
  next: PolicyBundle,
  known: readonly PolicyChange[],
  { options: { prove, prover = defaultProver, solverTimeout = defaultTimeoutSeconds }, progress }: Context<DiffOptions>,
): Promise<ProofOutcome | undefined> {
  // Loaded here, so that other commands start faster.
  const { proveEqual } = await import("../../policy/diff/prove.ts");
  if (prove !== true) {
    // A change of layout, ids or order only is equal by its form, which needs no solver.
    const byForm = await proveEqual(old, next, 0, async () => ({ missing: "not asked" }), known);
    return "missing" in byForm || !isProven(byForm) ? undefined : byForm;
  }
  return interruptible((signal) =>
    proveEqual(
      old,
      next,
      solverTimeout * 1_000,
      (request) => {
        const onAnswer = (answered: number) => progress(`${answered} of ${request.questions.length} statements`);
        return askProver(request, { program: prover, signal, onAnswer });
      },
      known,
    ),
  );
}

function answerOf(
  searched: PolicyComparison,
  proof: ProofOutcome | undefined,
  recorded: RecordedComparison | undefined,
  [before, after]: readonly [CompiledEngine, CompiledEngine],
  { maxChanges = 0, sampled }: DiffOptions,
): Answer {
  const proven = proof === undefined || "missing" in proof ? undefined : heldTo(proof, searched);
  const compared = proven === undefined ? searched : withFound(searched, proven);
  // The same answer for other reasons is not a difference.
  const seen = recorded?.ways.filter(({ kind }) => kind !== "reasons").length ?? 0;
  const changes = Math.max(compared.ways.length, seen);
  const isExhaustive = proven !== undefined && isDecided(proven);
  const value = {
    old_revision: before.revision,
    new_revision: after.revision,
    changes,
    exhaustive: isExhaustive,
    ...compared,
    ...(proven !== undefined && { proof: proofMembers(proven) }),
    ...(recorded !== undefined && { recorded }),
  };
  const text = [
    `from ${before.revision} to ${after.revision}`,
    comparisonText(compared),
    ...(proven === undefined ? [] : [proofText(proven)]),
    ...(recorded === undefined ? [] : [recordedText(recorded)]),
  ].join("\n");
  const end = (exitCode: number, problem: string): Answer => ({ value, text, exitCode, problems: [problem] });
  if (proof !== undefined && "missing" in proof) return end(exitCodes.noProver, `--prove: ${proof.missing}`);
  if (changes > maxChanges) return end(exitCodes.tooManyChanges, tooMany(changes, maxChanges));
  if (isExhaustive || sampled === true) return { value, text };
  return end(exitCodes.notExhaustive, proven === undefined ? unproven : "not everything was proven or refuted");
}

const unproven =
  "no proof: other questions may be decided differently; --prove asks a solver, --sampled accepts what was asked";

function tooMany(changes: number, allowed: number): string {
  const found = `${plural(changes, "difference")} found`;
  return allowed === 0 ? found : `--max-changes: ${allowed} allowed, ${found}`;
}

// The result, for machines and for people.

function comparisonText({ summary, asked, ways }: PolicyComparison): string {
  return [
    ...(summary.length === 0 ? ["the directories say the same"] : summary.flatMap(summaryLines)),
    `asked ${asked} questions: ${ways.length} ways in which they are decided differently`,
    ...ways.flatMap(changeLines),
  ].join("\n");
}

function summaryLines({ set, id, change, lines }: PolicySummary): readonly string[] {
  const what = set === undefined ? `manifest: ${id}` : `${set}/${id}`;
  return [`${what} is ${change}`, ...lines.map((line) => `  ${line}`)];
}

function changeLines({ kind, tenants, actions, guidance, before, after, example }: PolicyChange): readonly string[] {
  const names = tenants.map((tenant) => (tenant === unnamedTenant ? "any other tenant" : tenant));
  return [
    `${kind}: ${actions.join(", ")} for ${listed(names, maxListed)}`,
    ...(guidance.length === 0 ? [] : [`  other guidance: ${guidance.join(", ")}`]),
    `  was ${answerText(before)}`,
    `  is ${answerText(after)}`,
    `  example: ${JSON.stringify(example)}`,
  ];
}

/** Most names in one line, and most applications of a change. */
const maxListed = 5;

function answerText({ allow, reasons }: Answered): string {
  return `${allow ? "ALLOW" : "DENY"}, because of ${reasons.join(", ") || "no policy"}`;
}

function recordedText({ compared, erased, not_askable, not_looked_up, ways }: RecordedComparison): string {
  const differing = ways.reduce((sum, { kind, count }) => sum + (kind === "reasons" ? 0 : count), 0);
  return [
    `recorded decisions: ${compared} compared, ${differing} come out differently`,
    ...(erased === 0 ? [] : [`  not compared: ${erased}, whose records are erased`]),
    ...(not_askable === 0 ? [] : [`  not compared: ${not_askable}, whose records do not say what was asked`]),
    ...(not_looked_up === 0 ? [] : [`  not compared: ${not_looked_up}, for which registered facts were not looked up`]),
    ...ways.flatMap(recordedLines),
  ].join("\n");
}

function recordedLines({ kind, count, before, after, callers, example }: RecordedChange): readonly string[] {
  const more = callers.length - maxListed;
  return [
    `  ${kind === "reasons" ? "the same, for other reasons" : kind}: ${count}`,
    `    was ${answerText(before)}`,
    `    is ${answerText(after)}`,
    ...callers
      .slice(0, maxListed)
      .map(
        ({ tenant_id, application = "other applications", count: own }) => `    ${own} of ${tenant_id}, ${application}`,
      ),
    ...(more > 0 ? [`    and ${more} more applications`] : []),
    `    example: --tenant ${example.tenant_id} --decision ${example.decision_id}`,
  ];
}

/** Whether every request is decided alike. */
function isProven(proof: Proof): boolean {
  return isDecided(proof) && proof.found.length === 0 && proof.proven === proof.statements;
}

/** Whether everything was proven or refuted. */
function isDecided({ undecided }: Proof): boolean {
  return undecided.length === 0;
}

/** A proof that an example on both directories refutes is not trusted. */
function heldTo(proof: Proof, { ways }: PolicyComparison): Proof {
  if (!isProven(proof) || ways.length === 0) return proof;
  return { ...proof, proven: 0, undecided: ["the prover says that all is equal, which the examples above refute"] };
}

/** The comparison with the solver's additional examples. */
function withFound(compared: PolicyComparison, { found }: Proof): PolicyComparison {
  const isNew = ({ kind, actions }: PolicyChange) =>
    !compared.ways.some((known) => known.kind === kind && actions.every((action) => known.actions.includes(action)));
  return { ...compared, ways: [...compared.ways, ...found.filter(isNew)] };
}

function proofMembers(proof: Proof) {
  const { solver, proven, statements, undecided } = proof;
  return { equal: isProven(proof), solver, proven, statements, undecided };
}

function proofText(proof: Proof): string {
  const { solver, proven, statements, undecided } = proof;
  if (isProven(proof)) return `proven: equal for every request (${statements} statements; ${solver})`;
  return [
    `proven: ${proven} of ${statements} statements (${solver})`,
    ...(isDecided(proof) ? ["the others are refuted by the examples above"] : ["not decided:"]),
    ...undecided.map((reason) => `  ${reason}`),
  ].join("\n");
}
