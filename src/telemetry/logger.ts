/** Structured logs: one JSON object a line. */
import { type DestinationStream, pino } from "pino";
import { scrub } from "./scrub.ts";
import { serializeError } from "./serialize-error.ts";

/**
 * Members of a line. `err` takes anything that was thrown. Nobody passes headers, tokens, secrets, labels or
 * attributes.
 */
export type LogFields = Readonly<Record<string, unknown>>;

export type LogLevel = "trace" | "debug" | "info" | "warn" | "error" | "fatal";

/** Writes lines. Never throws, and never waits for whoever reads them. */
export interface Logger {
  trace(fields: LogFields, message: string): void;
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  fatal(fields: LogFields, message: string): void;
  /** A logger whose every line carries these members too. */
  child(fields: LogFields): Logger;
}

/** The logger that the process owns. */
export interface RootLogger extends Logger {
  /**
   * Resolves when everything that was logged has been handed to the system. What is logged afterwards is lost. Waits
   * for the reader of standard output as long as that takes.
   */
  close(): Promise<void>;
}

export interface LoggerOptions {
  /** Least severe level that is written. */
  readonly level: LogLevel;
  /** Name of the service, in every line. */
  readonly serviceName: string;
  /** Members that every line carries besides. */
  readonly fields?: LogFields;
  /** Where lines go, each with its newline; standard output unless given. */
  readonly destination?: DestinationStream;
}

/** Bytes that wait for a slow reader of standard output; beyond, lines are dropped rather than memory filled. */
const maxBufferedBytes = 16 * 1024 * 1024;

/** Makes the logger. Times are RFC 3339 in UTC, levels are words. */
export function createLogger({ level, serviceName, fields, destination }: LoggerOptions): RootLogger {
  const output = destination === undefined ? openStandardOutput() : { stream: destination, close: async () => {} };
  const logger: Logger = pino(
    {
      level,
      base: { service: serviceName, ...fields },
      timestamp: pino.stdTimeFunctions.isoTime,
      messageKey: "message",
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: serializeError },
      hooks: { streamWrite: scrub },
    },
    output.stream,
  );
  return Object.assign(logger, { close: output.close });
}

function openStandardOutput() {
  const output = pino.destination({ dest: 1, sync: false, maxLength: maxBufferedBytes });
  const stream = writeOnceATurn(output);
  // Whoever stops reading ends the log, not the service: pino swallows the error, and nothing is ever written again.
  const { promise: ended, resolve } = Promise.withResolvers<void>();
  output.once("close", resolve);
  output.once("error", resolve);
  return {
    stream,
    close: () => {
      stream.handOver();
      output.end();
      return ended;
    },
  };
}

/** A destination that can be told to write at once. */
export interface LineOutput extends DestinationStream {
  flushSync(): void;
}

/**
 * Hands the lines of one turn of the event loop on together: under load answers go out many at a time, and a write for
 * each line costs more than making the line. `schedule` calls back when the turn is over.
 */
export function writeOnceATurn(output: LineOutput, schedule: (handOver: () => void) => void = setImmediate) {
  let lines = "";
  const handOver = () => {
    const waiting = lines;
    lines = "";
    if (waiting !== "") output.write(waiting);
  };
  return {
    handOver,
    write(line: string): void {
      if (lines === "") schedule(handOver);
      lines += line;
    },
    /** pino calls it after a line of level `fatal`. */
    flushSync(): void {
      handOver();
      output.flushSync();
    },
  };
}
