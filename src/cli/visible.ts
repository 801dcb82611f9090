/** Text of callers, tenants and files, before a person's terminal sees it. */

/** Controls, what turns the direction of text, and separators that terminals take for the end of a line. */
const unseen = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu;

/**
 * One line: whatever would steer a terminal, end the line or show it in another order is written as JSON escapes it
 * (RFC 8259 §7), so that JSON within it stays the same JSON.
 */
export function visibleLine(line: string): string {
  return line.replace(unseen, escaped);
}

/** The same for several lines: newlines and tabs stay what they are. */
export function visibleText(text: string): string {
  return text.replace(unseen, (character) =>
    character === "\n" || character === "\t" ? character : escaped(character),
  );
}

function escaped(character: string): string {
  return Array.from({ length: character.length }, (_, i) => unitEscape(character.charCodeAt(i))).join("");
}

function unitEscape(unit: number): string {
  return `\\u${unit.toString(16).padStart(4, "0")}`;
}
