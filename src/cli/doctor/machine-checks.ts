/** Checks of this machine: runtime, settings, files and their permissions, disk space, policies. */
import { X509Certificate } from "node:crypto";
import { accessSync, constants, existsSync, statfsSync } from "node:fs";
import * as fileSystem from "node:fs/promises";
import { dirname, resolve } from "node:path";
import packageFile from "../../../package.json" with { type: "json" };
import { parseSessionKeys } from "../../auth/session-tokens.ts";
import { systemClock } from "../../base/clock.ts";
import type { ConfigFor } from "../../config/config.ts";
import { openSecretFiles } from "../../config/files.ts";
import { loadTracing, systemFiles } from "../../config/load.ts";
import { settings } from "../../config/settings.ts";
import { parseClientFile } from "../../credentials/client-file.ts";
import { parseOpsCredentials } from "../../credentials/ops-credentials.ts";
import { loadPolicyDirectory } from "../../policy/check/check.ts";
import { compilePolicyBundle } from "../../policy/engine/engine.ts";
import { describeProblem } from "../../policy/model/problem.ts";
import { sqlitePaths } from "../../stores/sqlite/paths.ts";
import type { Context } from "../frame/command.ts";
import { Refusal } from "../frame/output.ts";
import type { Check, Findings } from "./finding.ts";

/** The version that the packages install. */
const neededNode = 26;

export const runtime: Check = {
  remedy: `start it with Node ${neededNode} or later: the packages bring one (npm exec -- node)`,
  look(found) {
    const { node } = process.versions;
    const detail = `svc-platform-api ${packageFile.version} on Node ${node}`;
    if (Number.parseInt(node, 10) < neededNode) found.failed(detail);
    else found.ok(detail);
  },
};

export const settingsCheck = (load: Context["load"]): Check => ({
  remedy: "set it as docs/reference/settings.md says, in the environment or in the file of --config",
  async look(found) {
    const traces = loadTracing();
    for (const problem of await settingProblems(load)) found.failed(problem);
    for (const problem of "problems" in traces ? traces.problems : []) found.failed(problem);
    if (found.all.length === 0) found.ok("are complete, and the files that they name hold what they should");
    for (const warning of "warnings" in traces ? traces.warnings : [])
      found.warning(warning, "docs/tracing.md, Variables");
  },
});

/** Includes files whose content only the start of the service validates. */
async function settingProblems(load: Context["load"]): Promise<readonly string[]> {
  let config: ConfigFor<"serve">;
  try {
    config = load("serve");
  } catch (error) {
    if (error instanceof Refusal) return error.answer.problems ?? [];
    throw error;
  }
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

/** Below this free share, a file system may soon have no room for records. */
const leastFree = 0.05;
const soonMs = 30 * 24 * 60 * 60_000;

export const files: Check = {
  remedy: "let the user that the service runs as reach them",
  look(found) {
    const config = found.load("serve");
    for (const { key, message } of openSecretFiles(config, systemFiles))
      found.warning(`${settings[key].name}: ${message}`, "chmod 0600, or 0640 for a group that reads it");
    for (const [folder, name] of writtenFolders(config)) lookAtFolder(found, name, folder);
    for (const key of ["tlsCert", "opsTlsCert", "tlsClientCa"] as const) lookAtCertificates(found, config, key);
    if (found.all.length === 0) found.ok("the service can write where it must, and has room");
  },
};

/** Folders of the files that the service writes, each once, with a setting that names it. */
function writtenFolders({ store, anchor, ledgerKey }: ConfigFor<"serve">): ReadonlyMap<string, string> {
  const anchorPath = store.kind === "sqlite" ? sqlitePaths(store.path, { anchor, ledgerKey }).anchorPath : anchor;
  const named = [
    ...(store.kind === "sqlite" ? [["SVC_STORE", store.path] as const] : []),
    ...(anchorPath === undefined ? [] : [["SVC_ANCHOR", anchorPath] as const]),
    ...(existsSync(ledgerKey) ? [] : [["SVC_LEDGER_KEY", ledgerKey] as const]),
  ];
  return new Map(named.map(([name, path]) => [nearest(dirname(resolve(path))), name]));
}

/** The folder, or its nearest existing ancestor; missing ones will be created. */
function nearest(folder: string): string {
  return existsSync(folder) || dirname(folder) === folder ? folder : nearest(dirname(folder));
}

function lookAtFolder(found: Findings, name: string, folder: string): void {
  try {
    accessSync(folder, constants.W_OK | constants.X_OK);
  } catch {
    found.failed(`${name}: ${folder} cannot be written to`, "let the user that the service runs as write to it");
    return;
  }
  const { bavail, blocks } = statfsSync(folder);
  const percent = Math.floor((100 * bavail) / blocks);
  if (blocks > 0 && bavail / blocks < leastFree)
    found.warning(`${name}: ${folder} has ${percent} % free`, "make room: calls are answered 503 when it is full");
}

function lookAtCertificates(
  found: Findings,
  config: ConfigFor<"serve">,
  key: "tlsCert" | "opsTlsCert" | "tlsClientCa",
): void {
  const path = config[key];
  if (path === undefined) return;
  const nowMs = systemClock.now();
  const pems = systemFiles.readText(path).match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  for (const pem of pems) {
    const { subject, validFromDate, validToDate } = new X509Certificate(pem);
    const named = `${settings[key].name}: the certificate of ${subject.replaceAll("\n", ", ")}`;
    const remedy = "put one in its place that is valid now";
    if (validToDate.getTime() <= nowMs) found.failed(`${named} ended on ${validToDate.toISOString()}`, remedy);
    else if (validFromDate.getTime() > nowMs)
      found.failed(`${named} begins on ${validFromDate.toISOString()}`, `${remedy}, or set the clock right`);
    else if (validToDate.getTime() <= nowMs + soonMs)
      found.warning(`${named} ends on ${validToDate.toISOString()}`, "renew it");
  }
}

export const policy: Check = {
  remedy: "`policy check` says the same beside the files; until it is right the service does not start with it",
  async look(found) {
    const { policyDir } = found.load("policy_directory");
    const loaded = await loadPolicyDirectory(policyDir, fileSystem, found.load("policy"));
    const compiled = loaded.problems === undefined ? compilePolicyBundle(loaded.bundle, {}) : loaded;
    for (const problem of compiled.problems ?? []) found.failed(describeProblem(problem));
    if (compiled.problems !== undefined) return;
    const { policies, revision } = compiled.engine;
    compiled.engine.release();
    found.ok(`${policies.length} policies, revision ${revision}`);
  },
};
