/**
 * Checks the rows beside a log in its store. They are not in the tree, so no signature covers them, but all can be
 * compared with the records. Problems are collected instead of thrown, so that one does not hide others, nor problems
 * of the log.
 */
import { createHash } from "node:crypto";
import type { Companions, OrphanRow, SearchRows, StoredEntry } from "../ports/archive.ts";
import type { StoredRecord } from "../ports/record.ts";
import type { LogState } from "../ports/store.ts";
import { idempotencyProblem } from "../record/idempotency-record.ts";
import type { Leaf } from "../record/leaf.ts";
import { blockOf, indexedOf, StoredTerms } from "../search/search-index.ts";
import { indexedTermsOf } from "../search/search-terms.ts";
import { Check, type CompanionCheck } from "./check.ts";
import { RegistrationCheck } from "./registration-check.ts";

/** Descriptions of rows without a log. */
export function describeOrphans(rows: readonly OrphanRow[]): readonly string[] {
  return rows.map(
    ({ tenantId, table, name }) => `tenant ${tenantId}: ${table} has ${name}, which the log does not have`,
  );
}

/** Checks of all rows beside a log; policy texts belong to the whole store. */
export function companionChecks(companions: Companions, head: LogState, nowMs: number): readonly CompanionCheck[] {
  const { searchIndex, registrations, lastRecordedAtMs } = companions;
  return [
    new TimeCheck(lastRecordedAtMs, nowMs),
    new IdempotencyCheck(companions, head),
    ...(searchIndex === undefined ? [] : [new SearchCheck(searchIndex)]),
    new RegistrationCheck(registrations),
  ];
}

/** The index must have the terms of every record that is neither erased nor waiting, and no others. */
class SearchCheck extends Check {
  readonly #rows: SearchRows;
  readonly #stored = new StoredTerms();
  #block = 0;
  #expected = new Map<string, number>();

  constructor(rows: SearchRows) {
    super();
    this.#rows = rows;
  }

  async next({ leafIndex }: StoredEntry, _: Leaf, record: StoredRecord | undefined): Promise<void> {
    while (blockOf(leafIndex) > this.#block) await this.end();
    for (const term of record === undefined ? [] : indexedOf(indexedTermsOf(record)))
      this.#expected.set(rowOf(leafIndex, this.#stored.of(this.#rows.key, term)), leafIndex);
  }

  #isWaiting(leafIndex: number): boolean {
    return this.#rows.waiting.some(({ first, end }) => leafIndex >= first && leafIndex < end);
  }

  async end(): Promise<void> {
    const surplus = new Set<number>();
    for (const { leafIndex, term } of await this.#rows.terms(this.#block))
      if (!this.#expected.delete(rowOf(leafIndex, term))) surplus.add(leafIndex);
    for (const leafIndex of new Set(this.#expected.values()))
      if (!this.#isWaiting(leafIndex))
        this.report(`leaf ${leafIndex} is not found by all of its terms: ledger reindex rebuilds the index`, leafIndex);
    for (const leafIndex of surplus)
      this.report(
        `leaf ${leafIndex} is found by terms that it does not have: ledger reindex rebuilds the index`,
        leafIndex,
      );
    this.#expected = new Map();
    this.#block += 1;
  }
}

function rowOf(leafIndex: number, term: Uint8Array): string {
  return `${leafIndex} ${Buffer.from(term).toString("hex")}`;
}

/** Tolerated clock difference, as at the start of the service. */
const maxClockSkewMs = 5 * 60_000;

/** The head's time must be that of the last leaf, and not in the future unless an operator accepted it. */
class TimeCheck extends Check {
  readonly #lastRecordedAtMs: number;
  readonly #nowMs: number;
  #newest: string | undefined;
  #accepted: string | undefined;

  constructor(lastRecordedAtMs: number, nowMs: number) {
    super();
    this.#lastRecordedAtMs = lastRecordedAtMs;
    this.#nowMs = nowMs;
  }

  async next(_: StoredEntry, { kind, recorded_at }: Leaf): Promise<void> {
    this.#newest = recorded_at;
    if (kind === "clock_acceptance") this.#accepted = recorded_at;
  }

  async end(): Promise<void> {
    const ofHead = new Date(this.#lastRecordedAtMs).toISOString();
    if (this.#newest !== undefined && this.#newest !== ofHead)
      this.report(`the head says ${ofHead}, and the last leaf ${this.#newest}`);
    const newestMs = Math.max(this.#lastRecordedAtMs, Date.parse(this.#newest ?? ofHead));
    if (newestMs > this.#nowMs + maxClockSkewMs && new Date(newestMs).toISOString() !== this.#accepted)
      this.report(`the log is ahead of the clock: its newest time is ${new Date(newestMs).toISOString()}`);
  }
}

/** Idempotency records must belong to their record, and be erased with it. */
class IdempotencyCheck extends Check {
  readonly #companions: Companions;
  readonly #head: LogState;

  constructor(companions: Companions, head: LogState) {
    super();
    this.#companions = companions;
    this.#head = head;
  }

  async next(): Promise<void> {}

  async end(): Promise<void> {
    for await (const row of this.#companions.idempotencyRows()) {
      const problem = idempotencyProblem(row, this.#head.size);
      if (problem !== undefined)
        this.report(`what is kept for retries of leaf ${row.leafIndex} ${problem}`, row.leafIndex);
    }
  }
}

/** A content address: the name of a policy revision that the service created. */
const addressPattern = /^sha256:[0-9a-f]{64}$/;

/** Policy texts must exist and match their revisions. One check serves all logs of a store. */
export class PolicyCheck extends Check {
  readonly #policyRevision: (revision: string) => Promise<string | undefined>;
  readonly #seen = new Set<string>();

  constructor(policyRevision: (revision: string) => Promise<string | undefined>) {
    super();
    this.#policyRevision = policyRevision;
  }

  async next({ leafIndex }: StoredEntry, { policy_revision: revision }: Leaf): Promise<void> {
    if (revision !== undefined) await this.look(revision, leafIndex);
  }

  /** Checks one revision, named by a leaf or not. */
  async look(revision: string, leafIndex?: number): Promise<void> {
    if (this.#seen.has(revision) || !addressPattern.test(revision)) return;
    this.#seen.add(revision);
    const content = await this.#policyRevision(revision);
    if (content === undefined) this.report(`the text of the policy revision ${revision} is missing`, leafIndex);
    else if (revision !== `sha256:${createHash("sha256").update(content, "utf8").digest("hex")}`)
      this.report(`the text of the policy revision ${revision} was changed`, leafIndex);
  }

  async end(): Promise<void> {}
}
