/** Reads a configuration in tests: a complete good one, with what the test changes. */
import { type ConfigFor, type Environment, readConfig, type SettingsText } from "../../../src/config/config.ts";
import type { Files } from "../../../src/config/files.ts";

export const goodEnvironment: Environment = {
  SVC_OIDC_ISSUER: "https://issuer.example/realms/a",
  SVC_POLICY_DIR: "/policies",
  SVC_LEDGER_ORIGIN: "logs.example/svc",
  SVC_TRUSTED_PROXIES: "10.0.0.0/8",
};

/** A file system of texts, of mode 0600 unless given, with `/policies` as its only directory. */
export function filesOf(
  texts: Readonly<Record<string, string>> = {},
  modes: Readonly<Record<string, number>> = {},
): Files {
  const missing = (): never => {
    throw Object.assign(new Error("no such file"), { code: "ENOENT" });
  };
  return {
    readText: (path) => texts[path] ?? missing(),
    isDirectory: (path) => (path === "/policies" ? true : path in texts ? false : missing()),
    permissions: (path) => (path in texts ? (modes[path] ?? 0o600) : missing()),
  };
}

function settingsText(text: string | undefined): SettingsText | undefined {
  return text === undefined ? undefined : { path: "settings.yaml", text };
}

/** The configuration, where nothing is wrong. */
export function configOf(env: Environment = {}, file?: string): ConfigFor<"serve"> {
  const result = readConfig({ ...goodEnvironment, ...env }, settingsText(file), { uses: "serve", files: filesOf() });
  if ("problems" in result) throw new Error(result.problems.join("\n"));
  return result.config;
}

/** The problems; empty where nothing is wrong. */
export function problemsOf(env: Environment, file?: string, files: Files = filesOf()): readonly string[] {
  const result = readConfig({ ...goodEnvironment, ...env }, settingsText(file), { uses: "serve", files });
  return "problems" in result ? result.problems : [];
}
