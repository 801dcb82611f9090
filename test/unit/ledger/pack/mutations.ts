/** Seeded changes of packs and receipts: of any byte, of any member, of the order of lines. */
import type { PackLine } from "../../../../src/ledger/pack/format.ts";

/** One of the values that may stand in the place of another. */
export function otherValue(value: unknown, next: (below: number) => number): unknown {
  if (typeof value === "number") return [value + 1, value - 1, -value, value + 0.5, `${value}`, null][next(6)];
  if (typeof value === "string") return otherText(value, next);
  if (Array.isArray(value)) {
    const copy = [...value];
    const place = next(copy.length + 1);
    return [copy.toSpliced(place, 1), copy.toReversed(), [...copy, copy[0] ?? ""], [], null, "x"][next(6)];
  }
  return [undefined, null, true, false, 0, "", {}, []][next(8)];
}

function otherText(text: string, next: (below: number) => number): unknown {
  const place = next(text.length || 1);
  const flipped = String.fromCharCode(text.charCodeAt(place) ^ (1 << next(7)));
  const choices = [
    text.slice(0, place) + flipped + text.slice(place + 1),
    text.slice(0, place) + text.slice(place + 1),
    text.slice(0, place) + text.charAt(place) + text.slice(place),
    `${text} `,
    `${text}=`,
    text.replace(/[a-z]/, (letter) => letter.toUpperCase()),
    "",
    null,
    7,
    undefined,
  ];
  return choices[next(choices.length)];
}

/** Changes one member of one line, or which lines there are. The end is not sealed again. */
export function changedLines(lines: readonly PackLine[], next: (below: number) => number): readonly PackLine[] {
  const place = next(lines.length - 1);
  const line = lines[place] as PackLine;
  switch (next(8)) {
    case 0:
      return lines.toSpliced(place, 1);
    case 1:
      return lines.toSpliced(place, 0, line);
    case 2:
      return lines.toSpliced(place, 2, ...lines.slice(place, place + 2).toReversed());
    case 3:
      return lines.with(place, {
        ...line,
        [["erased", "gap", "note", "content", "record"][next(5)] as string]: true,
      } as never);
    default: {
      const names = Object.keys(line);
      const name = names[next(names.length)] as keyof PackLine;
      return lines.with(place, { ...line, [name]: otherValue(line[name], next) } as never);
    }
  }
}
