/** What commands find around them: a directory of the test's own, and an environment without the machine's settings. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { vi } from "vitest";
import { runCommandLine } from "../../../src/cli/run.ts";
import { storeIn } from "../../contract/ledger-records.ts";
import { captureTerminal, type Written } from "./terminal.ts";

/** Makes the directory. No setting is in the environment until `leave`. */
export function enter(): string {
  for (const name of Object.keys(process.env)) if (name.startsWith("SVC_")) vi.stubEnv(name, undefined);
  return mkdtempSync(join(tmpdir(), "cli-"));
}

/** The same, with settings that name a store in the directory. */
export function enterWithStore(): string {
  const directory = enter();
  vi.stubEnv("SVC_STORE", `sqlite:${storeIn(directory).path}`);
  vi.stubEnv("SVC_LEDGER_KEY", storeIn(directory).keyPath);
  return directory;
}

/** Removes the directory, and puts the environment back. */
export function leave(directory: string): void {
  vi.unstubAllEnvs();
  rmSync(directory, { recursive: true });
}

/** What erases without a question: the options of a script. */
export const erasing = ["--reason", "request 1", "--operator", "olga", "--yes"];

/** Runs a command. Resolves with what it wrote, and its exit code. */
export async function run(...commandLine: string[]): Promise<Written> {
  const { terminal, written } = captureTerminal();
  await runCommandLine(commandLine, terminal);
  return written;
}
