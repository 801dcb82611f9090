/** What of this machine a service needs: a runtime, settings, files and their permissions, room on its disks. */
import { X509Certificate } from "node:crypto";
import { accessSync, constants, existsSync, statfsSync } from "node:fs";
import * as fileSystem from "node:fs/promises";
import { dirname, resolve } from "node:path";
import { parseSessionKeys } from "../../auth/tokens/session-keys.ts";
import { systemClock } from "../../base/clock.ts";
import { loadConfig, loadTracing, systemFiles } from "../../config/load.ts";
import { openSecretFiles } from "../../config/secret-files.ts";
import { settings } from "../../config/settings.ts";
import type { ConfigFor } from "../../config/uses.ts";
import { parseClientFile } from "../../credentials/client-file.ts";
import { parseOpsCredentials } from "../../credentials/ops-credentials.ts";
import { compilePolicyBundle } from "../../policy/engine/engine.ts";
import { loadPolicyDirectory } from "../../policy/load/directory.ts";
import { describeProblem } from "../../policy/load/problem.ts";
import { sqlitePaths } from "../../stores/sqlite/paths.ts";
import { type Check, type Finding, failed, ok, skipped, warning } from "./finding.ts";

/** What the packages bring. */
const neededNode = 26;

export function runtimeCheck(version: string, nodeVersion: string): Check {
  const detail = `svc-platform-api ${version} on Node ${nodeVersion}`;
  const remedy = `start it with Node ${neededNode} or later: the packages bring one (npm exec -- node)`;
  const isOld = Number.parseInt(nodeVersion, 10) < neededNode;
  return {
    name: "runtime",
    remedy,
    look: async () => [isOld ? failed("runtime", detail, remedy) : ok("runtime", detail)],
  };
}

export function settingsCheck(configPath: string | undefined): Check {
  const remedy = "set it as docs/reference/settings.md says, in the environment or in the file of --config";
  return {
    name: "settings",
    remedy,
    async look() {
      const loaded = loadConfig("serve", configPath);
      const traces = loadTracing();
      const ofTraces = "problems" in traces ? traces.problems : [];
      const problems = "config" in loaded ? await contentProblems(loaded.config) : loaded.problems;
      const findings = [...problems, ...ofTraces].map((problem) => failed("settings", problem, remedy));
      const passedOver = "warnings" in traces ? traces.warnings : [];
      return [
        ...(findings.length > 0
          ? findings
          : [ok("settings", "are complete, and the files that they name hold what they should")]),
        ...passedOver.map((problem) => warning("settings", problem, "docs/tracing.md, Variables")),
      ];
    },
  };
}

/** Files whose content is for the start of the service to read, and for nobody before. */
async function contentProblems(config: ConfigFor<"serve">): Promise<readonly string[]> {
  const { bundle } = await loadPolicyDirectory(config.policyDir, fileSystem, config);
  const parsers = {
    sessionClients: (text: string) => parseClientFile(text, bundle?.callerAttributes),
    sessionKey: parseSessionKeys,
    opsCredentials: parseOpsCredentials,
  };
  const problems: string[] = [];
  for (const [key, parse] of Object.entries(parsers) as [keyof typeof parsers, (text: string) => unknown][])
    try {
      const path = config[key];
      if (path !== undefined) await parse(systemFiles.readText(path));
    } catch (error) {
      problems.push(`${settings[key].name}: ${error instanceof Error ? error.message : "cannot be read"}`);
    }
  return problems;
}

/** Below this share of a file system there is soon no room for a record. */
const leastFree = 0.05;
const soonMs = 30 * 24 * 60 * 60_000;

export function filesCheck(configPath: string | undefined): Check {
  return {
    name: "files",
    remedy: "let the user that the service runs as reach them",
    async look() {
      const loaded = loadConfig("serve", configPath);
      if (!("config" in loaded)) return [skipped("files", "the settings are wrong")];
      const { config } = loaded;
      const findings = [
        ...openSecretFiles(config, systemFiles).map(({ key, message }) =>
          warning("files", `${settings[key].name}: ${message}`, "chmod 0600, or 0640 for a group that reads it"),
        ),
        ...writtenFolders(config).flatMap(([name, folder]) => folderFindings(name, folder)),
        ...(["tlsCert", "opsTlsCert", "tlsClientCa"] as const).flatMap((key) => certificateFindings(config, key)),
      ];
      return findings.length > 0 ? findings : [ok("files", "the service can write where it must, and has room")];
    },
  };
}

/** Folders of files that the service makes and writes, each once. */
function writtenFolders(config: ConfigFor<"serve">): readonly (readonly [string, string])[] {
  const { store, anchor, ledgerKey } = config;
  const named = [
    ...(store.kind === "sqlite"
      ? [
          ["SVC_STORE", store.path],
          ["SVC_ANCHOR", sqlitePaths(store.path, { anchor, ledgerKey }).anchorPath],
        ]
      : anchor === undefined
        ? []
        : [["SVC_ANCHOR", anchor]]),
    ...(existsSync(ledgerKey) ? [] : [["SVC_LEDGER_KEY", ledgerKey]]),
  ];
  return [...new Map(named.map(([name = "", path = ""]) => [nearest(dirname(resolve(path))), name]))].map(
    ([folder, name]) => [name, folder],
  );
}

/** The folder, or the nearest one above it that is there: those that are missing are made. */
function nearest(folder: string): string {
  return existsSync(folder) || dirname(folder) === folder ? folder : nearest(dirname(folder));
}

function folderFindings(name: string, folder: string): readonly Finding[] {
  try {
    accessSync(folder, constants.W_OK | constants.X_OK);
  } catch {
    return [
      failed("files", `${name}: ${folder} cannot be written to`, "let the user that the service runs as write to it"),
    ];
  }
  const { bavail, blocks } = statfsSync(folder);
  if (blocks === 0 || bavail / blocks >= leastFree) return [];
  const percent = Math.floor((100 * bavail) / blocks);
  return [
    warning("files", `${name}: ${folder} has ${percent} % free`, "make room: calls are answered 503 when it is full"),
  ];
}

function certificateFindings(
  config: ConfigFor<"serve">,
  key: "tlsCert" | "opsTlsCert" | "tlsClientCa",
): readonly Finding[] {
  const path = config[key];
  if (path === undefined) return [];
  const { name } = settings[key];
  const nowMs = systemClock.now();
  const pems = systemFiles.readText(path).match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  return pems.flatMap((pem) => {
    const { subject, validFromDate, validToDate } = new X509Certificate(pem);
    const named = `${name}: the certificate of ${subject.replaceAll("\n", ", ")}`;
    const remedy = "put one in its place that is valid now";
    if (validToDate.getTime() <= nowMs)
      return [failed("files", `${named} ended on ${validToDate.toISOString()}`, remedy)];
    if (validFromDate.getTime() > nowMs)
      return [
        failed("files", `${named} begins on ${validFromDate.toISOString()}`, `${remedy}, or set the clock right`),
      ];
    if (validToDate.getTime() > nowMs + soonMs) return [];
    return [warning("files", `${named} ends on ${validToDate.toISOString()}`, "renew it")];
  });
}

export function policyCheck(configPath: string | undefined): Check {
  const remedy = "`policy check` says the same beside the files; until it is right the service does not start with it";
  return {
    name: "policy",
    remedy,
    async look() {
      const [rules, place] = [loadConfig("policy", configPath), loadConfig("policy_directory", configPath)];
      if (!("config" in rules && "config" in place)) return [skipped("policy", "its settings are wrong")];
      const loaded = await loadPolicyDirectory(place.config.policyDir, fileSystem, rules.config);
      const compiled = loaded.problems === undefined ? compilePolicyBundle(loaded.bundle, {}) : loaded;
      if (compiled.problems !== undefined)
        return compiled.problems.map((problem) => failed("policy", describeProblem(problem), remedy));
      const { policies, revision } = compiled.engine;
      compiled.engine.release();
      return [ok("policy", `${policies.length} policies, revision ${revision}`)];
    },
  };
}
