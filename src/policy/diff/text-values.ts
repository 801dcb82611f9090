/** A few texts that stand for all: every combination of patterns that a text can match is matched by some of them. */
import type { PatternElem } from "@cedar-policy/cedar-wasm/nodejs";

export interface TextValues {
  readonly values: readonly string[];
  /** Whether they stand for all texts. */
  readonly exact: boolean;
}

/** States of all patterns together that are looked at; what needs more is not exact. */
const maxStates = 20_000;
/** Preferred to the shortest text that nothing matches. */
const anything = "anything-else";

/**
 * Representatives of all texts.
 *
 * @param literals texts that are compared with as a whole
 * @param patterns of Cedar's `like`
 * @param alike how many different texts are needed of each kind, because they are compared with each other
 * @param mayBeEmpty whether the empty text is one of them
 */
export function textValues(
  literals: Iterable<string>,
  patterns: readonly (readonly PatternElem[])[],
  alike: number,
  mayBeEmpty = false,
): TextValues {
  const exactly = [...new Set(literals)].filter((text) => mayBeEmpty || text !== "");
  const others = Array.from({ length: alike }, (_, index) => (index === 0 ? anything : `${anything}-${index + 1}`));
  if (patterns.length === 0) {
    return { values: [...freshAmong(others, exactly), ...exactly], exact: true };
  }
  const automata = [...patterns.map(elementsOf), ...exactly.map((text): Automaton => [...text])];
  const found = new Map<string, string[]>();
  const add = (text: string, kind: string): void => {
    const known = found.get(kind) ?? [];
    if (!known.includes(text) && known.length < alike) found.set(kind, [...known, text]);
  };
  for (const text of mayBeEmpty ? [...others, ""] : others)
    add(
      text,
      kindOf(
        automata,
        automata.map((automaton) => read(automaton, text)),
      ),
    );
  const exact = explore(automata, alike, add);
  for (const text of exactly)
    add(
      text,
      kindOf(
        automata,
        automata.map((automaton) => read(automaton, text)),
      ),
    );
  // What matches nothing comes first: it is what stands for a request that no policy speaks of.
  const values = [...found].sort(([a], [b]) => (a < b ? -1 : 1)).flatMap(([, texts]) => texts);
  return { values, exact };
}

function freshAmong(texts: readonly string[], taken: readonly string[]): readonly string[] {
  return texts.map((text) => {
    let fresh = text;
    while (taken.includes(fresh)) fresh += "-";
    return fresh;
  });
}

/** Characters, and undefined for a wildcard. */
type Automaton = readonly (string | undefined)[];

function elementsOf(pattern: readonly PatternElem[]): Automaton {
  return pattern.flatMap((element): Automaton => (element === "Wildcard" ? [undefined] : [...element.Literal]));
}

/** Positions that a text may have reached, in order; a wildcard may be passed at any time. */
type State = readonly number[];

function closed(automaton: Automaton, positions: Iterable<number>): State {
  const reached = new Set(positions);
  for (const position of reached)
    if (position < automaton.length && automaton[position] === undefined) reached.add(position + 1);
  return [...reached].sort((a, b) => a - b);
}

function step(automaton: Automaton, state: State, character: string): State {
  const next = state.flatMap((position) => {
    if (position >= automaton.length) return [];
    if (automaton[position] === undefined) return [position];
    return automaton[position] === character ? [position + 1] : [];
  });
  return closed(automaton, next);
}

function read(automaton: Automaton, text: string): State {
  let state = closed(automaton, [0]);
  for (const character of text) state = step(automaton, state, character);
  return state;
}

/** Which of them match. */
function kindOf(automata: readonly Automaton[], states: readonly State[]): string {
  return automata.map(({ length }, index) => (states[index]?.includes(length) ? "1" : "0")).join("");
}

/** Hands over the shortest texts that lead to each state of all automata together; whether all were reached. */
function explore(automata: readonly Automaton[], alike: number, add: (text: string, kind: string) => void): boolean {
  const used = new Set(automata.flat().filter((character) => character !== undefined));
  const fresh = [..."xyzqjw0123456789_~"].find((character) => !used.has(character)) ?? "\u{10FFFF}";
  const alphabet = [...used, fresh];
  const visits = new Map<string, number>();
  let queue: { readonly text: string; readonly states: readonly State[] }[] = [
    { text: "", states: automata.map((automaton) => closed(automaton, [0])) },
  ];
  while (queue.length > 0) {
    const next: typeof queue = [];
    for (const { text, states } of queue) {
      for (const character of alphabet) {
        const reached = states.map((state, index) => step(automata[index] as Automaton, state, character));
        const key = JSON.stringify(reached);
        const visited = visits.get(key) ?? 0;
        if (visited >= alike) continue;
        if (visited === 0 && visits.size >= maxStates) return false;
        visits.set(key, visited + 1);
        add(text + character, kindOf(automata, reached));
        next.push({ text: text + character, states: reached });
      }
    }
    queue = next;
  }
  return true;
}
