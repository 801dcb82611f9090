/** Text of files and peers: what a terminal would obey or not show is written as JSON escapes it. */

/** Controls, what turns the direction of text, separators that end a line, and halves of characters. */
const unseen = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** One line that steers no terminal (RFC 8259 section 7): JSON within it stays the same JSON. */
export function visibleLine(text: string): string {
  return text.replace(unseen, (character) =>
    Array.from({ length: character.length }, (_, i) => unitEscape(character.charCodeAt(i))).join(""),
  );
}

/** Whether all of it is shown as it is: required of names, such as references of keys. */
export function isVisible(text: string): boolean {
  return visibleLine(text) === text;
}

function unitEscape(unit: number): string {
  return `\\u${unit.toString(16).padStart(4, "0")}`;
}
