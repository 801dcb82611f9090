/**
 * Parses JSON; throws `SyntaxError`. `JSON.parse` may give a member with an escape in its name another name: V8 takes the
 * name for an earlier one that its text begins with, as `"\""` for `\` (https://github.com/nodejs/node/issues/63785).
 */
export function parseJson(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (!text.includes("\\")) return value;
  const names = new Map<string, number>();
  let hasEscapes = false;
  const numbered = text.replace(/("[^"\\]*(?:\\.[^"\\]*)*")(\s*:)?/g, (token, quoted: string, colon?: string) => {
    if (colon === undefined) return token;
    const isEscaped = quoted.includes("\\");
    hasEscapes ||= isEscaped;
    const name = isEscaped ? (JSON.parse(quoted) as string) : quoted.slice(1, -1);
    if (!names.has(name)) names.set(name, names.size);
    return `"#${names.get(name)}":`;
  });
  if (!hasEscapes) return value;
  const byNumber = [...names.keys()];
  return JSON.parse(numbered, (_, object) =>
    typeof object === "object" && object !== null && !Array.isArray(object)
      ? Object.fromEntries(
          Object.entries(object).map(([number, member]) => [byNumber[Number(number.slice(1))], member]),
        )
      : object,
  );
}
