/**
 * Credentials hide in locators: `https://user:password@host/`, `…?X-Signature=…`, `…#access_token=…`. This takes them
 * out of any text, URL or not, before it is recorded.
 */

/**
 * The locator without user information, query string, fragment and control characters; empty where nothing is left.
 *
 * Works on the text rather than on a parsed URL: parsers disagree on what is malformed, and a credential must not
 * survive because one of them gave up. So it errs towards removing:
 * - everything from the first `?` or `#` on. A fragment goes too: presigned links and link-shared keys use it.
 * - everything up to the last `@` (or `%40`) of whatever could be an authority: the first segment, a segment after two
 *   or more slashes (either way round, anywhere, as in `jdbc:postgresql://user:pw@host/db`) or after `scheme:/`.
 * - an authority that is no `host` or `host:port` afterwards: what follows its colon may be half of a password.
 * Other `@` are kept: `s3://bucket/jane@example.com.tdf` stays as it is.
 *
 * The result is stable: stripping it again changes nothing.
 */
export function stripLocator(locator: string): string {
  const bare = removeControls(locator);
  const end = bare.search(/[?#]/);
  const parts = (end === -1 ? bare : bare.slice(0, end)).split(/([\\/]+)/);
  // Segments stand at even places, the slashes between them at odd ones.
  for (let i = 0; i < parts.length; i += 2) {
    const segment = parts[i] ?? "";
    if (i === 0) parts[i] = withoutUser(segment);
    else if (isAuthorityPlace(parts, i)) parts[i] = hostOnly(withoutUser(segment));
  }
  return parts.join("").trim();
}

/** Tab and line breaks are invisible to URL parsers, so they could hide a scheme or a slash from the rules above. */
function removeControls(text: string): string {
  return Array.from(text)
    .filter((character) => character > "\u001f" && character !== "\u007f")
    .join("")
    .trim();
}

function isAuthorityPlace(parts: readonly string[], index: number): boolean {
  const before = parts[index - 2] ?? "";
  const slashes = parts[index - 1] ?? "";
  // A segment that is empty, or was emptied, makes its slashes and the next ones one run.
  if (slashes.length > 1 || (before === "" && index > 2)) return true;
  const isDrive = index === 2 && /^[A-Za-z]:$/.test(before);
  return before.endsWith(":") && !isDrive;
}

function withoutUser(segment: string): string {
  const [plain, encoded] = [segment.lastIndexOf("@"), segment.lastIndexOf("%40")];
  const end = Math.max(plain === -1 ? -1 : plain + 1, encoded === -1 ? -1 : encoded + 3);
  return end === -1 ? segment : segment.slice(end);
}

/** Nothing where the authority is no `host` or `host:port`. */
function hostOnly(authority: string): string {
  return /^(?:\[[0-9A-Fa-f:.%]*\]|[^:]*)(?::\d*)?$/.test(authority) ? authority : "";
}
