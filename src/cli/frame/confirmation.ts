/** Confirmation of commands that destroy data or cannot be undone. */
import { type SecurityEvent, securityFields } from "../../base/security-events.ts";
import type { ErasureStatement } from "../../ledger/ports/record.ts";
import { isStatementText, maxOperatorLength, maxReasonLength } from "../../ledger/record/operator-records.ts";
import { type Answer, Refusal, visibleLine, visibleText } from "./output.ts";
import type { Terminal } from "./terminal.ts";

const confirmationFlags = {
  "--dry-run": "say what would be done, and do nothing",
  "--yes": "do it without asking; needed without a terminal",
} as const;

/** Options of a step whose reason is written as a line of the log, because no ledger could record it. */
export const loggedStepFlags = {
  "--reason <text>": "why; is written to standard error, as a line of the log",
  "--operator <name>": "who does it: you; is written there too",
  ...confirmationFlags,
} as const;

/** Options of a step whose reason is recorded in the ledger. */
export const recordedStepFlags = {
  "--reason <text>": "why; is recorded in the log, and can never be erased: name no person",
  "--operator <name>": "who does it: you; is recorded in the log, and can never be erased",
  ...confirmationFlags,
} as const;

export interface StepOptions {
  readonly reason?: string;
  readonly operator?: string;
  readonly dryRun?: boolean;
  readonly yes?: boolean;
}

/** An irreversible step. */
export interface Step {
  /** Question for a person; undefined if nothing would be destroyed. */
  readonly question: string | undefined;
  /** Answer of `--dry-run`. */
  readonly preview: Answer;
  /** Takes the step. `logged` is written as a line of the log, with the operator and the reason. */
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

/**
 * Takes the step if it has a reason and is confirmed; with `--dry-run` returns the preview. Otherwise throws a Refusal.
 */
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
    throw new Refusal("nothing was done: there is no terminal to confirm it at, and --yes was not given");
  const answer = await terminal.ask(`${visibleLine(question)} Type yes to go on: `);
  if (answer.trim() !== "yes") throw new Refusal("nothing was done");
}

/** Records an operator's action that no ledger records, as a line of the service's log on standard error. */
async function logStep(fields: Readonly<Record<string, unknown>>, terminal: Terminal): Promise<void> {
  const { createLogger } = await import("../../telemetry/logger.ts");
  const destination = { write: (line: string) => terminal.err(visibleText(line)) };
  const logger = createLogger({ level: "info", serviceName: "svc-platform-api", destination });
  logger.info({ category: "administration", ...fields }, "done by an operator");
}

/** Problems of a reason, for `--reason`. */
export function reasonProblems(reason: string | undefined): readonly string[] {
  return reason === undefined || isStatementText(reason, maxReasonLength)
    ? []
    : [`--reason: must be 1 to ${maxReasonLength} characters of text`];
}

/** The statement in the options. Throws a Refusal with their problems. */
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
 * Writes a security event in the service's log format if standard error is collected; a person who watches it sees the
 * command's own output.
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
