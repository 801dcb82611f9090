/** `doctor`: what prevents a service with these settings from running on this machine, and the remedy. */
import { InvalidArgumentError } from "commander";
import packageFile from "../../../package.json" with { type: "json" };
import { command } from "../frame/command.ts";
import { type Finding, runCheck } from "./finding.ts";

/** Changes nothing, and prints no secrets. */
export const doctorCommand = command({
  name: "doctor",
  says: "look at settings, files, policy, issuer, store, witnesses and clocks; says what is wrong and the remedy",
  options: {
    "--timeout <seconds>": { says: "time for all of it, 1 to 300", parse: seconds, fallback: 10 },
  },
  async run({ options: { timeout }, load, terminal }) {
    const { files, policy, runtime, settingsCheck } = await import("./checks.ts");
    const { issuer, store, witnesses } = await import("./checks.ts");
    const deadline = new AbortController();
    const timer = setTimeout(() => deadline.abort(), timeout * 1_000);
    const { version } = packageFile;
    // Policy comes last, because it blocks the thread.
    const checks = { runtime, settings: settingsCheck(load), files, issuer, witnesses, store, policy };
    const running = Object.entries(checks).map(([name, check]) => runCheck(name, check, load, deadline.signal));
    const findings = (await Promise.all(running)).flat();
    clearTimeout(timer);
    // Does not wait any longer for unanswered checks.
    if (deadline.signal.aborted) setImmediate(() => terminal.leave?.());
    const wrong = findings.filter(({ status }) => status === "failed").length;
    return {
      value: { version, findings },
      text: findings.map(lineOf).join("\n"),
      problems: wrong === 0 ? [] : [`${wrong} of these failed`],
    };
  },
});

function seconds(text: string): number {
  const value = Number(text);
  if (/^[0-9]{1,3}$/.test(text) && value >= 1 && value <= 300) return value;
  throw new InvalidArgumentError("must be 1 to 300 seconds.");
}

function lineOf({ check, status, detail, remedy }: Finding): string {
  const line = `${status.padEnd(8)} ${check.padEnd(9)} ${detail}`;
  return remedy === undefined ? line : `${line}\n${" ".repeat(19)}-> ${remedy}`;
}
