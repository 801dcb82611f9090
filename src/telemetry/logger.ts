/** Structured logs: one JSON object per line. */
import { type DestinationStream, pino } from "pino";
import { scrub } from "./scrub.ts";
import { serializeError } from "./serialize-error.ts";

/** Members of a line. `err` takes any thrown value. Never pass headers, tokens, secrets, labels or attributes. */
export type LogFields = Readonly<Record<string, unknown>>;

export type LogLevel = "trace" | "debug" | "info" | "warn" | "error" | "fatal";

/** Writes lines. Never throws, and never waits for the reader. */
export interface Logger {
  trace(fields: LogFields, message: string): void;
  debug(fields: LogFields, message: string): void;
  info(fields: LogFields, message: string): void;
  warn(fields: LogFields, message: string): void;
  error(fields: LogFields, message: string): void;
  fatal(fields: LogFields, message: string): void;
  /** Returns a logger that adds these members to every line. */
  child(fields: LogFields): Logger;
}

export interface RootLogger extends Logger {
  /** Resolves when everything logged has been passed to the system. Later lines are lost. */
  close(): Promise<void>;
}

export interface LoggerOptions {
  /** Least severe level that is written. */
  readonly level: LogLevel;
  readonly serviceName: string;
  readonly fields?: LogFields;
  /** Destination of lines, each with its newline. Default: standard output. */
  readonly destination?: DestinationStream;
}

/** Most bytes buffered for a slow reader of standard output; further lines are dropped. */
const maxBufferedBytes = 16 * 1024 * 1024;

/** Creates the logger. Times are RFC 3339 in UTC, levels are words. */
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
  // If the reader closes the pipe, the log ends, not the service: pino swallows the error and writes nothing more.
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

/** A destination with a synchronous flush. */
export interface LineOutput extends DestinationStream {
  flushSync(): void;
}

/**
 * Writes the lines of one turn of the event loop together: under load many answers are logged at a time, and a write
 * costs more than building a line. `schedule` calls back at the end of the turn.
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
    /** pino calls this after a line of level `fatal`. */
    flushSync(): void {
      handOver();
      output.flushSync();
    },
  };
}
