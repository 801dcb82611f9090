/** Whether a service that is deployed with these settings would start, as far as can be said without its surroundings. */
import { readConfig } from "../../src/config/config.ts";
import { openSecretFiles } from "../../src/config/files.ts";
import { createAuthority } from "../harness/certificates.ts";
import { folderForFile } from "../harness/folder.ts";

export interface Deployed {
  readonly env: Readonly<Record<string, string>>;
  /** Text of the settings file. */
  readonly settings?: string;
  /** Permission bits of the files that the deployment puts in place. */
  readonly fileMode: number;
}

const signIn = JSON.stringify({
  issuer: "https://id.example.com/realms/people",
  client_id: "console",
  client_secret_file: "/run/svc/consoleSignIn/client-secret",
  url: "https://ops.example.com:9090",
});
const { cert, key } = await createAuthority(folderForFile("deployed"), "any");
const issuers = '{"issuers":{"https://id.example.com":{"tenants":{"pattern":"*"}}}}';

/** Everything that is wrong with the settings, warnings too. The files that they name hold what they should. */
export async function settingsProblems({ env, settings, fileMode }: Deployed): Promise<readonly string[]> {
  const texts = [
    [/quotas/, "{}"],
    [/issuers/, issuers],
    [/sign-in/, signIn],
    [/key|password|client-secret/i, key],
  ] as const;
  const files = {
    readText: (path: string) => texts.find(([name]) => name.test(path))?.[1] ?? cert,
    isDirectory: () => true,
    permissions: () => fileMode,
  };
  const text = settings === undefined ? undefined : { path: "settings.yaml", text: settings };
  const result = readConfig(env, text, { uses: "serve", files });
  if ("problems" in result) return result.problems;
  return openSecretFiles(result.config, files).map(({ message }) => message);
}
