/** The program around its commands: how a command line becomes one of them, and what comes of failures. */
import { Command, CommanderError } from "commander";
import packageFile from "../../package.json" with { type: "json" };
import { createOutput, visibleText } from "./output.ts";
import type { Terminal } from "./terminal.ts";

/** The program with these commands, each of which adds itself. */
export function programOf(
  terminal: Terminal,
  commands: readonly ((program: Command, terminal: Terminal) => void)[],
): Command {
  const program: Command = new Command("svc-platform-api")
    .description("Metadata-only control plane for data protection that is enforced locally")
    .option("--config <file>", "YAML file of settings, for the command that follows")
    .hook("preAction", (_program, action) => {
      const { config } = program.opts<{ config?: string }>();
      if (config !== undefined && action.getOptionValue("config") === undefined)
        action.setOptionValueWithSource("config", config, "cli");
    })
    .version(packageFile.version, "-V, --version", "print the version of this program")
    // An option belongs to the command that it stands behind: `pack` and `pack verify` have some of the same name.
    .enablePositionalOptions()
    .exitOverride()
    .configureOutput({
      writeOut: (text) => terminal.out(visibleText(text)),
      writeErr: (text) => terminal.err(visibleText(text)),
    })
    .showHelpAfterError("(--help says more)");
  for (const add of commands) add(program, terminal);
  refuseRepeated(program);
  return program;
}

/** Runs the command that the arguments name. Resolves when it is done; the terminal knows how it went. Never rejects. */
export async function runProgram(program: Command, commandLine: readonly string[], terminal: Terminal): Promise<void> {
  try {
    await program.parseAsync([...commandLine], { from: "user" });
  } catch (error) {
    // Commander has said what was wrong; asking for help is no failure.
    if (error instanceof CommanderError) return terminal.exitCode(error.exitCode);
    // A failure that no command foresaw.
    const message = error instanceof Error ? error.message : String(error);
    createOutput(commandLine.includes("--json"), terminal).fail([message]);
  }
}

/**
 * Refuses an option that has one value and is given two: Commander takes the last, and whoever meant both would take
 * what is done for one of them for all.
 */
function refuseRepeated(command: Command): void {
  for (const option of command.options) {
    // A parser of its own gathers what is given several times; that of a choice does not.
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
