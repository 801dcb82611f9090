import { randomFillSync } from "node:crypto";
import type { Command } from "commander";
import { newSecret } from "../credentials/client-secret.ts";
import {
  formatOpsCredentials,
  hashOpsToken,
  isOperatorName,
  type OpsCredential,
  parseOpsCredentials,
} from "../credentials/ops-credentials.ts";
import { isFileError, readRegularFile } from "../files/file-system.ts";
import { updateFile } from "../files/update-file.ts";
import {
  type ConfirmationOptions,
  confirmStatedStepOrReport,
  logStep,
  type StatementOptions,
  withConfirmation,
  withLoggedStatement,
} from "./confirmation.ts";
import { type CommonOptions, loadOrReport, withCommonOptions } from "./options.ts";
import { createOutput, type Output } from "./output.ts";
import type { Terminal } from "./terminal.ts";

interface NamedOptions extends CommonOptions {
  readonly name: string;
}

type RemoveOptions = NamedOptions & ConfirmationOptions & StatementOptions;

/** `operators …`: who may read every log on the operator listener. A service that runs follows within seconds. */
export function addOperatorsCommands(program: Command, terminal: Terminal): void {
  const operators = program
    .command("operators")
    .description("credentials of operators, who may read every log on the operator listener");
  const outputOf = (options: CommonOptions) => createOutput(options.json === true, terminal);
  withCommonOptions(operators.command("add"))
    .description("make a credential for somebody and print its token, once, as the last line")
    .requiredOption("--name <name>", "whose it is")
    .action((options: NamedOptions) => add(options, outputOf(options)));
  withCommonOptions(operators.command("list"))
    .description("list whose credentials there are; never a token")
    .action((options: CommonOptions) => list(options, outputOf(options)));
  withConfirmation(withLoggedStatement(withCommonOptions(operators.command("remove"))))
    .description("remove a credential")
    .requiredOption("--name <name>", "whose it is")
    .action((options: RemoveOptions) => remove(options, outputOf(options), terminal));
}

function add(options: NamedOptions, output: Output) {
  const { name } = options;
  if (!isOperatorName(name))
    return output.fail(["--name: must be 1 to 64 letters, digits, dots, hyphens or underscores"]);
  const token = newSecret((bytes) => randomFillSync(bytes));
  const done = change(options, output, (known) => {
    if (known.some((credential) => credential.name === name)) return "is there already: remove it first";
    return [...known, { name, hash: hashOpsToken(token) }];
  });
  if (done) output.succeed({ name, token }, `credential of ${name}; its token, which is not shown again:\n${token}`);
}

function list(options: CommonOptions, output: Output): void {
  const names = namesOrReport(options, output);
  if (names !== undefined) output.succeed({ names }, names.length === 0 ? "no credentials" : names.join("\n"));
}

function namesOrReport(options: CommonOptions, output: Output): readonly string[] | undefined {
  const path = loadOrReport("ops_credentials", options, output)?.opsCredentials;
  if (path === undefined) return undefined;
  try {
    return parseOpsCredentials(readIfThere(path)).map(({ name }) => name);
  } catch (error) {
    report(error, output);
    return undefined;
  }
}

async function remove(options: RemoveOptions, output: Output, terminal: Terminal): Promise<void> {
  const { name } = options;
  const names = namesOrReport(options, output);
  if (names === undefined) return;
  if (!names.includes(name)) return output.fail([`--name: ${name} is not there`]);
  const step = {
    question: `Remove the credential of ${name}? The token works no more.`,
    text: `the credential of ${name} would be removed`,
    value: { would_remove: name },
  };
  const statement = await confirmStatedStepOrReport(step, options, terminal, output);
  if (statement === undefined) return;
  const done = change(options, output, (known) => {
    const others = known.filter((credential) => credential.name !== name);
    return others.length === known.length ? "is not there" : others;
  });
  if (!done) return;
  await logStep("operators remove", statement, { name }, terminal);
  output.succeed({ name }, `credential of ${name} removed`);
}

/** Replaces the credentials of the file in one step; where `next` says why not, or it cannot be done, reports that. */
function change(
  options: NamedOptions,
  output: Output,
  next: (known: readonly OpsCredential[]) => readonly OpsCredential[] | string,
): boolean {
  const path = loadOrReport("ops_credentials", options, output)?.opsCredentials;
  if (path === undefined) return false;
  let refusal: string | undefined;
  try {
    updateFile(path, (text = "") => {
      const changed = next(parseOpsCredentials(text));
      if (typeof changed !== "string") return formatOpsCredentials(changed);
      refusal = changed;
      throw new Error(changed);
    });
    return true;
  } catch (error) {
    if (refusal === undefined) report(error, output);
    else output.fail([`--name: ${options.name} ${refusal}`]);
    return false;
  }
}

function readIfThere(path: string): string {
  try {
    return readRegularFile(path);
  } catch (error) {
    if (isFileError(error, ["ENOENT"])) return "";
    throw error;
  }
}

function report(error: unknown, output: Output): void {
  output.fail([`SVC_OPS_CREDENTIALS: ${error instanceof Error ? error.message : String(error)}`]);
}
