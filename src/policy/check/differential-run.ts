/**
 * Compares the compiled policies of a set with Cedar before they decide anything: on requests made of the values that
 * the policies compare with, of neighbouring values, and of random ones.
 */
import { atOnce } from "../../base/timers.ts";
import { type CedarRequest, cedarRequestBuilder } from "../evaluate/cedar-request.ts";
import { CompiledSet, type SetIndex } from "../evaluate/compiled-set.ts";
import type { EntitySource, EntityUse } from "../evaluate/entity-request.ts";
import { EntityTable } from "../evaluate/entity-table.ts";
import { type Applying, PreparedSet } from "../evaluate/prepared-set.ts";
import { Paths, Scene } from "../evaluate/scene.ts";
import { leftToCedar } from "../evaluate/values.ts";
import type { PolicyBundle } from "../load/bundle.ts";
import { type InputCatalogue, inputCatalogue } from "../model/inputs.ts";
import type { CheckedPolicy } from "./check-set.ts";
import { queryFor, questionOf } from "./question.ts";
import { joinInputs, joinUses } from "./reads.ts";
import { comparisonsOf, draws, type KnownEntities, merged, nameOf, variablesOf } from "./terms.ts";

/** Policies in one call to Cedar: most of a call's cost is the request. */
const policiesTogether = 20;
/** Requests in addition to one for each policy. */
const requestsBesides = 10;
/** Entities of each type that requests refer to, whether policies name them or not. */
const samplesOfType = 2;

/** Compares sets of one bundle. A policy that several sets share is checked closely only once. */
export class DifferentialRun {
  readonly #bundle: PolicyBundle;
  readonly #catalogue: InputCatalogue;
  readonly #entities: string;
  #table: EntityTable | undefined;
  #samples: ReadonlyMap<string, readonly string[]> | undefined;
  readonly #compared = new Set<string>();

  /** @param entities as `joinEntities` writes them */
  constructor(bundle: PolicyBundle, entities: string) {
    this.#bundle = bundle;
    this.#catalogue = inputCatalogue(bundle);
    this.#entities = entities;
  }

  /** Describes the first difference; undefined if there is none. Does not throw. */
  disagreement(policies: readonly CheckedPolicy[], index: SetIndex): string | undefined {
    try {
      return this.#compare(policies, index);
    } catch (error) {
      return `the policies could not be compared: ${error instanceof Error ? error.message : String(error)}`;
    }
  }

  #compare(policies: readonly CheckedPolicy[], index: SetIndex): string | undefined {
    const inputs = joinInputs(
      policies.map(({ reads }) => reads),
      this.#catalogue,
    );
    const paths = new Paths();
    const set = new CompiledSet(policies, index, paths);
    const all = [...policies.entries()];
    const fresh = all.filter(([, { text }]) => !this.#compared.has(text));
    const compared = fresh.length > 0 ? fresh : all.slice(0, policiesTogether);
    for (const some of Map.groupBy(compared, ([, { effect }]) => effect).values()) {
      for (let from = 0; from < some.length; from += policiesTogether) {
        const part = some.slice(from, from + policiesTogether);
        const requests = this.#requests(
          part.map(([, policy]) => policy),
          inputs,
        );
        const difference = differenceOn(part, set, paths, requests);
        if (difference !== undefined) return difference;
      }
    }
    for (const [, { text }] of compared) this.#compared.add(text);
    return undefined;
  }

  *#requests(policies: readonly CheckedPolicy[], inputs: readonly string[]): Generator<CedarRequest> {
    const known = this.#known(policies);
    const asked = policies.map((policy) => variablesOf(comparisonsOf(policy, this.#catalogue, known)));
    const variables = merged(asked.flat());
    // Only the inputs that the set reads, as its decisions do: all others would be most of a call's cost.
    const build = cedarRequestBuilder(inputs, this.#catalogue, this.#entitiesOf(policies));
    const { below, pick, pickAction } = draws(policies.length);
    for (let number = 0; number < policies.length + requestsBesides; number++) {
      const own = new Map((asked[number] ?? []).map((variable) => [nameOf(variable), variable]));
      const action = pickAction(policies[number]?.actions);
      const assigned = variables.map((variable) => {
        const telling = own.get(nameOf(variable))?.telling ?? [];
        if (telling.length > 0 && below(6) > 0) return [variable, pick(telling)] as const;
        return [variable, below(3) === 0 ? pick(variable.values) : variable.values[0]] as const;
      });
      const query = queryFor(this.#bundle, questionOf(assigned, "tenant", action));
      const request = query === undefined ? undefined : build(query);
      if (request !== undefined) yield request;
    }
  }

  /** Entities that policies name, and some of each type if they read any. */
  #known(policies: readonly CheckedPolicy[]): KnownEntities {
    this.#samples ??= this.#entitiesOf(policies)?.source.table.samples(samplesOfType);
    const known = new Map(this.#samples);
    for (const { type, id } of policies.flatMap(({ entities: { named } }) => named)) {
      known.set(type, [...(known.get(type) ?? []), id]);
    }
    return known;
  }

  /** Undefined if the policies use none, which saves building the table: it is as large as all entities. */
  #entitiesOf(policies: readonly CheckedPolicy[]): { source: EntitySource; use: EntityUse } | undefined {
    const { entities: declared } = this.#bundle;
    const use = joinUses(policies.map(({ entities }) => entities));
    if (declared === undefined || use.references.length + use.roots.length === 0) return undefined;
    this.#table ??= atOnce(EntityTable.from(this.#entities));
    return { source: { declared, table: this.#table }, use };
  }
}

/** Effect of a policy on a request: it applies, or could not be evaluated. */
type Does = "applies" | "fails" | "nothing";

/**
 * Describes the first difference between the compiled set and Cedar on policies of one effect, of which Cedar names
 * every one that applies. Throws if Cedar's engine breaks, so that an uncompared set does not pass.
 *
 * @param part policies with their positions in the compiled set
 */
export function differenceOn(
  part: readonly (readonly [position: number, policy: CheckedPolicy])[],
  set: CompiledSet,
  paths: Paths,
  requests: Iterable<CedarRequest>,
): string | undefined {
  const prepared = new PreparedSet(part.map(([, { text }]) => text));
  try {
    for (const request of requests) {
      const cedar = prepared.diagnose(request);
      const compiled = cedar && said(set, paths, request);
      if (compiled === undefined) continue;
      for (const [index, [position, { id, file, line }]] of part.entries()) {
        const [theirs, ours] = [doing(index, cedar as Applying), doing(position, compiled)];
        if (theirs === ours || compiled.unknown.includes(position)) continue;
        return `${id} at ${file}:${line}: ${theirs} as Cedar has it, ${ours} as it was compiled`;
      }
    }
    return undefined;
  } finally {
    prepared.release();
  }
}

/** Undefined if Cedar alone can evaluate the request. */
function said(set: CompiledSet, paths: Paths, request: CedarRequest) {
  try {
    return set.applying(new Scene(request, paths), request.action.id);
  } catch (error) {
    if (error !== leftToCedar) throw error;
    return undefined;
  }
}

function doing(position: number, { permits, forbids, failed }: Applying): Does {
  if (failed.includes(position)) return "fails";
  return permits.includes(position) || forbids.includes(position) ? "applies" : "nothing";
}
