/** The frame of every command: options, settings, answer, and exit code. */
import { type Command, CommanderError, Option } from "commander";
import { type SecurityEvent, securityFields } from "../../base/security-events.ts";
import { visibleLine, visibleText } from "../../base/visible-text.ts";
import type { ConfigFor, Use } from "../../config/config.ts";
import { loadConfig } from "../../config/load.ts";
import type { ErasureStatement } from "../../ledger/ports/record.ts";
import { isStatementText, maxOperatorLength, maxReasonLength } from "../../ledger/record/operator-records.ts";
import {
  type Answer,
  answerOfError,
  createProgress,
  type Progress,
  print,
  Refusal,
  type Terminal,
} from "./terminal.ts";

/** Help of an option, and how its text is parsed. */
interface Details {
  readonly says: string;
  readonly required?: true;
  readonly choices?: readonly string[];
  /** Parses the text. If the option is repeated, it gets the previous value. */
  readonly parse?: (text: string, before?: never) => unknown;
  readonly fallback?: unknown;
}

/** Options by their flags, as Commander reads them: `--name`, `--name <value>` or `--name <value...>`. */
type Flags = Readonly<Record<string, string | Details>>;

type Camel<Name extends string> = Name extends `${infer Head}-${infer Tail}`
  ? `${Head}${Capitalize<Camel<Tail>>}`
  : Name;
type NameOf<Flag> = Flag extends `--${infer Name} <${string}`
  ? Camel<Name>
  : Flag extends `--${infer Name}`
    ? Camel<Name>
    : never;
type ValueOf<Flag, Said> = Said extends { readonly parse: (...given: never) => infer Value }
  ? Value
  : Said extends { readonly choices: readonly (infer Choice)[] }
    ? Choice
    : Flag extends `${string}...>`
      ? readonly string[]
      : Flag extends `${string}>`
        ? string
        : boolean;
type Always = { readonly required: true } | { readonly fallback: unknown };

/** The values of options, by their names in camel case. */
export type Values<F> = {
  readonly [Flag in keyof F as F[Flag] extends Always ? NameOf<Flag> : never]: ValueOf<Flag, F[Flag]>;
} & { readonly [Flag in keyof F as F[Flag] extends Always ? never : NameOf<Flag>]?: ValueOf<Flag, F[Flag]> };

interface CommonOptions {
  readonly json?: boolean;
  readonly config?: string;
}

/** A command's inputs. */
export interface Context<Options = object> {
  readonly options: Options & CommonOptions;
  /** Arguments in the order of the command line. */
  readonly args: readonly (string | undefined)[];
  readonly terminal: Terminal;
  /** Its line is removed before the answer, or the question, is printed. */
  readonly progress: Progress;
  /** Settings of this process for the use. Throws a Refusal with all their problems. */
  load<U extends Use>(use: U): ConfigFor<U>;
}

interface Described<F extends Flags> {
  /** With the names of its groups before it. */
  readonly name: string;
  readonly says: string;
  /** Help of each argument, by its form: `<file>`, or `[file]` if it may be absent. */
  readonly arguments?: Readonly<Record<string, string>>;
  readonly options?: F;
  /** Exit code of an error without its own code, and of a wrong command line. */
  readonly refusalCode?: number;
  /** Does the work, or returns the step to confirm. */
  readonly run: (context: Context<Values<F>>) => Promise<Answer | Step | undefined> | Answer | Step | undefined;
}

export interface AnyCommand {
  readonly name: string;
  /** Adds the command to its group. */
  readonly addTo: (group: Command, terminal: Terminal) => void;
}

const common: Flags = {
  "--json": "answer with one JSON object",
  "--config <file>": "YAML file of settings; the environment wins over it",
};

export function command<const F extends Flags>(described: Described<F>): AnyCommand {
  const { name, says, options = {}, run, refusalCode } = described;
  const addTo = (group: Command, terminal: Terminal) => {
    const own = name.slice(name.lastIndexOf(" ") + 1);
    const added = group.command(own).description(says);
    if (refusalCode !== undefined)
      added.exitOverride(({ exitCode, code, message }) => {
        throw new CommanderError(exitCode === 0 ? 0 : refusalCode, code, message);
      });
    for (const [form, meaning] of Object.entries(described.arguments ?? {})) added.argument(form, meaning);
    for (const [flags, said] of Object.entries<string | Details>({ ...common, ...options }))
      added.addOption(optionOf(flags, said));
    added.action(async (...given: readonly unknown[]) => {
      const chosen = added.opts<Values<F> & CommonOptions>();
      const args = given.slice(0, -2) as (string | undefined)[];
      const load = <U extends Use>(use: U) => loadOrRefuse(use, chosen.config);
      const progress = createProgress(terminal);
      let answer: Answer | undefined;
      try {
        const result = await run({ options: chosen, args, terminal, progress: progress.show, load });
        progress.done();
        answer =
          result !== undefined && "take" in result
            ? await takeStep(result, name, chosen as StepOptions, terminal)
            : result;
      } catch (error) {
        answer = { exitCode: refusalCode, ...answerOfError(error) };
      } finally {
        progress.done();
      }
      if (answer !== undefined) print(answer, chosen.json === true, terminal);
    });
  };
  return { name, addTo };
}

function optionOf(flags: string, said: string | Details): Option {
  const { says, required, choices, parse, fallback }: Details = typeof said === "string" ? { says: said } : said;
  const option = new Option(flags, says);
  if (required === true) option.makeOptionMandatory();
  if (choices !== undefined) option.choices(choices);
  if (parse !== undefined) option.argParser(parse as (text: string) => unknown);
  if (fallback !== undefined) option.default(fallback);
  return option;
}

function loadOrRefuse<U extends Use>(use: U, path: string | undefined): ConfigFor<U> {
  const result = loadConfig(use, path);
  if ("config" in result) return result.config;
  throw new Refusal(result.problems);
}

/** Parses a repeatable option. */
export function gather(text: string, before: readonly string[] = []): readonly string[] {
  return [...before, text];
}

// Confirmation of commands that destroy data or cannot be undone.

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

/**
 * Takes the step if it has a reason and is confirmed; with `--dry-run` returns the preview. Otherwise throws a Refusal.
 */
async function takeStep(
  { question, preview, take, isUnstated }: Step,
  name: string,
  options: StepOptions,
  terminal: Terminal,
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
  level: "info" | "warn" = "warn",
): void {
  const line = { level, time: new Date().toISOString(), ...securityFields(event), ...fields, message };
  terminal.log?.(`${JSON.stringify(line)}\n`);
}
