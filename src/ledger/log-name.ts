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
