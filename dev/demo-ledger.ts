/** The demo's ledger reads: the operator's own commands, run beside the service. */
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runCommandLine } from "../src/cli/run.ts";
import type { Stack } from "./stack.ts";

/** Runs a command. Throws with its output if it fails. */
async function run(...commandLine: readonly string[]): Promise<string> {
  const written = { out: "", err: "", code: 0 };
  await runCommandLine(commandLine, {
    out: (text) => {
      written.out += text;
    },
    err: (text) => {
      written.err += text;
    },
    exitCode: (code) => {
      written.code = code;
    },
  });
  if (written.code !== 0) throw new Error(written.err);
  return written.out;
}

/** Writes the settings for commands that use the stack with this data folder. */
export async function writeCommandSettings(stack: Stack, dataDir: string): Promise<string> {
  const settings = {
    SVC_STORE: `sqlite:${join(dataDir, "platform.db")}`,
    SVC_LEDGER_KEY: join(dataDir, "ledger.key"),
    SVC_LEDGER_ORIGIN: "localhost/dev",
    SVC_OIDC_ISSUER: stack.issuer.url,
    SVC_POLICY_DIR: join(import.meta.dirname, "../policies"),
  };
  const path = join(dataDir, "settings.yaml");
  // JSON is valid YAML.
  await writeFile(path, JSON.stringify(settings));
  return path;
}

/** Verifier keys of a tenant's log, as its operator hands them out. */
export async function logKeysOf(settings: string, tenant: string): Promise<readonly string[]> {
  const printed = await run("keys", "show", "--tenant", tenant, "--config", settings);
  return printed.split("\n").filter((line) => line !== "");
}

/** One step in the history of an artifact, from an evidence pack that is verified as an outsider would verify it. */
export interface LineageStep {
  readonly recorded_at: string;
  readonly kind: string;
  readonly operation?: string;
  readonly outcome?: string;
  readonly principal?: string;
}

export async function readLineage(
  settings: string,
  tenant: string,
  digest: string,
  logKeys: readonly string[],
): Promise<readonly LineageStep[]> {
  const path = `${settings}.pack`;
  await run("ledger", "pack", "--tenant", tenant, "--artifact-digest", digest, "--out", path, "--config", settings);
  const keys = logKeys.flatMap((key) => ["--key", key]);
  const report = JSON.parse(await run("ledger", "pack", "verify", path, ...keys, "--json"));
  return report.lineages.flatMap(({ steps }: { readonly steps: readonly LineageStep[] }) => steps);
}
