/** Text of files and peers: characters that control a terminal or are invisible are escaped as in JSON. */

/** Controls, changes of text direction, line separators, and halves of characters. */
const unseen = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/** One line that cannot control a terminal (RFC 8259 section 7): JSON within it stays the same JSON. */
export function visibleLine(text: string): string {
  return text.replace(unseen, (character) =>
    Array.from({ length: character.length }, (_, i) => unitEscape(character.charCodeAt(i))).join(""),
  );
}

/** Whether all of it is visible, as names such as key references must be. */
export function isVisible(text: string): boolean {
  return visibleLine(text) === text;
}

function unitEscape(unit: number): string {
  return `\\u${unit.toString(16).padStart(4, "0")}`;
}
