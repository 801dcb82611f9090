/** Questions that distinguish policies: built from compared values, values next to those, and others. */
import type { PatternElem } from "@cedar-policy/cedar-wasm/nodejs";
import type { Comparisons, Term } from "./terms.ts";

export type Value = string | number | boolean | undefined;

/** A scalar, or whether a set has a member. The first value is an unremarkable one. */
export interface Variable {
  readonly term: string;
  /** Member of the set. */
  readonly member?: string;
  /** Whether there is a set. */
  readonly isSet?: true;
  readonly values: readonly Value[];
}

/** A variable, and those of its values that a policy tests for. */
export interface AskedVariable extends Variable {
  readonly telling: readonly Value[];
}

const anything = "anything-else";

/** Returns the compared values, values next to them, and an unremarkable one, which comes first. */
export function variablesOf({ terms, values, patterns, principals }: Comparisons): readonly AskedVariable[] {
  const variables = [...terms.values()].flatMap((term): readonly AskedVariable[] => {
    const own = [...(values.get(term.name) ?? [])];
    const texts = [
      ...own.filter((value) => typeof value === "string"),
      ...(patterns.get(term.name) ?? []).flatMap(textsLike),
    ];
    return variablesOfTerm(
      term,
      texts,
      own.filter((value) => typeof value === "number"),
    );
  });
  const named = [...principals].map((uid) => uid.split("/", 2) as [string, string]);
  if (named.length === 0) return variables;
  const ids = (term: string, telling: readonly string[]) => ({ term, telling, values: [anything, ...telling] });
  return [
    ...variables.filter(({ term }) => term !== "caller.principal_id"),
    ids(
      "caller.tenant_id",
      named.map(([tenant]) => tenant),
    ),
    ids(
      "caller.principal_id",
      named.map(([, id]) => id),
    ),
  ];
}

function variablesOfTerm(
  { name, kind, optional, words, least, mayBeEmpty }: Term,
  texts: readonly string[],
  points: readonly number[],
): readonly AskedVariable[] {
  const absent: readonly Value[] = optional ? [undefined] : [];
  const scalar = (telling: readonly Value[], others: readonly Value[]) => [
    { term: name, telling, values: [...absent, ...others, ...telling] },
  ];
  switch (kind) {
    case "record":
      return scalar([true], []);
    case "yes_no":
      return scalar([true, false], []);
    case "whole_number": {
      const near = points.flatMap((point) => [point, point - 1, point + 1]);
      const possible = near.filter((value) => Number.isSafeInteger(value) && (least === undefined || value >= least));
      return scalar([...possible, 1], [0]);
    }
    case "text": {
      if (words !== undefined) return scalar(words, []);
      const telling = texts.filter((text) => text !== "" || mayBeEmpty);
      return scalar(telling.length === 0 ? [anything] : telling, [anything, ...telling.map((text) => `${text}-`)]);
    }
    case "set_of_text": {
      const members = [...new Set(texts)].filter((text) => text !== "" || mayBeEmpty);
      const presence = optional
        ? [{ term: name, isSet: true as const, telling: [true], values: [undefined, true] }]
        : [];
      return [
        ...presence,
        ...[anything, ...members].map((member) => ({ term: name, member, telling: [true], values: [false, true] })),
      ];
    }
  }
}

/** Matching texts, and a near miss. */
function textsLike(pattern: readonly PatternElem[]): readonly string[] {
  const filled = (filling: string) => pattern.map((part) => (part === "Wildcard" ? filling : part.Literal)).join("");
  return [filled(""), filled("-"), filled("").slice(0, -1)];
}

/** Merges variables of several policies, each with the values of all. */
export function merged(variables: readonly AskedVariable[]): readonly AskedVariable[] {
  const byName = new Map<string, AskedVariable>();
  for (const { values, telling, ...variable } of variables) {
    const name = nameOf({ ...variable, values });
    const known = byName.get(name);
    const union = (one: readonly Value[], other: readonly Value[]) => [...new Set([...one, ...other])];
    byName.set(name, {
      ...variable,
      values: union(known?.values ?? [], values),
      telling: union(known?.telling ?? [], telling),
    });
  }
  return [...byName.values()];
}

export function nameOf({ term, member }: Variable): string {
  return JSON.stringify([term, member]);
}

/** Pseudorandom whole numbers below a limit, determined by the seed (mulberry32). */
export function numbers(seed: number): (limit: number) => number {
  let state = seed;
  return (limit) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * limit);
  };
}
