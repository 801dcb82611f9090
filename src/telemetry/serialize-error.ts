import { ServiceError } from "../base/errors.ts";

export interface LoggedError {
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
export function serializeError(thrown: unknown): LoggedError {
  return serialize(thrown, 0);
}

/** Longest text of a cause, in characters. */
const maxCauseLength = 200;

/** Describes the cause of a refusal in a few words; only defects are logged with a stack. */
export function describeCause(cause: unknown): string | undefined {
  return cause instanceof Error ? `${cause.name}: ${cause.message}`.slice(0, maxCauseLength) : undefined;
}

function serialize(thrown: unknown, depth: number): LoggedError {
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
    ...(below && thrown.cause !== undefined && { cause: serialize(thrown.cause, depth + 1) }),
    ...(below &&
      thrown instanceof AggregateError && {
        errors: thrown.errors.slice(0, limit).map((error) => serialize(error, depth + 1)),
      }),
  };
}

function isCode(code: unknown): code is string | number {
  return typeof code === "number" || (typeof code === "string" && code.length <= 64);
}
