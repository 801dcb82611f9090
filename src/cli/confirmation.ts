/** What commands ask for that destroy something, or do what cannot be undone. */
import type { Command } from "commander";
import type { ErasureStatement } from "../ledger/ports/record.ts";
import { isStatementText, maxOperatorLength, maxReasonLength } from "../ledger/record/operator-records.ts";
import { type Output, visibleLine, visibleText } from "./output.ts";
import type { Terminal } from "./terminal.ts";

export interface ConfirmationOptions {
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

export interface StatementOptions {
  readonly reason?: string;
  readonly operator?: string;
}

export type StatedOptions = ConfirmationOptions & StatementOptions;

/** Adds `--dry-run` and `--yes`. */
export function withConfirmation(command: Command): Command {
  return command
    .option("--dry-run", "say what would be done, and do nothing")
    .option("--yes", "do it without asking; needed where nobody sits at a terminal");
}

/** Adds `--reason` and `--operator`, which go into a line of the log: there is no ledger that could have them. */
export function withLoggedStatement(command: Command): Command {
  return command
    .option("--reason <text>", "why; is written to standard error, as a line of the log")
    .option("--operator <name>", "who does it: you; is written there too");
}

/** Adds `--reason` and `--operator`, which go into the record. */
export function withStatement(command: Command): Command {
  return command
    .option("--reason <text>", "why; is recorded in the log, and can never be erased: name nobody")
    .option("--operator <name>", "who does it: you; is recorded in the log, and can never be erased");
}

/** What is wrong with a reason, as a problem of `--reason`. */
export function reasonProblems(reason: string | undefined): readonly string[] {
  return reason === undefined || isStatementText(reason, maxReasonLength)
    ? []
    : [`--reason: must be 1 to ${maxReasonLength} characters of text`];
}

/** The statement of the options, or what is wrong with them. */
export function readStatement({ reason, operator }: StatementOptions): ErasureStatement | readonly string[] {
  const problems = [
    ...(reason === undefined ? ["--reason: is required"] : reasonProblems(reason)),
    ...(operator === undefined
      ? ["--operator: is required"]
      : isStatementText(operator, maxOperatorLength)
        ? []
        : [`--operator: must be 1 to ${maxOperatorLength} characters of text`]),
  ];
  if (problems.length > 0 || reason === undefined || operator === undefined) return problems;
  return { reason, operator };
}

/** What is about to be done for good. */
export interface Step {
  /** Asked of a person. */
  readonly question: string;
  /** What `--dry-run` says instead, to people and to machines. */
  readonly text: string;
  readonly value: Readonly<Record<string, unknown>>;
}

/** Whether to take the step: with `--dry-run` says what it would do, and asks otherwise. Where not to, reports it. */
export async function confirmStepOrReport(
  { question, text, value }: Step,
  options: ConfirmationOptions,
  terminal: Terminal,
  output: Output,
): Promise<boolean> {
  if (options.dryRun !== true) return confirmOrReport(question, options, terminal, output);
  output.succeed({ dry_run: true, ...value }, text);
  return false;
}

/**
 * As `confirmStepOrReport`, of a step that `logStep` records: resolves with who does it and why; with undefined where it is
 * not to be taken. A dry run needs neither.
 */
export async function confirmStatedStepOrReport(
  step: Step,
  options: StatedOptions,
  terminal: Terminal,
  output: Output,
): Promise<ErasureStatement | undefined> {
  const statement = readStatement(options);
  if (!("reason" in statement) && options.dryRun !== true) {
    output.fail(statement);
    return undefined;
  }
  const goOn = await confirmStepOrReport(step, options, terminal, output);
  return goOn && "reason" in statement ? statement : undefined;
}

/** Records, as a line of the service's log on standard error, what an operator has done where no ledger has it. */
export async function logStep(
  command: string,
  { operator, reason }: ErasureStatement,
  fields: Readonly<Record<string, unknown>>,
  terminal: Terminal,
): Promise<void> {
  const { createLogger } = await import("../telemetry/logger.ts");
  const destination = { write: (line: string) => terminal.err(visibleText(line)) };
  const logger = createLogger({ level: "info", serviceName: "svc-platform-api", destination });
  logger.info({ category: "administration", command, operator, reason, ...fields }, "done by an operator");
}

/** Whether to go on: asks where somebody can be asked. Where not to, reports it. */
export async function confirmOrReport(
  question: string,
  { yes }: ConfirmationOptions,
  terminal: Terminal,
  output: Output,
): Promise<boolean> {
  if (yes === true) return true;
  if (terminal.ask === undefined) {
    output.fail(["nothing was done: nobody sits at a terminal to confirm it, and --yes was not given"]);
    return false;
  }
  const answer = await terminal.ask(`${visibleLine(question)} Type yes to go on: `);
  if (answer.trim() === "yes") return true;
  output.fail(["nothing was done"]);
  return false;
}
