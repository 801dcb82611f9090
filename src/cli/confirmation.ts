/** What commands ask for that destroy something, or do what cannot be undone. */
import { type SecurityEvent, securityFields } from "../base/security-events.ts";
import type { ErasureStatement } from "../ledger/ports/record.ts";
import { isStatementText, maxOperatorLength, maxReasonLength } from "../ledger/record/operator-records.ts";
import { type Answer, Refusal, visibleLine, visibleText } from "./output.ts";
import type { Terminal } from "./terminal.ts";

const confirmationFlags = {
  "--dry-run": "say what would be done, and do nothing",
  "--yes": "do it without asking; needed where nobody sits at a terminal",
} as const;

/** Options of a step whose reason goes into a line of the log: there is no ledger that could have it. */
export const loggedStepFlags = {
  "--reason <text>": "why; is written to standard error, as a line of the log",
  "--operator <name>": "who does it: you; is written there too",
  ...confirmationFlags,
} as const;

/** Options of a step whose reason goes into a record. */
export const recordedStepFlags = {
  "--reason <text>": "why; is recorded in the log, and can never be erased: name nobody",
  "--operator <name>": "who does it: you; is recorded in the log, and can never be erased",
  ...confirmationFlags,
} as const;

export interface StepOptions {
  readonly reason?: string;
  readonly operator?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

/** What is about to be done for good. */
export interface Step {
  /** Asked of a person; undefined if nothing would be destroyed. */
  readonly question: string | undefined;
  /** What `--dry-run` answers instead. */
  readonly preview: Answer;
  /** Takes the step. What `logged` has goes into a line of the log, with who did it and why. */
  readonly take: (statement: ErasureStatement) => Promise<Done> | Done;
  /** The step takes no reason. */
  readonly isUnstated?: true;
}

interface Done extends Answer {
  readonly logged?: Readonly<Record<string, unknown>>;
}

interface Confirming {
  readonly name: string;
  readonly options: StepOptions;
  readonly terminal: Terminal;
}

/** Takes the step if it is stated and confirmed; with `--dry-run` says what it would do. A Refusal says why not. */
export async function takeStep(
  { question, preview, take, isUnstated }: Step,
  { name, options, terminal }: Confirming,
): Promise<Answer> {
  if (options.dryRun === true) return { ...preview, value: { dry_run: true, ...preview.value } };
  const statement = isUnstated === true ? { reason: "", operator: "" } : readStatement(options);
  if (question !== undefined) await confirm(question, options, terminal);
  const { logged, ...answer } = await take(statement);
  if (logged !== undefined) await logStep({ command: name, ...statement, ...logged }, terminal);
  return answer;
}

async function confirm(question: string, { yes }: StepOptions, terminal: Terminal): Promise<void> {
  if (yes === true) return;
  if (terminal.ask === undefined)
    throw new Refusal("nothing was done: nobody sits at a terminal to confirm it, and --yes was not given");
  const answer = await terminal.ask(`${visibleLine(question)} Type yes to go on: `);
  if (answer.trim() !== "yes") throw new Refusal("nothing was done");
}

/** Records, as a line of the service's log on standard error, what an operator has done where no ledger has it. */
async function logStep(fields: Readonly<Record<string, unknown>>, terminal: Terminal): Promise<void> {
  const { createLogger } = await import("../telemetry/logger.ts");
  const destination = { write: (line: string) => terminal.err(visibleText(line)) };
  const logger = createLogger({ level: "info", serviceName: "svc-platform-api", destination });
  logger.info({ category: "administration", ...fields }, "done by an operator");
}

/** What is wrong with a reason, as a problem of `--reason`. */
export function reasonProblems(reason: string | undefined): readonly string[] {
  return reason === undefined || isStatementText(reason, maxReasonLength)
    ? []
    : [`--reason: must be 1 to ${maxReasonLength} characters of text`];
}

/** The statement of the options. A Refusal says what is wrong with them. */
export function readStatement({ reason, operator }: StepOptions): ErasureStatement {
  const problems = [
    ...(reason === undefined ? ["--reason: is required"] : reasonProblems(reason)),
    ...(operator === undefined
      ? ["--operator: is required"]
      : isStatementText(operator, maxOperatorLength)
        ? []
        : [`--operator: must be 1 to ${maxOperatorLength} characters of text`]),
  ];
  if (problems.length > 0 || reason === undefined || operator === undefined) throw new Refusal(problems);
  return { reason, operator };
}

/**
 * Writes a security event as the service's log would, where standard error is collected rather than watched by a
 * person, who sees what the command says anyway.
 */
export function tellSecurity(
  terminal: Terminal,
  event: SecurityEvent,
  fields: Readonly<Record<string, unknown>>,
  message: string,
): void {
  const line = { level: "warn", time: new Date().toISOString(), ...securityFields(event), ...fields, message };
  terminal.log?.(`${JSON.stringify(line)}\n`);
}
