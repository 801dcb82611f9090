/** Markup of which every value is text. */
import { visibleLine } from "./visible-text.ts";

const entities: Readonly<Record<string, string>> = {
  "&": "&amp;",
  "<": "&lt;",
  ">": "&gt;",
  '"': "&quot;",
  "'": "&#39;",
};

/** Markup that `html` made. */
export class Markup {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

type Value = string | number | Markup | readonly Markup[];

/**
 * Markup of a template. Values are escaped for elements and for attributes in double quotes; characters that would
 * reorder a line are shown as escapes.
 */
export function html(texts: TemplateStringsArray, ...values: readonly Value[]): Markup {
  return new Markup(texts.map((text, at) => text + textOf(values[at] ?? "")).join(""));
}

function textOf(value: Value): string {
  if (value instanceof Markup) return value.text;
  if (typeof value === "object") return value.map(({ text }) => text).join("");
  return visibleLine(String(value)).replace(/[&<>"']/g, (character) => entities[character] ?? "");
}
