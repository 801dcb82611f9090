/** `doctor`: what stands in the way of a service with these settings, on this machine, and what to do about it. */
import { type Command, InvalidArgumentError } from "commander";
import packageFile from "../../../package.json" with { type: "json" };
import { type CommonOptions, withCommonOptions } from "../options.ts";
import { createOutput } from "../output.ts";
import type { Terminal } from "../terminal.ts";
import { type Finding, runCheck } from "./finding.ts";

interface DoctorOptions extends CommonOptions {
  readonly timeout: number;
}

export function addDoctorCommand(program: Command, terminal: Terminal): void {
  withCommonOptions(program.command("doctor"))
    .description(
      "look at settings, files, policy, issuer, store, witnesses and clocks; says what is wrong and the remedy",
    )
    .option("--timeout <seconds>", "time for all of it, 1 to 300", seconds, 10)
    .action((options: DoctorOptions) => examine(options, terminal));
}

function seconds(text: string): number {
  const value = Number(text);
  if (/^[0-9]{1,3}$/.test(text) && value >= 1 && value <= 300) return value;
  throw new InvalidArgumentError("must be 1 to 300 seconds.");
}

/** Changes nothing, and says nothing secret. */
async function examine({ config, json, timeout }: DoctorOptions, terminal: Terminal): Promise<void> {
  const { filesCheck, policyCheck, runtimeCheck, settingsCheck } = await import("./machine-checks.ts");
  const { issuerCheck, witnessesCheck } = await import("./network-checks.ts");
  const { storeCheck } = await import("./store-check.ts");
  const deadline = new AbortController();
  const timer = setTimeout(() => deadline.abort(), timeout * 1_000);
  const checks = [
    runtimeCheck(packageFile.version, process.versions.node),
    settingsCheck(config),
    filesCheck(config),
    issuerCheck(config),
    witnessesCheck(config),
    storeCheck(config),
    // Last: it keeps the thread busy.
    policyCheck(config),
  ];
  const findings = (await Promise.all(checks.map((check) => runCheck(check, deadline.signal)))).flat();
  clearTimeout(timer);
  const wrong = findings.filter(({ status }) => status === "failed");
  const output = createOutput(json === true, terminal);
  const text = findings.map(lineOf).join("\n");
  if (wrong.length === 0) output.succeed({ version: packageFile.version, findings }, text);
  else output.fail([`${wrong.length} of these failed`], { version: packageFile.version, findings }, text);
  // What did not answer is not waited for any longer.
  if (deadline.signal.aborted) terminal.leave?.();
}

function lineOf({ check, status, detail, remedy }: Finding): string {
  const line = `${status.padEnd(8)} ${check.padEnd(9)} ${detail}`;
  return remedy === undefined ? line : `${line}\n${" ".repeat(19)}-> ${remedy}`;
}
