/** Reads a manifest's YAML: every scalar is text, every problem has its line. */
import { type Document, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from "yaml";
import type { PolicyProblem } from "../model/problem.ts";

/** Set names are folder names: no separator, not hidden, no parent folder. */
const setNamePattern = /^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$/;
/** Folder of the expected decisions; not a set. */
export const testsFolder = "tests";

/** Undefined for an absent member, null for one without a value. */
export type ManifestNode = Node | null | undefined;

/** Text of a scalar; empty for any other node. */
export function textOf(node: unknown): string {
  return isScalar(node) ? String(node.value) : "";
}

/** Texts of a list, empty ones among them; undefined for any other node. */
export function textsOf(node: ManifestNode): readonly string[] | undefined {
  return isSeq(node) ? node.items.map(textOf) : undefined;
}

/** The word that the node is; undefined if it is none of them. */
export function wordOf<Word extends string>(words: readonly Word[], node: ManifestNode): Word | undefined {
  return words.find((word) => isScalar(node) && node.value === word);
}

/** A YAML document whose scalars are all text, and the problems found in it so far. */
export class ManifestReader {
  readonly problems: PolicyProblem[] = [];
  readonly document: Document;
  readonly #file: string;
  readonly #lines = new LineCounter();

  constructor(file: string, text: string) {
    this.#file = file;
    // The failsafe schema converts no types: a tenant called 007 or no keeps its name.
    this.document = parseDocument(text, { schema: "failsafe", lineCounter: this.#lines, prettyErrors: false });
    for (const error of this.document.errors) {
      this.problems.push({ file, ...this.#positionOf(error.pos[0]), message: error.message });
    }
  }

  #positionOf(offset: number) {
    const { line, col: column } = this.#lines.linePos(offset);
    return { line, column };
  }

  problem(node: ManifestNode, message: string, hint?: string): void {
    const offset = node?.range?.[0];
    this.problems.push({
      file: this.#file,
      ...(offset !== undefined && this.#positionOf(offset)),
      message,
      ...(hint !== undefined && { hint }),
    });
  }

  /**
   * Members of a map by name; none, after reporting a problem, if the node is not a map.
   * @param known names that they may have; any if absent
   */
  members(node: ManifestNode, what: string, known?: readonly string[]): ReadonlyMap<string, Node | null> {
    if (!isMap(node)) {
      this.problem(node, `${what} must be a map`);
      return new Map();
    }
    const members = new Map(node.items.map(({ key, value }) => [textOf(key), value as Node | null] as const));
    for (const [name, member] of members) {
      if (known?.includes(name) === false)
        this.problem(member, `${what} has an unknown member ${name}`, `known: ${known.join(", ")}`);
    }
    return members;
  }

  setName(node: ManifestNode, what: string): string | undefined {
    const name = textOf(node);
    if (setNamePattern.test(name) && name !== testsFolder) return name;
    this.problem(
      node,
      `${what} must name a folder of the policy directory`,
      `letters, digits, hyphens and underscores; not "${testsFolder}", no path`,
    );
    return undefined;
  }

  /** Applies a parser that throws a RangeError to the node's text; undefined, after reporting a problem, if it does. */
  parse<Value>(node: ManifestNode, what: string, apply: (text: string) => Value): Value | undefined {
    try {
      if (!isScalar(node)) throw new RangeError("be text");
      return apply(String(node.value));
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      this.problem(node, `${what} must ${error.message}`);
      return undefined;
    }
  }
}
