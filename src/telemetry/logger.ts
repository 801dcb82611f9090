/** Structured logs: one JSON object per line. */
import { type DestinationStream, pino } from "pino";
import { ServiceError } from "../base/errors.ts";

/** Members of a line. `err` takes any thrown value. Never pass headers, tokens, secrets, labels or attributes. */
export type LogFields = Readonly<Record<string, unknown>>;

export type LogLevel = "trace" | keyof Logger;

/** Writes lines. Never throws, and never waits for the reader. */
export type Logger = Readonly<
  Record<"debug" | "info" | "warn" | "error" | "fatal", (fields: LogFields, message: string) => void>
>;

export interface RootLogger extends Logger {
  /** Resolves when everything logged has been passed to the system. Later lines are lost. */
  close(): Promise<void>;
}

export interface LoggerOptions {
  /** Least severe level that is written. */
  readonly level: LogLevel;
  readonly serviceName: string;
  /** Destination of lines, each with its newline. Default: standard output. */
  readonly destination?: DestinationStream;
}

/** Most bytes buffered for a slow reader of standard output; further lines are dropped. */
const maxBufferedBytes = 16 * 1024 * 1024;

/** Creates the logger. Times are RFC 3339 in UTC, levels are words. */
export function createLogger({ level, serviceName, destination }: LoggerOptions): RootLogger {
  const output = destination === undefined ? openStandardOutput() : { stream: destination, close: async () => {} };
  const logger: Logger = pino(
    {
      level,
      base: { service: serviceName },
      timestamp: pino.stdTimeFunctions.isoTime,
      messageKey: "message",
      formatters: { level: (label) => ({ level: label }) },
      serializers: { err: (thrown: unknown) => serializeError(thrown) },
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

// Removes secrets from finished log lines. This is the second defense; the first is not to pass them to the logger.
// Every pattern takes linear time: repetitions are bounded, or never backtrack.

const cut = "[cut]";

/** Names of members and parameters with credentials or data. */
const secretNames =
  "authorization|cookie|dpop|client_secret|client_assertion|access_token|refresh_token|id_token|token|password|" +
  "secret|private_key|artifact_object_b64|mtls-client-certificate";

const rules: readonly (readonly [RegExp, string])[] = [
  // A member of the line; then one of JSON text within a string of the line, with escaped quotes and backslashes.
  [new RegExp(String.raw`((?:${secretNames})"\s*:\s*)"(?:[^"\\]|\\.)*"`, "gi"), `$1"${cut}"`],
  [
    new RegExp(String.raw`((?:${secretNames})\\"\s*:\s*)\\"(?:[^"\\]|\\\\(?:\\.|[^\\])|\\[^"\\])*\\"`, "gi"),
    `$1\\"${cut}\\"`,
  ],
  // A parameter of a form or a query.
  [new RegExp(String.raw`(${secretNames})=[^&\s"\\]+`, "gi"), `$1=${cut}`],
  [/\b(bearer|dpop|basic) +[A-Za-z0-9._~+/=-]{6,}/gi, `$1 ${cut}`],
  // JSON Web Tokens and the like: base64url parts, the first of which is a JSON object.
  [/eyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)*/g, cut],
  // PEM with line ends escaped by JSON; then URL-encoded.
  [/-----BEGIN [A-Z0-9 ]{1,40}-----(?:\\[nr]|[A-Za-z0-9+/= ])*/g, cut],
  [/-----BEGIN(?:%20|\+)[A-Za-z0-9%+/=_.~-]+/g, cut],
  // User information of a URL.
  [/(:\/\/)[^/\s@"\\]{1,512}@/g, `$1${cut}@`],
];

/** Marks without which no rule can match. Most lines have none; the test costs a third of the rules. */
const marks = / |eyJ|-----BEGIN|:\/\//;
const secretName = new RegExp(secretNames, "i");

/** Returns the JSON line without credentials; still one line of valid JSON. */
export function scrub(line: string): string {
  return marks.test(line) || secretName.test(line) ? applyRules(line) : line;
}

/** `scrub` without the test for marks. */
export function applyRules(line: string): string {
  let clean = line;
  for (const [pattern, replacement] of rules) clean = clean.replace(pattern, replacement);
  return clean;
}

interface LoggedError {
  readonly type: string;
  readonly message: string;
  readonly stack?: string;
  /** Code of a system or library error, such as `ECONNREFUSED`. */
  readonly code?: string;
  /** Reason of a refusal. */
  readonly reason?: string;
  readonly cause?: LoggedError;
  /** Members of an `AggregateError`. */
  readonly errors?: readonly LoggedError[];
}

/** Causes beyond this depth, and aggregated errors beyond this number, are left out. */
const limit = 5;

/** Keeps message, stack, code and causes only: errors of HTTP libraries have headers. Accepts any value. */
function serializeError(thrown: unknown, depth = 0): LoggedError {
  if (!(thrown instanceof Error)) return { type: typeof thrown, message: typeof thrown === "string" ? thrown : "" };
  const code = "code" in thrown && isCode(thrown.code) ? String(thrown.code) : undefined;
  const below = depth < limit;
  return {
    type: thrown.name,
    message: thrown.message,
    // Some errors have no stack, only the message again.
    ...(thrown.stack?.includes("\n    at ") === true && { stack: thrown.stack }),
    ...(code !== undefined && { code }),
    ...(thrown instanceof ServiceError && { reason: thrown.reason }),
    ...(below && thrown.cause !== undefined && { cause: serializeError(thrown.cause, depth + 1) }),
    ...(below &&
      thrown instanceof AggregateError && {
        errors: thrown.errors.slice(0, limit).map((error) => serializeError(error, depth + 1)),
      }),
  };
}

/** Longest text of a cause, in characters. */
const maxCauseLength = 200;

/** Describes the cause of a refusal in a few words; only defects are logged with a stack. */
export function describeCause(cause: unknown): string | undefined {
  return cause instanceof Error ? `${cause.name}: ${cause.message}`.slice(0, maxCauseLength) : undefined;
}

function isCode(code: unknown): code is string | number {
  return typeof code === "number" || (typeof code === "string" && code.length <= 64);
}
