/**
 * The second belt: what must never be logged is cut out of the finished line, wherever it stands. The first is that
 * nobody hands it to the logger. Every pattern runs in linear time on any text: repetitions are bounded, or never
 * have to be given back.
 */
const cut = "[cut]";

/** Members and parameters that hold credentials or data, whatever they are in. */
const secretNames =
  "authorization|cookie|dpop|client_secret|client_assertion|access_token|refresh_token|id_token|token|password|" +
  "secret|private_key|artifact_object_b64|mtls-client-certificate";

const rules: readonly (readonly [RegExp, string])[] = [
  // A member of the line; and one of a JSON text in a string of the line, where quotes and backslashes are escaped.
  [new RegExp(String.raw`((?:${secretNames})"\s*:\s*)"(?:[^"\\]|\\.)*"`, "gi"), `$1"${cut}"`],
  [
    new RegExp(String.raw`((?:${secretNames})\\"\s*:\s*)\\"(?:[^"\\]|\\\\(?:\\.|[^\\])|\\[^"\\])*\\"`, "gi"),
    `$1\\"${cut}\\"`,
  ],
  // A parameter of a form or a query.
  [new RegExp(String.raw`(${secretNames})=[^&\s"\\]+`, "gi"), `$1=${cut}`],
  [/\b(bearer|dpop|basic) +[A-Za-z0-9._~+/=-]{6,}/gi, `$1 ${cut}`],
  // JSON Web Tokens and their like: base64url parts, the first of which is a JSON object.
  [/eyJ[A-Za-z0-9_-]{6,}(?:\.[A-Za-z0-9_-]*)*/g, cut],
  // PEM, its line ends escaped by JSON; and URL-encoded.
  [/-----BEGIN [A-Z0-9 ]{1,40}-----(?:\\[nr]|[A-Za-z0-9+/= ])*/g, cut],
  [/-----BEGIN(?:%20|\+)[A-Za-z0-9%+/=_.~-]+/g, cut],
  // User information of a URL.
  [/(:\/\/)[^/\s@"\\]{1,512}@/g, `$1${cut}@`],
];

/**
 * What a line has in it where one of the rules may match: each rule asks for a secret name, or for one of the marks.
 * Most lines have neither, and to look for these costs a third of what the rules cost.
 */
const marks = / |eyJ|-----BEGIN|:\/\//;
const secretName = new RegExp(secretNames, "i");

/** The line of JSON without credentials. It stays one line of valid JSON. */
export function scrub(line: string): string {
  return marks.test(line) || secretName.test(line) ? applyRules(line) : line;
}

/** What `scrub` returns, found without looking first whether any rule could match. */
export function applyRules(line: string): string {
  let clean = line;
  for (const [pattern, replacement] of rules) clean = clean.replace(pattern, replacement);
  return clean;
}
