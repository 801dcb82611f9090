/** The short name of a log: the random part of its origin. It reveals nothing about the tenant, and is part of URLs. */
declare const brand: unique symbol;

/** 32 hexadecimal digits. */
export type LogName = string & { readonly [brand]: "LogName" };

/** Undefined if the text is not a log name. */
export function parseLogName(text: string): LogName | undefined {
  return /^[0-9a-f]{32}$/.test(text) ? (text as LogName) : undefined;
}

/** Returns the name of the log with this origin. Throws a RangeError for an origin that this service did not create. */
export function logNameOf(origin: string): LogName {
  const name = parseLogName(origin.slice(origin.lastIndexOf("/") + 1));
  if (name === undefined) throw new RangeError("The origin does not belong to a log of this service.");
  return name;
}

/** A log's origin is the key name of its signed notes (C2SP signed-note): no spaces, no plus sign. */
const originPrefixPattern = /^[^\s+/]([^\s+]*[^\s+/])?$/u;

/**
 * Returns why new logs must not be opened under a prefix, for the operator; undefined if an existing log has it, or
 * there is none. Logs with two prefixes in one store confuse verifiers, and a wrong name is permanent.
 *
 * @param origins of every log of the store
 */
export function originPrefixProblem(origins: Iterable<string>, prefix: string): string | undefined {
  let other: string | undefined;
  for (const origin of origins) {
    other = origin.slice(0, origin.lastIndexOf("/"));
    if (other === prefix) return undefined;
  }
  return other === undefined
    ? undefined
    : `is ${prefix}, but the logs of this store have the prefix ${other}, and keep it`;
}

/** Throws a RangeError if origins cannot begin with the text. */
export function requireOriginPrefix(text: string): void {
  if (!originPrefixPattern.test(text))
    throw new RangeError("The ledger's origin is one or more segments without spaces and plus signs.");
}
