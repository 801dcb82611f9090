/** The frame of every command: options, settings, answer, and exit code. */
import { type Command, Option } from "commander";
import type { ConfigFor, Use } from "../../config/config.ts";
import { loadConfig } from "../../config/load.ts";
import { type Step, type StepOptions, takeStep } from "./confirmation.ts";
import { type Answer, print, Refusal } from "./output.ts";
import type { Terminal } from "./terminal.ts";

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
export type Flags = Readonly<Record<string, string | Details>>;

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

export interface CommonOptions {
  readonly json?: boolean;
  readonly config?: string;
}

/** A command's inputs. */
export interface Context<Options = object> {
  readonly options: Options & CommonOptions;
  /** Arguments in the order of the command line. */
  readonly args: readonly (string | undefined)[];
  readonly terminal: Terminal;
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
  /** Exit code of a Refusal without its own code. */
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
    for (const [form, meaning] of Object.entries(described.arguments ?? {})) added.argument(form, meaning);
    for (const [flags, said] of Object.entries<string | Details>({ ...common, ...options }))
      added.addOption(optionOf(flags, said));
    added.action(async (...given: readonly unknown[]) => {
      const chosen = added.opts<Values<F> & CommonOptions>();
      const args = given.slice(0, -2) as (string | undefined)[];
      const load = <U extends Use>(use: U) => loadOrRefuse(use, chosen.config);
      let answer: Answer | undefined;
      try {
        const result = await run({ options: chosen, args, terminal, load });
        answer =
          result !== undefined && "take" in result
            ? await takeStep(result, { name, options: chosen as StepOptions, terminal })
            : result;
      } catch (error) {
        if (!(error instanceof Refusal)) throw error;
        answer = { exitCode: refusalCode, ...error.answer };
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
