/** The requests that are told apart, as variables with a few values each. */
import { authSources } from "../../base/caller.ts";
import { parsePrincipalId } from "../../base/ids.ts";
import { artifactProfiles } from "../../base/vocabulary.ts";
import type { Comparisons, Term } from "../samples/terms.ts";
import { textValues } from "./text-values.ts";

export type Value = string | number | boolean | undefined;

/** A scalar, or whether a set has a member. The first value is that of a request that no policy speaks of. */
export interface Variable {
  readonly term: string;
  /** Of a set. */
  readonly member?: string;
  /** It says whether there is a set. */
  readonly isSet?: true;
  readonly values: readonly Value[];
}

/** Variables of policies that decide together, for one tenant. */
export interface Variables {
  readonly variables: readonly Variable[];
  /** Indices of the variables that decide whether a policy of these comparisons applies. */
  of(comparisons: Comparisons): readonly number[];
  /** Indices of the members of a term. */
  members(term: string, members: readonly string[]): readonly number[];
  /** Indices of the variables that a term is, but for members. */
  scalars(term: string): readonly number[];
  /** Why the values do not stand for all; empty where they do. */
  readonly inexact: ReadonlySet<string>;
}

/** @param asked members of sets that are asked for after the policies, by name of the set */
export function variablesOf(
  compared: readonly Comparisons[],
  tenant: string,
  asked: ReadonlyMap<string, readonly string[]>,
): Variables {
  const terms = new Map(compared.flatMap((comparisons) => [...comparisons.terms]));
  for (const [name, members] of asked)
    if (members.length > 0) terms.set(name, { name, kind: "set_of_text", optional: false });
  const inexact = new Set(compared.flatMap((comparisons) => [...comparisons.inexact]));
  const pools = new Pools(
    [...terms.keys()],
    compared.flatMap(({ joined }) => joined),
  );
  for (const { values } of compared) for (const [term, own] of values) pools.add(term, own);
  for (const [name, members] of asked) pools.add(name, members);
  if (terms.has("caller.tenant_id")) pools.add("caller.tenant_id", [tenant]);
  const named = compared.flatMap(({ principals }) => [...principals]).filter((uid) => uid.startsWith(`${tenant}/`));
  pools.add(
    "caller.principal_id",
    named.map((uid) => uid.slice(tenant.length + 1)),
  );
  const whole = new Set(compared.flatMap((comparisons) => [...comparisons.whole].map((term) => pools.rootOf(term))));

  const variables: Variable[] = [];
  const byTerm = new Map<string, number[]>();
  for (const term of terms.values()) {
    const patterns = pools
      .alike(term.name)
      .flatMap((name) => compared.flatMap((each) => each.patterns.get(name) ?? []));
    const { values, exact } = valuesOf(term, pools, patterns, whole, tenant);
    if (!exact) inexact.add(term.name);
    byTerm.set(term.name, []);
    for (const variable of values) byTerm.get(term.name)?.push(variables.push(variable) - 1);
  }
  const indicesOf = (name: string) => byTerm.get(name) ?? [];
  const members = (term: string, wanted: readonly string[]) =>
    indicesOf(term).filter((index) => wanted.includes(variables[index]?.member ?? ""));
  return {
    variables,
    inexact,
    members,
    scalars: (term) => indicesOf(term).filter((index) => variables[index]?.member === undefined),
    of(comparisons) {
      const joined = new Set(comparisons.joined.flat());
      return [...comparisons.terms.values()].flatMap(({ name, kind }) => {
        const own = comparisons.values.get(name) ?? new Set();
        const isWhole = kind !== "set_of_text" || comparisons.whole.has(name) || joined.has(name);
        // Whether there is a set at all is asked of every set that may be absent.
        return indicesOf(name).filter((index) => {
          const { member } = variables[index] as Variable;
          return isWhole || member === undefined || own.has(member);
        });
      });
    },
  };
}

/** All texts that an input can be, by its name. */
export const closedWords: Readonly<Record<string, readonly string[]>> = {
  "caller.auth_source": authSources,
  artifact_profile: artifactProfiles,
  "registered.artifact_profile": artifactProfiles,
};

function valuesOf(
  { name, kind, optional }: Term,
  pools: Pools,
  patterns: Comparisons["patterns"] extends Map<string, infer Patterns> ? Patterns : never,
  whole: ReadonlySet<string>,
  tenant: string,
): { readonly values: readonly Variable[]; readonly exact: boolean } {
  const absent: readonly Value[] = optional ? [undefined] : [];
  const scalar = (values: readonly Value[], exact = true) => ({
    values: [{ term: name, values: [...absent, ...values] }],
    exact,
  });
  const pool = pools.of(name);
  const alike = pools.alike(name).length;
  if (name === "caller.tenant_id") return scalar([tenant]);
  if (closedWords[name] !== undefined) return scalar(closedWords[name]);
  switch (kind) {
    case "record":
      return scalar([true]);
    case "yes_no":
      return scalar([false, true]);
    case "whole_number":
      return scalar(
        numbersAround(
          pool.filter((value) => typeof value === "number"),
          alike,
          name,
        ),
      );
    case "text": {
      const { values, exact } = textValues(
        pool.filter((value) => typeof value === "string"),
        patterns,
        alike,
        mayBeEmpty(name),
      );
      const isPrincipal = name === "caller.principal_id";
      return scalar(isPrincipal ? values.filter((text) => parsePrincipalId(text) !== undefined) : values, exact);
    }
    case "set_of_text": {
      const literals = pool.filter((value) => typeof value === "string");
      const needsOthers = whole.has(pools.rootOf(name)) || alike > 1;
      const { values, exact } = needsOthers
        ? textValues(literals, patterns, alike, mayBeEmpty(name))
        : { values: literals, exact: true };
      const members = values.map((member) => ({ term: name, member, values: [false, true] }));
      return {
        values: optional ? [{ term: name, isSet: true, values: [undefined, true] }, ...members] : members,
        exact,
      };
    }
  }
}

/** Whether the text, or a member of the set, is ever empty: of what else requests say, the empty text is none. */
export function mayBeEmpty(term: string): boolean {
  return /^(?:caller\.attributes\.|on_behalf_of\.propert|(?:registered\.)?(?:labels(?:_ever)?$|attributes\.))/.test(
    term,
  );
}

/** Numbers below, at and between those that are compared with; several of each kind where numbers are compared. */
function numbersAround(points: readonly number[], alike: number, term: string): readonly number[] {
  const least = term === "content_size_bytes" ? 0 : Number.MIN_SAFE_INTEGER;
  const near = points.flatMap((point) => Array.from({ length: 2 * alike + 1 }, (_, index) => point - alike + index));
  const all = points.length === 0 ? Array.from({ length: alike }, (_, index) => index) : near;
  return [...new Set(all)].filter((value) => value >= least && Number.isSafeInteger(value)).sort((a, b) => a - b);
}

/** Values of terms; those that are compared with each other have them in common. */
class Pools {
  readonly #roots = new Map<string, string>();
  readonly #values = new Map<string, Set<string | number>>();

  constructor(terms: readonly string[], joined: readonly (readonly [string, string])[]) {
    for (const term of terms) this.#roots.set(term, term);
    for (const [a, b] of joined) {
      const [from, to] = [this.rootOf(a), this.rootOf(b)];
      for (const [term, root] of this.#roots) if (root === from) this.#roots.set(term, to);
    }
  }

  rootOf(term: string): string {
    return this.#roots.get(term) ?? term;
  }

  /** The terms that it is compared with, directly or not, and itself. */
  alike(term: string): readonly string[] {
    const root = this.rootOf(term);
    return [...this.#roots.keys()].filter((name) => this.rootOf(name) === root);
  }

  add(term: string, values: Iterable<string | number>): void {
    const root = this.rootOf(term);
    this.#values.set(root, new Set([...(this.#values.get(root) ?? []), ...values]));
  }

  of(term: string): readonly (string | number)[] {
    return [...(this.#values.get(this.rootOf(term)) ?? [])].sort();
  }
}
