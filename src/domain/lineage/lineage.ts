/** What happened to each artifact of a pack, in order. */
import type { CheckedEntry } from "../../ledger/pack/entry-check.ts";
import type { CompleteRange } from "../../ledger/pack/range-check.ts";
import { PackFacts, type Remark, remarksOn } from "./remarks.ts";
import { type Step, stepOf } from "./step.ts";

/** With more records there is no lineage, so that a pack of any size is verified in bounded memory: 0.1 GB. */
export const maxLineageSteps = 100_000;

/** The records that belong together. */
export interface Lineage {
  /** Digests and CIDs under which the artifact is known. Empty for records that name none. */
  readonly artifact_digests: readonly string[];
  readonly cids: readonly string[];
  /** Decisions, registrations and events in the order of the log. A decision stands with every artifact that cites it. */
  readonly steps: readonly Step[];
  /** What is missing, or does not fit. */
  readonly remarks: readonly Remark[];
}

export interface LineageReport {
  /** One for each artifact, then one for each decision that no artifact's record cites, in the order of the log. */
  readonly lineages: readonly Lineage[];
  /** Records about the log itself: genesis, key rotations, erasures; and erased ones that nothing links. */
  readonly others: readonly Step[];
}

/** Collects the entries of a pack while it is verified. */
export class LineageCollector {
  readonly #maxSteps: number;
  #steps: Step[] | undefined = [];

  constructor(maxSteps = maxLineageSteps) {
    this.#maxSteps = maxSteps;
  }

  add(entry: CheckedEntry): void {
    if (entry.record === undefined && !entry.erased) return;
    this.#steps?.push(stepOf(entry));
    if (this.#steps !== undefined && this.#steps.length > this.#maxSteps) this.#steps = undefined;
  }

  /**
   * Undefined where there were too many records.
   * @param range what of the log is complete; undefined for a selection by value
   */
  report(range: CompleteRange | undefined): LineageReport | undefined {
    return this.#steps && lineageOf(this.#steps, range);
  }
}

/** Work is linear in the steps. */
export function lineageOf(steps: readonly Step[], range: CompleteRange | undefined): LineageReport {
  const facts = new PackFacts(steps, range);
  const groups = new Groups();
  const linked = steps.filter(({ kind, erased }) => isAboutArtifacts(kind) && erased !== true);
  const byId = new Map(linked.map((step) => [step.record_id, step]));
  for (const step of linked) {
    const [registered] = step.relied_on ?? [];
    const registration = registered === undefined ? undefined : byId.get(registered);
    // What a decision calls its artifact may be another spelling of what it was registered as.
    groups.join([...namesOf(step), ...(registration === undefined ? [] : namesOf(registration))]);
  }
  const members = new Map<string, Step[]>();
  for (const step of linked) {
    const [name] = namesOf(step);
    // What names no artifact stands with the decision that it is or cites, else by itself.
    const key = name === undefined ? `decision ${step.decision_id ?? step.record_id}` : groups.of(name);
    const group = members.get(key);
    if (group === undefined) members.set(key, [step]);
    else group.push(step);
  }
  const withArtifact = [...members.values()].filter((group) => group.some(hasName));
  const cited = new Set(withArtifact.flatMap((group) => group.map(({ decision_id }) => decision_id)));
  const bare = [...members.values()].filter((group) => !group.some(hasName) && !isSharedDecision(group, cited));
  const lineages = [...withArtifact, ...bare].map((group) => lineage(withDecisions(group, facts), facts));
  const shown = new Set(lineages.flatMap((each) => each.steps.map(({ record_id }) => record_id)));
  return { lineages, others: steps.filter(({ record_id }) => !shown.has(record_id)) };
}

function isAboutArtifacts(kind: Step["kind"]): boolean {
  return kind === "decision" || kind === "registration" || kind === "evidence";
}

/** A decision alone that stands with an artifact anyway. */
function isSharedDecision(group: readonly Step[], cited: ReadonlySet<string | undefined>): boolean {
  return group.every(({ kind, record_id }) => kind === "decision" && cited.has(record_id));
}

function withDecisions(group: readonly Step[], facts: PackFacts): readonly Step[] {
  const cited = group.flatMap(({ decision_id }) => facts.decision(decision_id) ?? []);
  return [...new Set([...cited, ...group])].sort((a, b) => a.leaf_index - b.leaf_index);
}

function lineage(steps: readonly Step[], facts: PackFacts): Lineage {
  const digests = steps.flatMap(({ artifact_digest }) => artifact_digest ?? []);
  return {
    artifact_digests: [...new Set(digests)],
    cids: [...new Set(steps.flatMap(({ cids = [] }) => cids))],
    steps,
    remarks: remarksOn(steps, facts),
  };
}

function hasName(step: Step): boolean {
  return namesOf(step).length > 0;
}

function namesOf({ artifact_digest, cids = [] }: Step): readonly string[] {
  return [...(artifact_digest === undefined ? [] : [`digest ${artifact_digest}`]), ...cids.map((cid) => `cid ${cid}`)];
}

/** Names of which a record said that they are the same artifact's: a forest, flattened as it is walked. */
class Groups {
  readonly #parents = new Map<string, string>();

  join([first, ...others]: readonly string[]): void {
    if (first === undefined) return;
    const root = this.of(first);
    for (const other of others) this.#parents.set(this.of(other), root);
  }

  /** One name for all that were joined. */
  of(name: string): string {
    const path: string[] = [];
    let root = name;
    for (
      let parent = this.#parents.get(root);
      parent !== undefined && parent !== root;
      parent = this.#parents.get(root)
    ) {
      path.push(root);
      root = parent;
    }
    for (const passed of path) this.#parents.set(passed, root);
    return root;
  }
}
