/** Whether a service that is deployed with these settings would start, as far as can be said without its surroundings. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { readConfig } from "../../src/config/config.ts";
import { openSecretFiles } from "../../src/config/files.ts";
import { createAuthority } from "../harness/certificates.ts";

export interface Deployed {
  readonly env: Readonly<Record<string, string>>;
  /** Text of the settings file. */
  readonly settings?: string;
  /** Permission bits of the files that the deployment puts in place. */
  readonly fileMode: number;
}

const issuers = '{"issuers":{"https://id.example.com":{"tenants":{"pattern":"*"}}}}';

/** Everything that is wrong with the settings, warnings too. The files that they name hold what they should. */
export async function settingsProblems({ env, settings, fileMode }: Deployed): Promise<readonly string[]> {
  const folder = await mkdtemp(join(tmpdir(), "svc-deployed-"));
  const { cert, key } = await createAuthority(folder, "any").finally(() => rm(folder, { recursive: true }));
  const files = {
    readText: (path: string) =>
      /quotas/.test(path) ? "{}" : /issuers/.test(path) ? issuers : /key|password/i.test(path) ? key : cert,
    isDirectory: () => true,
    permissions: () => fileMode,
  };
  const text = settings === undefined ? undefined : { path: "settings.yaml", text: settings };
  const result = readConfig(env, text, { uses: "serve", files });
  if ("problems" in result) return result.problems;
  return openSecretFiles(result.config, files).map(({ message }) => message);
}
