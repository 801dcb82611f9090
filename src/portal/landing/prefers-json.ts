/**
 * Whether an `Accept` header asks for JSON rather than HTML (RFC 9110 §12.5.1). Without a preference it does not: a
 * person's browser always says `text/html`, and a bare `curl` is read by a person too.
 *
 * Does not weigh other parameters than `q`, which neither type has here.
 */
export function prefersJson(accept: string | undefined): boolean {
  if (accept === undefined) return false;
  const ranges = accept.split(",").map(parseRange);
  return quality(ranges, "application", "json") > quality(ranges, "text", "html");
}

interface Range {
  readonly type: string;
  readonly subtype: string;
  readonly quality: number;
}

function parseRange(text: string): Range {
  const [name = "", ...parameters] = text.split(";").map((part) => part.trim().toLowerCase());
  const [type = "", subtype = ""] = name.split("/");
  const weight = parameters.find((parameter) => parameter.startsWith("q="))?.slice(2);
  return { type, subtype, quality: weight === undefined ? 1 : Number(weight) || 0 };
}

/** Quality of a type: that of the most specific range that covers it. */
function quality(ranges: readonly Range[], type: string, subtype: string): number {
  const exact = ranges.find((range) => range.type === type && range.subtype === subtype);
  const family = ranges.find((range) => range.type === type && range.subtype === "*");
  const any = ranges.find((range) => range.type === "*" && range.subtype === "*");
  return (exact ?? family ?? any)?.quality ?? 0;
}
