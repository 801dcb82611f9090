/**
 * Removes secrets from finished log lines. This is the second defense; the first is not to pass them to the logger.
 * Every pattern takes linear time: repetitions are bounded, or never backtrack.
 */
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
