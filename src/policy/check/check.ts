/** Checks a bundle before it decides anything: problems of every set, and of sets that decide together. */
import { rememberedBy } from "../../base/remembered.ts";
import { type SetIndex, setIndexOf } from "../evaluate/compiled-set.ts";
import { mergeGuidance } from "../guidance/guidance.ts";
import { type BundleIdentity, identify, type PolicyBundle } from "../load/bundle.ts";
import { Directory, type PolicyFileSystem, type PolicySettings, readEntries } from "../load/directory.ts";
import { cedar } from "../model/cedar.ts";
import { describeUid } from "../model/entities.ts";
import { type PolicyProblem, sortProblems } from "../model/problem.ts";
import { policyActions } from "../model/schema.ts";
import { type CheckedPolicy, SetChecker } from "./check-set.ts";
import { DifferentialRun } from "./differential-run.ts";
import { type JoinedEntities, joinEntities } from "./entities.ts";

/** Policies of a set and their index. */
export interface CheckedSet {
  readonly policies: readonly CheckedPolicy[];
  readonly index: SetIndex;
}

/** A checked bundle, whose compiled policies were compared with Cedar. */
export interface CheckedBundle {
  /** By name. */
  readonly sets: ReadonlyMap<string, CheckedSet>;
  /** All problems. A bundle with problems must not decide. */
  readonly problems: readonly PolicyProblem[];
  /** The organisation's entities, as `joinEntities` writes them. Absent if the bundle declares none. */
  readonly entities?: string;
  /** Differences between a set's compiled policies and Cedar, by set name. Cedar alone evaluates such a set. */
  readonly disagreements: ReadonlyMap<string, string>;
  readonly identity: BundleIdentity;
}

/** Checks the whole bundle before it decides anything. Bundles do not change, so each is checked only once. */
export const checkBundle: (bundle: PolicyBundle) => CheckedBundle = rememberedBy((bundle) => {
  return { ...check(bundle), identity: identify(bundle) };
});

/** The policies of all sets of a bundle. */
export function policiesOf(bundle: PolicyBundle): readonly CheckedPolicy[] {
  return [...checkBundle(bundle).sets.values()].flatMap(({ policies }) => policies);
}

function check(bundle: PolicyBundle): Omit<CheckedBundle, "identity"> {
  const sets = new Map<string, CheckedSet>();
  const disagreements = new Map<string, string>();
  const entities = bundle.entities && joinEntities(bundle.entities);
  // If the operator's schema is invalid, every policy that names its types would have errors.
  if (entities !== undefined && !entities.hasSchema)
    return { sets, problems: sortProblems(entities.problems), disagreements };
  const schema = cedar().checkParseSchema(bundle.schema);
  if (schema.type === "failure") {
    const problems = schema.errors.map(({ message }) => ({ file: "schema.cedarschema", message }));
    return { sets, problems, disagreements };
  }
  const problems: PolicyProblem[] = [...(entities?.problems ?? [])];
  const checker = new SetChecker(bundle);
  let run: DifferentialRun | undefined;
  for (const [name, files] of Object.entries(bundle.sets)) {
    const { policies, problems: ofSet } = checker.check(name, files);
    const index = setIndexOf(policies);
    sets.set(name, { policies, index });
    problems.push(...ofSet);
    if (entities?.problems.length === 0) problems.push(...unknownEntities(policies, entities));
    if (problems.length > 0) continue;
    run ??= new DifferentialRun(bundle, entities?.lines ?? "");
    const found = run.disagreement(policies, index);
    if (found !== undefined) disagreements.set(name, found);
  }
  const policiesIn = (name: string) => sets.get(name)?.policies ?? [];
  for (const name of new Set(Object.values(bundle.manifest.tenants))) {
    problems.push(...certainConflicts([...policiesIn(bundle.manifest.platform), ...policiesIn(name)], bundle));
  }
  return {
    sets,
    problems: sortProblems(problems),
    ...(entities !== undefined && { entities: entities.lines }),
    disagreements: problems.length > 0 ? new Map() : disagreements,
  };
}

/** A policy that names an entity that no file has would never match. */
function unknownEntities(policies: readonly CheckedPolicy[], { exists }: JoinedEntities): readonly PolicyProblem[] {
  return policies.flatMap(({ id, file, line, entities: { named } }) =>
    named
      .filter((uid) => !exists(uid))
      .map((uid) => ({ file, line, message: `${id}: no file has ${describeUid(uid)}` })),
  );
}

/**
 * Unconditional permits decide every allowed question of their actions. If two of them contradict each other, all of
 * these questions would be denied, so they are refused here. Contradictions that depend on the question deny when they
 * occur.
 */
function certainConflicts(policies: readonly CheckedPolicy[], bundle: PolicyBundle): readonly PolicyProblem[] {
  const certain = policies.filter(({ effect, unconditional }) => effect === "permit" && unconditional);
  return policyActions.flatMap((action) => {
    const deciding = certain.filter(({ actions }) => actions.has(action));
    const merged = mergeGuidance(
      deciding.map(({ guidance }) => guidance),
      bundle.strictness,
    );
    return merged.conflicts.map((name): PolicyProblem => {
      const givers = deciding.filter(({ guidance }) => guidance.scalars[name] !== undefined);
      const last = givers.at(-1) as CheckedPolicy;
      const locations = givers.map(({ id, file }) => `${id} in ${file}`).join(", ");
      return {
        file: last.file,
        line: last.line,
        message: `@${name} differs between policies that always decide ${action}: ${locations}`,
        hint: "give one value, add conditions, or order the values under strictness in the manifest",
      };
    });
  });
}

/**
 * Reads and validates the directory. Resolves with its bundle and the sorted paths of other, harmless entries, or with
 * all problems.
 */
export async function loadPolicyDirectory(path: string, fileSystem: PolicyFileSystem, settings: PolicySettings = {}) {
  const { reading, ignored } = await readEntries(await Directory.open(path, fileSystem), settings);
  const { bundle, problems } = reading;
  if (bundle === undefined) return { problems };
  const all = sortProblems([...problems, ...checkBundle(bundle).problems]);
  return all.length > 0 ? { problems: all } : { bundle, ignored };
}
