/** Compares the answers of two engines to recorded decisions. */
import type { RecordId, TenantId } from "../base/ids.ts";
import type { StoreArchive } from "../ledger/ports/archive.ts";
import { type DifferenceKind, differenceOf, type PolicyDecision, type PolicyEngine } from "../policy/model/decision.ts";
import { findDecision } from "./replay.ts";

/** Decisions that change from one answer with its reasons to another. */
export interface RecordedChange {
  readonly kind: DifferenceKind;
  readonly before: Pick<PolicyDecision, "allow" | "reasons">;
  readonly after: Pick<PolicyDecision, "allow" | "reasons">;
  readonly count: number;
  /** Most frequent first. Applications are claims; those beyond `maxApplications` are counted without a name. */
  readonly callers: readonly { readonly tenantId: TenantId; readonly application?: string; readonly count: number }[];
  /** The newest of them. */
  readonly example: { readonly tenantId: TenantId; readonly decisionId: RecordId };
}

export interface RecordedComparison {
  readonly compared: number;
  readonly erased: number;
  /** Decisions whose records lack the question. */
  readonly notAskable: number;
  /** Decisions about an artifact whose registrations were not looked up, and which one of the engines reads. */
  readonly notLookedUp: number;
  /** Most frequent first. */
  readonly changes: readonly RecordedChange[];
}

/** Applications of a tenant that are counted separately for one change. */
const maxApplications = 100;

/**
 * Evaluates every decision since then with both engines. Rejects with `store_unavailable` if the archive cannot be
 * read.
 *
 * @param fromMs milliseconds since the Unix epoch
 * @param onProgress called with the number of decisions read
 */
export async function compareRecorded(
  archive: Pick<StoreArchive, "search" | "find">,
  tenants: readonly TenantId[],
  fromMs: number,
  [old, next]: readonly [PolicyEngine, PolicyEngine],
  onProgress: (decisions: number) => void,
): Promise<RecordedComparison> {
  const tally = new Tally();
  let compared = 0;
  let erased = 0;
  let notAskable = 0;
  let notLookedUp = 0;
  for (const tenantId of tenants) {
    for await (const decisionId of decisionsSince(archive, tenantId, fromMs)) {
      const found = decisionId === undefined ? "erased" : await findDecision(archive, tenantId, decisionId);
      if (found === "erased") erased += 1;
      else if (typeof found === "string") notAskable += 1;
      else if (!found.isComplete && (old.readsRegistered(found.query) || next.readsRegistered(found.query)))
        notLookedUp += 1;
      else {
        compared += 1;
        const { query, record } = found;
        const [before, after] = [old.decide(query), next.decide(query)];
        const difference = differenceOf(before, after);
        if (difference !== undefined) {
          const example = { tenantId, decisionId: record.record_id };
          tally.add({ kind: difference.kind, before, after, example }, query.claimed.workload.application);
        }
      }
      onProgress(compared + erased + notAskable + notLookedUp);
    }
  }
  return { compared, erased, notAskable, notLookedUp, changes: tally.changes() };
}

/** Ids of the tenant's decisions, in the order of its log; undefined for each erased one. */
async function* decisionsSince(archive: Pick<StoreArchive, "search">, tenantId: TenantId, fromMs: number) {
  let after: number | undefined;
  do {
    const page = await archive.search({
      tenantId,
      terms: [],
      fromMs,
      limit: 1_000,
      ...(after !== undefined && { after }),
    });
    for (const { kind, erased, recordId } of page.found) if (kind === "decision") yield erased ? undefined : recordId;
    after = page.next;
  } while (after !== undefined);
}

interface Counted {
  change: Omit<RecordedChange, "count" | "callers">;
  count: number;
  readonly tenants: Map<TenantId, Map<string | undefined, number>>;
}

class Tally {
  readonly #counted = new Map<string, Counted>();

  add({ kind, before, after, example }: Omit<RecordedChange, "count" | "callers">, application: string): void {
    const answers = [before, after].map(({ allow, reasons }) => ({ allow, reasons }));
    const key = JSON.stringify([kind, answers]);
    const counted = this.#counted.get(key) ?? {
      change: { kind, before, after, example },
      count: 0,
      tenants: new Map(),
    };
    this.#counted.set(key, counted);
    counted.count += 1;
    counted.change = { ...counted.change, example };
    const applications = counted.tenants.get(example.tenantId) ?? new Map<string | undefined, number>();
    counted.tenants.set(example.tenantId, applications);
    const name = applications.has(application) || applications.size < maxApplications ? application : undefined;
    applications.set(name, (applications.get(name) ?? 0) + 1);
  }

  changes(): readonly RecordedChange[] {
    const changes = [...this.#counted.values()].map(({ change: { before, after, ...rest }, count, tenants }) => ({
      ...rest,
      before: { allow: before.allow, reasons: before.reasons },
      after: { allow: after.allow, reasons: after.reasons },
      count,
      callers: [...tenants]
        .flatMap(([tenantId, applications]) =>
          [...applications].map(([application, own]) => ({
            tenantId,
            ...(application !== undefined && { application }),
            count: own,
          })),
        )
        .sort((a, b) => b.count - a.count),
    }));
    return changes.sort((a, b) => b.count - a.count);
  }
}
