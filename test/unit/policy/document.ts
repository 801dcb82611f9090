/** What the pages about policies hold: their parts, and in each the files and commands in their order. */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { Files } from "./harness.ts";

export type Snippet =
  | { readonly kind: "file"; readonly path: string; readonly text: string }
  | { readonly kind: "console"; readonly fails: boolean; readonly command: string; readonly output: readonly string[] }
  /** Shown, and not run. */
  | { readonly kind: "text"; readonly text: string };

export interface Part {
  /** Headings from the second level down, such as `["Cases", "Residency"]`. */
  readonly headings: readonly string[];
  readonly snippets: readonly Snippet[];
}

/** Reads a page below `docs`. */
export function readPage(path: string): string {
  return readFileSync(join(import.meta.dirname, "../../../docs", path), "utf8");
}

/** The cookbook: the files that all cases share, and the cases. */
export function readCookbook(): { readonly base: Files; readonly cases: readonly Part[] } {
  const parts = parseDocument(readPage("how-to/policy-cookbook.md"));
  const base = parts.filter(({ headings }) => headings[0] === "Base").flatMap(({ snippets }) => snippets);
  return { base: filesOf(base), cases: parts.filter(({ headings }) => headings[1] !== undefined) };
}

/** Splits at headings. Throws on a fenced block that it has no use for: then something on the page is not tested. */
export function parseDocument(markdown: string): readonly Part[] {
  const parts: { headings: string[]; snippets: Snippet[] }[] = [{ headings: [], snippets: [] }];
  let chapter = "";
  for (const { 1: level, 2: heading, 3: info, 4: body } of markdown.matchAll(
    /^(##+) (.+)$|^```(.*)\n([\s\S]*?)^```$/gm,
  )) {
    if (level === "##") chapter = heading ?? "";
    if (level === "##") parts.push({ headings: [chapter], snippets: [] });
    else if (level !== undefined) parts.push({ headings: [chapter, heading ?? ""], snippets: [] });
    else parts.at(-1)?.snippets.push(snippetOf(info ?? "", body ?? ""));
  }
  return parts;
}

function snippetOf(info: string, body: string): Snippet {
  const [language = "", argument] = info.split(" ");
  if (["yaml", "cedar", "cedarschema", "json"].includes(language) && argument !== undefined) {
    return { kind: "file", path: argument, text: body };
  }
  if (language === "console") {
    const [first = "", ...output] = body.trimEnd().split("\n");
    return { kind: "console", fails: argument === "fails", command: first.replace(/^\$ /, ""), output };
  }
  if (language === "text") return { kind: "text", text: body };
  throw new Error(`a block "${info}" that no test runs`);
}

/** The files of the snippets, later ones in place of earlier ones. */
export function filesOf(snippets: readonly Snippet[]): Files {
  return Object.fromEntries(
    snippets.flatMap((snippet) => (snippet.kind === "file" ? [[snippet.path, snippet.text]] : [])),
  );
}
