/** Text of others that is shown to a person: characters that would control a terminal or reorder a line are escaped. */

/** Control characters, characters that change text direction, line separators of terminals, and lone surrogates. */
const unseen = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/gu;

/**
 * One line: characters that would control a terminal, end the line or reorder it are written as JSON escapes (RFC 8259
 * §7), so that JSON within it keeps its value.
 */
export function visibleLine(line: string): string {
  return line.replace(unseen, escaped);
}

/** The same for several lines: newlines and tabs are kept. */
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

/** A number for people, with a comma at each thousand. */
export function grouped(value: number): string {
  return value.toLocaleString("en-US");
}

/** A number of things: `1 record`, `2 records`. */
export function plural(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`;
}

/** The first names, and how many there are besides. */
export function listed(names: readonly string[], most = 10): string {
  const more = names.length - most;
  return `${names.slice(0, most).join(", ")}${more > 0 ? ` and ${more} more` : ""}`;
}
