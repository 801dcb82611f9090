/** All commands: parses the command line, runs the command and reports failures. */
import { Command, CommanderError } from "commander";
import packageFile from "../../package.json" with { type: "json" };
import { visibleText } from "../base/visible-text.ts";
import { loadTracing } from "../config/load.ts";
import {
  clientsAddCommand,
  clientsListCommand,
  clientsRemoveCommand,
  clientsRotateCommand,
  operatorsAddCommand,
  operatorsListCommand,
  operatorsRemoveCommand,
} from "./credentials-commands.ts";
import { doctorCommand } from "./doctor/doctor-command.ts";
import { type AnyCommand, command } from "./frame/command.ts";
import { Refusal, type Terminal } from "./frame/terminal.ts";
import {
  ledgerEraseCommand,
  ledgerHoldListCommand,
  ledgerHoldPlaceCommand,
  ledgerHoldReleaseCommand,
} from "./ledger/erasure-commands.ts";
import { keysGenerateCommand, keysRotateCommand, keysShowCommand } from "./ledger/keys-commands.ts";
import { ledgerExportCommand, ledgerReceiptCommand, ledgerReindexCommand } from "./ledger/log-commands.ts";
import { ledgerPackCommand, ledgerPackShowCommand, ledgerPackVerifyCommand } from "./ledger/pack-commands.ts";
import { ledgerAnchorCommand, ledgerClockCommand, ledgerReapplyCommand } from "./ledger/recovery-commands.ts";
import { ledgerReportCommand, ledgerSearchCommand } from "./ledger/search-commands.ts";
import { ledgerVerifyCommand, receiptVerifyCommand } from "./ledger/verify-commands.ts";
import { policyDiffCommand } from "./policy/diff-command.ts";
import { policyCheckCommand, policyInitCommand, policySchemaCommand, policyTestCommand } from "./policy/directory.ts";
import { policyExplainCommand, policyReplayCommand } from "./policy/explain-commands.ts";
import { migrateCommand, storeBackupCommand, storeCompactCommand, storeCopyCommand } from "./store-commands.ts";

/**
 * Runs the command of the arguments, without program and script. Resolves when it is done, or has failed; the terminal
 * has its exit code.
 */
export function runCommandLine(commandLine: readonly string[], terminal: Terminal): Promise<void> {
  return runProgram(commandsOf(terminal), commandLine, terminal);
}

/** Every command, in the order of help and reference. */
export function commandsOf(terminal: Terminal): Command {
  return programOf(terminal, [
    ...[serveCommand, doctorCommand],
    ...[policyInitCommand, policyCheckCommand, policySchemaCommand, policyTestCommand],
    ...[policyExplainCommand, policyDiffCommand, policyReplayCommand],
    ...[migrateCommand, storeBackupCommand, storeCompactCommand, storeCopyCommand],
    ...[keysGenerateCommand, keysRotateCommand, keysShowCommand],
    ...[ledgerVerifyCommand, ledgerAnchorCommand, ledgerClockCommand, ledgerExportCommand],
    ...[ledgerPackCommand, ledgerPackVerifyCommand, ledgerPackShowCommand, ledgerSearchCommand, ledgerReportCommand],
    ...[ledgerReindexCommand, ledgerEraseCommand, ledgerReapplyCommand],
    ...[ledgerHoldPlaceCommand, ledgerHoldReleaseCommand, ledgerHoldListCommand],
    ...[ledgerReceiptCommand, receiptVerifyCommand],
    ...[clientsAddCommand, clientsRotateCommand, clientsListCommand, clientsRemoveCommand],
    ...[operatorsAddCommand, operatorsListCommand, operatorsRemoveCommand],
  ]);
}

/** Descriptions of the command groups. */
const groups: Readonly<Record<string, string>> = {
  policy: "begin, check, test, explain and compare policy directories, and replay decisions",
  store: "back up, compact and move a store",
  keys: "make, rotate and show the keys that sign checkpoints",
  ledger:
    "verify, export and search the evidence logs, report on them, pack evidence, erase and hold records, and make and " +
    "verify receipts",
  "ledger anchor": "the anchor of the store",
  "ledger clock": "the times of the logs",
  "ledger hold": "legal holds: what one covers is not erased",
  clients: "register clients of the session route",
  operators: "credentials of operators, who may read every log on the operator listener",
};

/** The program with these commands, in their groups. */
export function programOf(terminal: Terminal, commands: readonly AnyCommand[]): Command {
  const program: Command = new Command("svc-platform-api")
    .description("Metadata-only control plane for data protection that is enforced locally")
    .option("--config <file>", "YAML file of settings, for the command that follows")
    .hook("preAction", (_program, action) => {
      const { config } = program.opts<{ config?: string }>();
      if (config !== undefined && action.getOptionValue("config") === undefined)
        action.setOptionValueWithSource("config", config, "cli");
    })
    .version(packageFile.version, "-V, --version", "print the version of this program")
    // An option belongs to the command that it follows: `pack` and `pack verify` have some of the same name.
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => terminal.out(visibleText(text)),
      writeErr: (text) => terminal.err(visibleText(text)),
    })
    .showHelpAfterError("(--help says more)");
  for (const { name, addTo } of commands) addTo(groupOf(program, name.split(" ").slice(0, -1)), terminal);
  refuseRepeated(program);
  return program;
}

/** The group with this path, created for its first command. */
function groupOf(program: Command, path: readonly string[]): Command {
  const within = (group: Command, name: string, at: number) =>
    group.commands.find((each) => each.name() === name) ??
    group.command(name).description(groups[path.slice(0, at + 1).join(" ")] ?? "");
  return path.reduce(within, program);
}

/** Runs the command. Resolves when it is done, or has failed; the terminal has its exit code. */
export async function runProgram(program: Command, commandLine: readonly string[], terminal: Terminal): Promise<void> {
  await program.parseAsync([...commandLine], { from: "user" }).catch((error: unknown) => {
    if (!(error instanceof CommanderError)) throw error;
    // Commander has printed the problem; asking for help is not a failure.
    terminal.exitCode(error.exitCode);
  });
}

/**
 * Refuses a repeated option that takes one value: Commander would silently use the last value for what was meant for
 * both.
 */
function refuseRepeated(command: Command): void {
  for (const option of command.options) {
    // A repeatable option has its own parser; the parser of choices does not gather.
    const gathers = option.variadic || (option.parseArg !== undefined && option.argChoices === undefined);
    const takesOne = (option.required || option.optional) && !gathers;
    let isGiven = false;
    command.on(`option:${option.name()}`, () => {
      if (isGiven && takesOne) command.error(`error: option '${option.flags}' is given twice`);
      isGiven = true;
    });
  }
  for (const each of command.commands) refuseRepeated(each);
}

/** Runs the service until a signal stops it. */
export const serveCommand = command({
  name: "serve",
  says: "run the service until SIGTERM or SIGINT",
  async run({ load }) {
    const config = load("serve");
    const traces = loadTracing();
    if ("problems" in traces) throw new Refusal(traces.problems);
    // Loaded here, so that other commands start faster, and policies are checked while the rest is loaded.
    const { beginFirstPolicy } = await import("../app/first-policy.ts");
    const { first } = await beginFirstPolicy(config);
    const { serve } = await import("./serve.ts");
    await serve({ config, policy: first, ...traces });
    return undefined;
  },
});
