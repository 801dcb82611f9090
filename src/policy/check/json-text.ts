/** Facts about valid JSON text that its parsed value does not show. */

/** Counts the members of all objects in the text, duplicates included. */
export function countMembers(text: string): number {
  let count = 0;
  for (let at = text.indexOf('"'); at >= 0; ) {
    let next = endOfString(text, at) + 1;
    while (isSpace(text.charCodeAt(next))) next++;
    if (text[next] === ":") count++;
    at = text.indexOf('"', next);
  }
  return count;
}

/** Line, from 1, on which an element of the text's list begins; of the last one if there are fewer. */
export function lineOfElement(text: string, position: number): number {
  let line = 1;
  let depth = 0;
  let commas = 0;
  for (let at = 0; at < text.length; at++) {
    const found = text[at] as string;
    if (found === "\n") line++;
    if (isSpace(text.charCodeAt(at))) continue;
    if (depth === 1 && found === ",") commas++;
    else if (depth === 1 && commas === position) return line;
    if (found === '"') at = endOfString(text, at);
    else if (found === "[" || found === "{") depth++;
    else if (found === "]" || found === "}") depth--;
  }
  return line;
}

/** Index of the closing quotation mark. */
function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (isEscaped(text, end)) end = text.indexOf('"', end + 1);
  return end < 0 ? text.length : end;
}

function isEscaped(text: string, at: number): boolean {
  let first = at;
  while (text[first - 1] === "\\") first--;
  return (at - first) % 2 === 1;
}

function isSpace(code: number): boolean {
  return code === 32 || code === 10 || code === 13 || code === 9;
}
