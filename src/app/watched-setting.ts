/** Opens files named by settings that a running service watches for changes. */
import { readFile, stat } from "node:fs/promises";
import type { Timers } from "../base/timers.ts";
import { WatchedFile } from "../files/watched-file.ts";
import type { Logger } from "../telemetry/logger.ts";

/** Opens the file. Rejects, naming the setting, where it is invalid; later invalid content is logged and ignored. */
export function openWatchedSetting<Content>(
  setting: string,
  path: string,
  parse: (text: string) => Content | Promise<Content>,
  { timers, logger }: { readonly timers: Timers; readonly logger: Pick<Logger, "error"> },
): Promise<WatchedFile<Content>> {
  return WatchedFile.open({
    path,
    parse,
    files: { stat, readFile },
    timers,
    onProblem: (problem) => logger.error({ setting, problem }, "a file is not followed: what it said before stands"),
  }).catch((error: unknown) => {
    throw new Error(`${setting}: ${error instanceof Error ? error.message : "cannot be read"}`, { cause: error });
  });
}
