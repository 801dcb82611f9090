/** What commands find around them: a directory of the test's own, and an environment without the machine's settings. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { vi } from "vitest";
import { type Clock, systemClock } from "../../../src/base/clock.ts";
import { runCommandLine } from "../../../src/cli/run.ts";
import type { Appended } from "../../../src/ledger/ports/ledger.ts";
import type { NewRecord } from "../../../src/ledger/ports/record.ts";
import { openSqliteLedger } from "../../../src/stores/sqlite/open-ledger.ts";
import { recordMaker, seededRandom, storeIn, tenant } from "../../contract/ledger-records.ts";
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

const random = seededRandom();

/** What a service does between two starts on the store in the directory: a record for each tenant. */
export async function served(
  directory: string,
  tenants: readonly string[],
  clock: Clock = systemClock,
  ...changes: readonly Partial<NewRecord>[]
): Promise<readonly Appended[]> {
  const ledger = await openSqliteLedger({ ...storeIn(directory), originPrefix: "ledger.example", clock, random });
  const makeRecord = recordMaker(clock, random);
  const appended: Appended[] = [];
  for (const [i, name] of tenants.entries()) appended.push(await ledger.append(makeRecord(tenant(name), changes[i])));
  await ledger.close();
  return appended;
}

/** What erases without a question: the options of a script. */
export const erasing = ["--reason", "request 1", "--operator", "olga", "--yes"];

/** Runs a command. Resolves with what it wrote, and its exit code. */
export async function run(...commandLine: string[]): Promise<Written> {
  const { terminal, written } = captureTerminal();
  await runCommandLine(commandLine, terminal);
  return written;
}
