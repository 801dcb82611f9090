/** The only module that reads the environment of the process. */
import { readFileSync, statSync } from "node:fs";
import { codeText, readRegularFile } from "../files/file-system.ts";
import { type ReadResult, readConfig, type Use } from "./config.ts";
import type { Files } from "./files.ts";
import { readTracing, type TracingRead } from "./tracing.ts";

/** The real file system. */
export const systemFiles: Files = {
  readText: readRegularFile,
  isDirectory: (path) => statSync(path).isDirectory(),
  permissions(path) {
    const found = statSync(path);
    // Windows has no permission bits; those of a directory are not those of a file.
    return process.platform === "win32" || !found.isFile() ? undefined : found.mode & 0o777;
  },
};

/** Reads the configuration of this process; `configPath` names the optional YAML file. */
export function loadConfig<U extends Use>(uses: U, configPath?: string): ReadResult<U> {
  const options = { uses, files: systemFiles };
  if (configPath === undefined) return readConfig(process.env, undefined, options);
  let text: string;
  try {
    text = readFileSync(configPath, "utf8");
  } catch (error) {
    return { problems: [`--config: ${configPath} cannot be read${codeText(error)}`] };
  }
  return readConfig(process.env, { path: configPath, text }, options);
}

/** Reads the trace settings in the environment of the process. */
export function loadTracing(): TracingRead {
  return readTracing(process.env, systemFiles);
}

/** Whether npm started this process: then npm's shell is between it and the sender of signals. */
export function startedByNpm(): boolean {
  return process.env.npm_lifecycle_event !== undefined;
}
