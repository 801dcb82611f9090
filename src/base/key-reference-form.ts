/**
 * Spellings of key references. A rule about a key's name is only effective if the key has one name, but URIs have many
 * equivalent spellings (RFC 3986 §6.2, and what clients do besides).
 */

/** Characters of a path segment (RFC 3986 §3.3), without percent-encoding; no segment is empty, `.` or `..`. */
const segment = String.raw`(?!\.{1,2}(?:/|$))[A-Za-z0-9._~!$&'()*+,;=:@-]+`;
const scheme = "[a-z][a-z0-9+.-]*";
const label = "[a-z0-9_~-]+";
const withAuthority = new RegExp(String.raw`^${scheme}://${label}(?:\.${label})*(?:/${segment})*$`);
const opaque = new RegExp(`^${scheme}:${segment}(?:/${segment})*$`);
const plain = new RegExp(`^/?${segment}(?:/${segment})*$`);
const beginsWithScheme = /^[A-Za-z][A-Za-z0-9+.-]*:/;

/**
 * Whether the text is the canonical spelling: ASCII; scheme and authority lowercase; no user, port, trailing dot,
 * query, fragment, percent sign, empty or dot segment.
 *
 * @param needsAuthority whether it must have the form `scheme://authority`
 */
export function isCanonicalKeyReference(text: string, needsAuthority = false): boolean {
  if (withAuthority.test(text)) return true;
  if (needsAuthority) return false;
  return beginsWithScheme.test(text) ? opaque.test(text) : plain.test(text);
}

/** Returns the scheme as spelled; undefined if there is none. */
export function schemeOf(text: string): string | undefined {
  return beginsWithScheme.exec(text)?.[0].slice(0, -1);
}

/** Replaces bytes that are not text in a loose form; they may split another layer of encoding. */
export const unreadable = "\ufffd";

/** What other parsers may read: lowercase, no invisible characters or percent-encoding, Unicode NFKC. */
export function looseForm(text: string): string {
  let loose = text;
  let outer: string;
  do {
    outer = loose;
    loose = withoutPercentEncoding(outer.normalize("NFKC").replace(/[\s\p{C}\p{Default_Ignorable_Code_Point}]/gu, ""));
  } while (loose !== outer);
  return loose.replaceAll("\\", "/").toLowerCase();
}

/** Removes every layer of encoding, byte by byte: the bytes of one character may be in different layers. */
function withoutPercentEncoding(text: string): string {
  let bytes = Buffer.from(text).toString("latin1");
  let outer: string;
  do {
    outer = bytes;
    bytes = outer.replace(/%([0-9a-f]{2})/gi, (_all, hex: string) => String.fromCharCode(Number.parseInt(hex, 16)));
  } while (bytes !== outer);
  return Buffer.from(bytes, "latin1").toString();
}

/** Removes user, port, trailing dot, query, fragment, empty and dot segments from a loose form. */
export function resolvedForm(loose: string): string {
  const [, start = "", rest = ""] = /^([a-z][a-z0-9+.-]*:)?(.*)$/s.exec(loose.replace(/[?#].*$/s, "")) ?? [];
  const hasAuthority = rest.startsWith("//");
  const root = start === "" && rest.startsWith("/") ? "/" : "";
  const segments: string[] = [];
  for (const part of rest.split("/")) {
    if (part === "..") segments.pop();
    else if (part !== "" && part !== ".") segments.push(part);
  }
  const [first = "", ...others] = segments;
  const authority = first.replace(/^.*@/s, "").replace(/:\d*$/, "").replace(/\.+$/, "");
  return hasAuthority ? `${start}//${[authority, ...others].join("/")}` : start + root + segments.join("/");
}
