/** Handling of unexpected errors, and of libraries' console output. */
import { format } from "node:util";
import { ServiceError } from "../base/errors.ts";
import { Connection } from "../http/connection.ts";
import type { Logger } from "../telemetry/logger.ts";

/**
 * A defect in the work for one connection ends that connection. A refusal in an unhandled promise rejection is the
 * answer to one call, even if work shared by several calls rejects it later: it is logged, and the service continues.
 * After any other defect the state is unknown, so `stop` is called. Returns a function that ends the watch.
 */
export function watchDefects(logger: Logger, stop: () => void): () => void {
  const onDefect = (error: unknown, origin: NodeJS.UncaughtExceptionOrigin) => {
    const connection = Connection.current();
    if (connection !== undefined) return connection.fail(error);
    if (origin === "unhandledRejection" && error instanceof ServiceError)
      return logger.error({ err: error }, "unexpected error: a refusal reached no caller");
    logger.fatal({ err: error }, "unexpected error: stopping");
    stop();
  };
  process.on("uncaughtException", onDefect);
  return () => process.off("uncaughtException", onDefect);
}

/**
 * Libraries print to the console, with stack traces, about events that any caller can cause, such as not waiting for an
 * answer. The call's log line covers these, and standard output has JSON lines only.
 */
export function logConsole(logger: Logger): void {
  const debug = (...given: unknown[]) => logger.debug({}, format(...given));
  Object.assign(globalThis.console, { log: debug, info: debug, warn: debug, error: debug });
}
