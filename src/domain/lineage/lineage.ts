/** The history of each artifact in a pack, in order. */
import { canonicalDigest } from "../../ledger/artifacts/digest.ts";
import { nameOfCid } from "../../ledger/artifacts/registrations.ts";
import type { CheckedEntry, CompleteRange } from "../../ledger/pack/entry-checks.ts";
import { type EvidenceCode, evidenceCodes } from "../../ledger/ports/search.ts";
import { PackFacts, type Remark, remarksOn, type Step, stepOf } from "./remarks.ts";

/** Packs with more records get no lineage, so that verification needs bounded memory: 0.2 GB. */
const maxLineageSteps = 100_000;

export interface Lineage {
  /** Digests and CIDs of the artifact. Empty for records that name none. */
  readonly artifact_digests: readonly string[];
  readonly cids: readonly string[];
  /** Decisions, registrations and events in the order of the log. Every artifact lists the decisions it cites. */
  readonly steps: readonly Step[];
  readonly remarks: readonly Remark[];
}

/** Allowed decisions of a pack, and how many have which `evidence`. */
export type EvidenceCounts = { readonly allowed: number } & { readonly [Code in EvidenceCode]?: number };

export interface LineageReport {
  readonly evidence: EvidenceCounts;
  /** One for each artifact, then one for each decision that no artifact's record cites, in the order of the log. */
  readonly lineages: readonly Lineage[];
  /** Records about the log itself: genesis, key rotations, erasures; and erased ones without an artifact. */
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
   * Undefined if there were too many records.
   * @param range completely covered part of the log; undefined for a selection by value
   */
  report(range: CompleteRange | undefined): LineageReport | undefined {
    return this.#steps && lineageOf(this.#steps, range);
  }
}

/** Takes linear time. */
export function lineageOf(shown: readonly Step[], range: CompleteRange | undefined): LineageReport {
  const facts = new PackFacts(shown, range);
  const steps = shown.map((step) => facts.withEvidence(step));
  const groups = new Groups();
  const aboutArtifacts: readonly Step["kind"][] = ["decision", "registration", "evidence"];
  const linked = steps.filter(({ kind, erased }) => aboutArtifacts.includes(kind) && erased !== true);
  const byId = new Map(linked.map((step) => [step.record_id, step]));
  for (const step of linked) {
    const [registered] = step.relied_on ?? [];
    const registration = registered === undefined ? undefined : byId.get(registered);
    // A decision may name its artifact by another digest or CID than its registration.
    groups.join([...namesOf(step), ...(registration === undefined ? [] : namesOf(registration))]);
  }
  const members = new Map<string, Step[]>();
  for (const step of linked) {
    const [name] = namesOf(step);
    // A record without an artifact belongs to the decision that it is or cites, else to no group.
    const key = name === undefined ? `decision ${step.decision_id ?? step.record_id}` : groups.of(name);
    const group = members.get(key);
    if (group === undefined) members.set(key, [step]);
    else group.push(step);
  }
  const withArtifact = [...members.values()].filter((group) => group.some(hasName));
  const cited = new Set(withArtifact.flatMap((group) => group.map(({ decision_id }) => decision_id)));
  const bare = [...members.values()].filter((group) => !group.some(hasName) && !isSharedDecision(group, cited));
  const lineages = [...withArtifact, ...bare].map((group) => lineage(withDecisions(group, facts), facts));
  // By themselves, not by their ids: nothing keeps a log from giving one id to two records.
  const listed = new Set(lineages.flatMap((each) => each.steps));
  const others = steps.filter((step) => !listed.has(step));
  return { evidence: evidenceCounts(steps), lineages, others };
}

function evidenceCounts(steps: readonly Step[]): EvidenceCounts {
  const codes = steps.flatMap(({ evidence }) => evidence ?? []);
  const counts = evidenceCodes.map((code) => [code, codes.filter((each) => each === code).length] as const);
  return { allowed: codes.length, ...Object.fromEntries(counts.filter(([, count]) => count > 0)) };
}

/** A decision alone that is listed with an artifact anyway. */
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

/** One name for all spellings: those by which registrations are found. */
function namesOf({ artifact_digest, cids = [] }: Step): readonly string[] {
  return [...(artifact_digest === undefined ? [] : [canonicalDigest(artifact_digest)]), ...cids.map(nameOfCid)];
}

/** Union-find of names that records declare to be of the same artifact. */
class Groups {
  readonly #parents = new Map<string, string>();

  join([first, ...others]: readonly string[]): void {
    if (first === undefined) return;
    const root = this.of(first);
    for (const other of others) this.#parents.set(this.of(other), root);
  }

  /** Representative of the names that were joined. */
  of(name: string): string {
    let at = name;
    for (let parent = this.#parents.get(at); parent !== undefined && parent !== at; parent = this.#parents.get(at)) {
      // Halves the path.
      this.#parents.set(at, this.#parents.get(parent) ?? parent);
      at = parent;
    }
    return at;
  }
}
