/** Runs the service in this process until it is told to stop. */
import { format } from "node:util";
import { type App, build } from "../app/app.ts";
import { Connection } from "../base/connection.ts";
import { startedByNpm, systemFiles } from "../config/load.ts";
import { openSecretFiles } from "../config/secret-files.ts";
import { settings } from "../config/settings.ts";
import type { ConfigFor } from "../config/uses.ts";
import { startUpIsOver } from "../runtime.ts";

export interface ServeOptions {
  readonly config: ConfigFor<"serve">;
}

/**
 * Listens, and resolves when SIGTERM or SIGINT has stopped the service. The exit code is 0 where everything in flight
 * finished within the grace period, 1 where something had to be cut off. A second signal ends the process at once.
 * SIGHUP takes the policy directories as they are, without waiting to see them change. Rejects where the service cannot
 * start.
 */
export async function serve({ config }: ServeOptions): Promise<void> {
  const stop = Promise.withResolvers<NodeJS.Signals>();
  const signals = ["SIGTERM", "SIGINT"] as const;
  for (const signal of signals) process.once(signal, stop.resolve);
  const app = await build(config);
  logConsole(app);
  for (const { key, message } of openSecretFiles(config, systemFiles))
    app.logger.warn({}, `${settings[key].name}: ${message}`);
  // A defect in the work for one connection ends that. Any other must not take the service down in silence, nor leave
  // it half alive: the state is unknown, so it ends.
  const onDefect = (error: unknown) => {
    const connection = Connection.current();
    if (connection !== undefined) return connection.fail(error);
    app.logger.fatal({ err: error }, "unexpected error: stopping");
    process.exitCode = 1;
    stop.resolve("SIGTERM");
  };
  process.on("uncaughtException", onDefect);
  if (startedByNpm()) stopWithParent(() => stop.resolve("SIGTERM"));
  const { url, opsUrl } = await app.listen().catch(async (error: unknown) => {
    await app.close();
    throw error;
  });
  const onReload = () => void app.reloadPolicy();
  process.on("SIGHUP", onReload);
  startUpIsOver();
  app.logger.info({ url, ops_url: opsUrl, pid: process.pid }, "listening");
  const signal = await stop.promise;
  app.logger.info({ signal }, "stopping");
  const clean = await app.close();
  process.off("SIGHUP", onReload);
  process.off("uncaughtException", onDefect);
  if (!clean) process.exitCode = 1;
}

/**
 * Libraries tell the console, stack and all, of what anybody may bring about, such as an answer that its caller does not
 * wait for. The call's own line says it already, and a log is JSON lines on standard output alone.
 */
function logConsole({ logger }: App): void {
  const debug = (...given: unknown[]) => logger.debug({}, format(...given));
  Object.assign(globalThis.console, { log: debug, info: debug, warn: debug, error: debug });
}

/**
 * npm starts a script through a shell and ends that shell when it is told to stop, but not what the shell started: a
 * service whose shell is gone would live on, with port and store, unseen.
 */
function stopWithParent(stop: () => void): void {
  const parent = process.ppid;
  const watch = setInterval(() => {
    if (process.ppid === parent) return;
    clearInterval(watch);
    stop();
  }, 250);
  watch.unref();
}
