/** The short name of a log: the random part of its origin. It tells nothing of its tenant, and is part of URLs. */
declare const brand: unique symbol;

/** 32 hexadecimal digits. */
export type LogName = string & { readonly [brand]: "LogName" };

/** Returns the name, or undefined where the text is none. */
export function parseLogName(text: string): LogName | undefined {
  return /^[0-9a-f]{32}$/.test(text) ? (text as LogName) : undefined;
}

/** Name of the log with this origin. Throws a RangeError for an origin that this service did not make. */
export function logNameOf(origin: string): LogName {
  const name = parseLogName(origin.slice(origin.lastIndexOf("/") + 1));
  if (name === undefined) throw new RangeError("The origin is no log's of this service.");
  return name;
}

/** A log's origin is the key name of its signed notes (C2SP signed-note): no spaces, no plus sign. */
const originPrefixPattern = /^[^\s+/]([^\s+]*[^\s+/])?$/u;

/**
 * Says what is wrong with opening new logs under a prefix, for the operator; undefined where a log of the store stands
 * under it already, or there is none. A store whose logs stand under two names confuses those who verify them, and the
 * wrong name is never taken back.
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
    : `SVC_LEDGER_ORIGIN: is ${prefix}, but the logs of this store stand under ${other}, and keep that name`;
}

/** Throws a RangeError for a text that origins cannot begin with. */
export function requireOriginPrefix(text: string): void {
  if (!originPrefixPattern.test(text))
    throw new RangeError("The ledger's origin is one or more segments without spaces and plus signs.");
}
