/**
 * Removes credentials from locators, such as `https://user:password@host/`, `…?X-Signature=…`, `…#access_token=…`.
 * Works on any text, URL or not, before it is recorded.
 */

/**
 * Returns the locator without user information, query string, fragment and control characters; empty if nothing is
 * left.
 *
 * Works on the text instead of a parsed URL: parsers disagree on what is malformed, and a credential must not survive
 * because one of them gave up. So it removes too much rather than too little:
 * - everything from the first `?` or `#` on, fragments included: presigned links and link-shared keys use them.
 * - everything up to the last `@` (or `%40`) of a possible authority: the first segment, a segment after two or more
 *   slashes (of either kind, anywhere, as in `jdbc:postgresql://user:pw@host/db`) or after `scheme:/`.
 * - an authority that is not `host` or `host:port` afterwards: what follows its colon may be half of a password. Other
 *   `@` are kept: `s3://bucket/jane@example.com.tdf` stays as it is.
 *
 * Idempotent.
 */
export function stripLocator(locator: string): string {
  const bare = removeControls(locator);
  const end = bare.search(/[?#]/);
  const parts = (end === -1 ? bare : bare.slice(0, end)).split(/([\\/]+)/);
  // Segments have even indexes, the slashes between them odd ones.
  for (let i = 0; i < parts.length; i += 2) {
    const segment = parts[i] ?? "";
    if (i === 0) parts[i] = withoutUser(segment);
    else if (isAuthorityPlace(parts, i)) parts[i] = hostOnly(withoutUser(segment));
  }
  return parts.join("").trim();
}

/** URL parsers ignore tabs and line breaks, so they could hide a scheme or a slash from the rules above. */
function removeControls(text: string): string {
  return Array.from(text)
    .filter((character) => character > "\u001f" && character !== "\u007f")
    .join("")
    .trim();
}

function isAuthorityPlace(parts: readonly string[], index: number): boolean {
  const before = parts[index - 2] ?? "";
  const slashes = parts[index - 1] ?? "";
  // The slashes around an empty segment count as one run.
  if (slashes.length > 1 || (before === "" && index > 2)) return true;
  const isDrive = index === 2 && /^[A-Za-z]:$/.test(before);
  return before.endsWith(":") && !isDrive;
}

function withoutUser(segment: string): string {
  const [plain, encoded] = [segment.lastIndexOf("@"), segment.lastIndexOf("%40")];
  const end = Math.max(plain === -1 ? -1 : plain + 1, encoded === -1 ? -1 : encoded + 3);
  return end === -1 ? segment : segment.slice(end);
}

/** Returns the empty text if the authority is not `host` or `host:port`. */
function hostOnly(authority: string): string {
  return /^(?:\[[0-9A-Fa-f:.%]*\]|[^:]*)(?::\d*)?$/.test(authority) ? authority : "";
}
