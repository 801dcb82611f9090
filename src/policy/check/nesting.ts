/** How deeply a policy is nested, determined before Cedar parses it. */

/** Most nested brackets; Cedar's parser recurses several times for each. */
const maxBrackets = 32;
/** Most nested brackets and operators; Cedar's evaluator recurses once for each. */
const maxNesting = 200;

const token = /"(?:[^"\\]|\\[\s\S])*"|\/\/[^\r\n]*|[([{]|[)\]}]|&&|\|\||[-+*!.,]|\b(?:if|then|else|when|unless)\b/g;

/** Operators that are open between two brackets, by precedence. */
interface Level {
  ifs: number;
  ors: number;
  ands: number;
  sums: number;
  members: number;
}

/**
 * Index of the text at which a policy exceeds the nesting limits; undefined if it never does. The engine's stack is
 * small and cannot be guarded from here: an overflow breaks the engine for every later question.
 */
export function tooDeepAt(text: string): number | undefined {
  const levels: Level[] = [closed()];
  let within = 0;
  let clauses = 0;
  for (const { 0: found, index } of text.matchAll(token)) {
    const level = levels.at(-1) as Level;
    if ("([{".includes(found)) {
      within += depthOf(level);
      levels.push(closed());
    } else if (")]}".includes(found)) {
      if (levels.length === 1) continue;
      levels.pop();
      within -= depthOf(levels.at(-1) as Level);
    } else if (found === "when" || found === "unless") {
      // Cedar joins clauses like `&&`, each nested in the others. Elsewhere these are names.
      if (levels.length === 1 && clauses++ > 0) level.ands += 1;
    } else note(level, found);
    const brackets = levels.length - 1;
    if (brackets > maxBrackets || within + brackets + depthOf(levels.at(-1) as Level) > maxNesting) return index;
  }
  return undefined;
}

function closed(): Level {
  return { ifs: 0, ors: 0, ands: 0, sums: 0, members: 0 };
}

function depthOf({ ifs, ors, ands, sums, members }: Level): number {
  return ifs + ors + ands + sums + members;
}

/** An operator ends those that bind more tightly. */
function note(level: Level, found: string): void {
  if (found === ".") level.members += 1;
  else if ("-+*!".includes(found)) Object.assign(level, { sums: level.sums + 1, members: 0 });
  else if (found === "&&") Object.assign(level, { ands: level.ands + 1, sums: 0, members: 0 });
  else if (found === "||") Object.assign(level, { ors: level.ors + 1, ands: 0, sums: 0, members: 0 });
  else if (found === "if") level.ifs += 1;
  else if (found === "then" || found === "else") Object.assign(level, { ...closed(), ifs: level.ifs });
  else if (found === ",") Object.assign(level, closed());
}
