/** Runs the service in this process until a signal stops it. */
import { build, logConsole, watchDefects } from "../app/app.ts";
import type { FirstPolicy } from "../app/first-policy.ts";
import type { ConfigFor } from "../config/config.ts";
import { openSecretFiles } from "../config/files.ts";
import { startedByNpm, systemFiles } from "../config/load.ts";
import { settings } from "../config/settings.ts";
import type { TracingRead } from "../config/tracing.ts";
import { startUpIsOver } from "../runtime/runtime.ts";

interface ServeOptions extends Exclude<TracingRead, { readonly problems: unknown }> {
  readonly config: ConfigFor<"serve">;
  readonly policy: Promise<FirstPolicy>;
}

/** Longest time that background work of a library may delay the end of the process, in milliseconds. */
const leftoversMs = 1000;

/**
 * Listens, and resolves when SIGTERM or SIGINT has stopped the service. The exit code is 0 if everything in flight
 * finished within the grace period, and 1 if something was cut off. A second signal ends the process at once. SIGHUP
 * reloads the watched files and the policy directories without waiting for a poll. Rejects if the service cannot start.
 */
export async function serve({ config, policy, tracing, warnings }: ServeOptions): Promise<void> {
  const stop = Promise.withResolvers<NodeJS.Signals>();
  stopOnSignal(stop.resolve);
  const app = await build(config, { policy, ...(tracing && { tracing }) });
  logConsole(app.logger);
  for (const { key, message } of openSecretFiles(config, systemFiles))
    app.logger.warn({}, `${settings[key].name}: ${message}`);
  for (const warning of warnings) app.logger.warn({}, warning);
  const end = () => {
    process.exitCode = 1;
    stop.resolve("SIGTERM");
  };
  const unwatch = watchDefects(app.logger, end);
  if (startedByNpm()) stopWithParent(() => stop.resolve("SIGTERM"));
  const { url, opsUrl } = await app.listen().catch(async (error: unknown) => {
    await app.close();
    throw error;
  });
  const onReload = () => void app.reload();
  process.on("SIGHUP", onReload);
  startUpIsOver();
  app.logger.info({ url, ops_url: opsUrl, pid: process.pid }, "listening");
  const signal = await stop.promise;
  app.logger.info({ signal }, "stopping");
  const clean = await app.close();
  process.off("SIGHUP", onReload);
  unwatch();
  if (!clean) process.exitCode = 1;
  // The exporter's retry delay would keep the process running.
  if (tracing !== undefined) setTimeout(() => process.exit(), leftoversMs).unref();
}

/** Calls `stop` with the first SIGTERM or SIGINT. The next one of either kind ends the process, which has no listener. */
export function stopOnSignal(stop: (signal: NodeJS.Signals) => void): void {
  const signals = ["SIGTERM", "SIGINT"] as const;
  const onStop = (signal: NodeJS.Signals) => {
    for (const each of signals) process.off(each, onStop);
    stop(signal);
  };
  for (const signal of signals) process.on(signal, onStop);
}

/**
 * npm starts a script through a shell and on stop ends that shell, but not its children: an orphaned service would keep
 * its port and store unnoticed.
 */
export function stopWithParent(stop: () => void): void {
  const parent = process.ppid;
  const watch = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(watch);
    stop();
  }, 250);
  watch.unref();
}
