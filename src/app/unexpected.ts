/** What the service does with what nobody expected, and with what libraries say of it. */
import { format } from "node:util";
import { Connection } from "../base/connection.ts";
import { ServiceError } from "../base/errors.ts";
import type { Logger } from "../telemetry/logger.ts";

/**
 * A defect in the work for one connection ends that connection. A refusal that rejects a promise without a handler is the
 * answer to one call, even when work that calls share rejects it later: it is logged, and the service goes on. Any other
 * defect leaves it in an unknown state, so `stop` is called. Returns what ends this.
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
 * Libraries tell the console, stack and all, of what anybody may bring about, such as an answer that its caller does not
 * wait for. The call's own line says it already, and a log is JSON lines on standard output alone.
 */
export function logConsole(logger: Logger): void {
  const debug = (...given: unknown[]) => logger.debug({}, format(...given));
  Object.assign(globalThis.console, { log: debug, info: debug, warn: debug, error: debug });
}
