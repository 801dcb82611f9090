/**
 * Finds values for which rules apply, or do not, as asked: a search over tables with propagation. Small and complete:
 * where it ends with none, there are none.
 */

/** When something applies, as a table over a few variables. */
export interface Rule {
  /** Indices of variables. */
  readonly variables: readonly number[];
  /** Rows of indices of values, in the order of the variables: those for which it applies, and the others. */
  readonly applies: readonly Row[];
  readonly otherwise: readonly Row[];
}

export type Row = readonly number[];

/** What must hold. */
export interface Wanted {
  readonly must: readonly Rule[];
  readonly mustNot: readonly Rule[];
  /** Of each group at least one must apply. */
  readonly anyOf: readonly (readonly Rule[])[];
}

/** Index of a value by index of its variable; variables that do not matter are not named. */
export type Assignment = ReadonlyMap<number, number>;

/** Steps that a search may still take, together with others. */
export interface Budget {
  steps: number;
}

interface Constraint {
  readonly variables: readonly number[];
  readonly rows: readonly Row[];
}

type Domains = ReadonlyMap<number, readonly number[]>;

/**
 * An assignment as wanted, with first values where they will do; `none` where there is none, `unknown` where the budget
 * did not suffice.
 *
 * @param sizes number of values of each variable
 */
export function solve(
  sizes: readonly number[],
  { must, mustNot, anyOf }: Wanted,
  budget: Budget,
): Assignment | "none" | "unknown" {
  const constraints = [
    ...must.map(({ variables, applies }) => ({ variables, rows: applies })),
    ...mustNot.map(({ variables, otherwise }) => ({ variables, rows: otherwise })),
  ];
  const domains = new Map(sizes.map((size, variable) => [variable, Array.from({ length: size }, (_, value) => value)]));
  const found = search(constraints, domains, anyOf, budget);
  if (typeof found === "string") return found;
  const named = new Set(found.constraints.flatMap(({ variables }) => variables));
  return new Map(
    [...found.domains].flatMap(([variable, [value = 0]]) => (named.has(variable) ? [[variable, value]] : [])),
  );
}

interface State {
  readonly constraints: readonly Constraint[];
  readonly domains: Domains;
}

function search(
  given: readonly Constraint[],
  before: Domains,
  anyOf: readonly (readonly Rule[])[],
  budget: Budget,
): State | "none" | "unknown" {
  if (budget.steps-- <= 0) return "unknown";
  const state = propagate(given, before);
  if (state === undefined) return "none";
  const open = anyOf.map((rules) => rules.filter((rule) => rule.applies.some((row) => fits(rule, row, state.domains))));
  if (open.some((rules) => rules.length === 0)) return "none";
  const undecided = open.filter((rules) => !rules.some((rule) => isCertain(rule, state.domains)));
  const [group] = undecided.toSorted((a, b) => a.length - b.length);
  if (group !== undefined) {
    const others = undecided.filter((rules) => rules !== group);
    return first(group, (rule) =>
      search([...state.constraints, { variables: rule.variables, rows: rule.applies }], state.domains, others, budget),
    );
  }
  const constrained = new Set(state.constraints.flatMap(({ variables }) => variables));
  const [branching] = [...constrained]
    .map((variable) => [variable, state.domains.get(variable) ?? []] as const)
    .filter(([, values]) => values.length > 1)
    .toSorted(([, a], [, b]) => a.length - b.length);
  // What is certain by now stays in the state, so that its variables are named.
  if (branching === undefined) return state;
  const [variable, values] = branching;
  return first(values, (value) =>
    search(state.constraints, new Map([...state.domains, [variable, [value]]]), undecided, budget),
  );
}

/** The first that is found; `none` only where every attempt ended with none. */
function first<T>(
  choices: readonly T[],
  attempt: (choice: T) => State | "none" | "unknown",
): State | "none" | "unknown" {
  let isKnown = true;
  for (const choice of choices) {
    const found = attempt(choice);
    if (typeof found !== "string") return found;
    if (found === "unknown") isKnown = false;
  }
  return isKnown ? "none" : "unknown";
}

/** Leaves out rows and values that cannot be; undefined where nothing is left. */
function propagate(given: readonly Constraint[], before: Domains): State | undefined {
  const domains = new Map(before);
  let constraints = given;
  for (let isChanged = true; isChanged; ) {
    isChanged = false;
    const narrowed: Constraint[] = [];
    for (const constraint of constraints) {
      const { variables } = constraint;
      const rows = constraint.rows.filter((row) => fits({ variables }, row, domains));
      if (rows.length === 0) return undefined;
      narrowed.push(rows.length === constraint.rows.length ? constraint : { variables, rows });
      for (const [position, variable] of variables.entries()) {
        const supported = new Set(rows.map((row) => row[position] as number));
        const values = domains.get(variable) ?? [];
        if (supported.size === values.length) continue;
        domains.set(
          variable,
          values.filter((value) => supported.has(value)),
        );
        isChanged = true;
      }
    }
    constraints = narrowed;
  }
  return { constraints, domains };
}

function fits({ variables }: Pick<Rule, "variables">, row: Row, domains: Domains): boolean {
  return variables.every((variable, position) => domains.get(variable)?.includes(row[position] as number));
}

function isCertain(rule: Rule, domains: Domains): boolean {
  return !rule.otherwise.some((row) => fits(rule, row, domains));
}
