/**
 * Checks the rows beside a log in its store. They are not in the tree, so no signature covers them, but all can be
 * compared with the records. Problems are collected instead of thrown, so that one does not hide others, nor problems
 * of the log.
 */
import { parseJson } from "../../base/json.ts";
import { contentAddress } from "../../base/text-forms.ts";
import { storedArtifact } from "../artifacts/registration-index.ts";
import {
  countingRegistrations,
  maxReliedOn,
  maxReliedOnBytes,
  type Registration,
  registrationsOf,
  reliedOn,
} from "../artifacts/registrations.ts";
import type {
  Companions,
  OrphanRow,
  RegistrationRowOfLeaf,
  RegistrationRows,
  SearchRows,
  StoredEntry,
} from "../ports/archive.ts";
import type { StoredRecord } from "../ports/record.ts";
import type { LogState } from "../ports/store.ts";
import { idempotencyProblem } from "../record/idempotency-record.ts";
import { type Leaf, parseLeaf } from "../record/leaf.ts";
import { open } from "../record/sealing.ts";
import { blockLeaves, blockOf, indexedOf, StoredTerms } from "../search/search-index.ts";
import { indexedTermsOf } from "../search/search-terms.ts";
import type { AuditProblem, RecordCheck } from "./audit.ts";

/** Most problems of one kind that are reported. */
const maxProblems = 16;

/** Collects problems. */
class Check {
  readonly problems: AuditProblem[] = [];

  protected report(message: string, leafIndex?: number): void {
    if (this.problems.length < maxProblems)
      this.problems.push({ message, ...(leafIndex !== undefined && { leafIndex }) });
  }
}

/** Descriptions of rows without a log. */
export function describeOrphans(rows: readonly OrphanRow[]): readonly string[] {
  return rows.map(
    ({ tenantId, table, name }) => `tenant ${tenantId}: ${table} has ${name}, which the log does not have`,
  );
}

/** Checks of all rows beside a log; policy texts belong to the whole store. */
export function companionChecks(
  companions: Companions,
  head: LogState,
  nowMs: number,
): readonly (Check & RecordCheck)[] {
  const { searchIndex, registrations, lastRecordedAtMs } = companions;
  return [
    new TimeCheck(lastRecordedAtMs, nowMs),
    new IdempotencyCheck(companions, head),
    ...(searchIndex === undefined ? [] : [new SearchCheck(searchIndex)]),
    new RegistrationCheck(registrations),
  ];
}

/** The index must have the terms of every record that is neither erased nor waiting, and no others. */
class SearchCheck extends Check implements RecordCheck {
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
class TimeCheck extends Check implements RecordCheck {
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
class IdempotencyCheck extends Check implements RecordCheck {
  readonly #companions: Companions;
  readonly #head: LogState;

  constructor(companions: Companions, head: LogState) {
    super();
    this.#companions = companions;
    this.#head = head;
  }

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
export class PolicyCheck extends Check implements RecordCheck {
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
    else if (revision !== contentAddress(content))
      this.report(`the text of the policy revision ${revision} was changed`, leafIndex);
  }
}

// Compares the index of registrations with the records.

/**
 * The index must have every registration that counts, under the names of its artifact, and no others, and must mark
 * which are relied on. An artifact's rows are read at its last one, and for a registration without a row, to confirm
 * that it does not count.
 */
class RegistrationCheck extends Check implements RecordCheck {
  readonly #rows: RegistrationRows;
  #block = -1;
  #ofBlock: ReadonlyMap<number, readonly RegistrationRowOfLeaf[]> = new Map();

  constructor(rows: RegistrationRows) {
    super();
    this.#rows = rows;
  }

  async next({ leafIndex }: StoredEntry, { kind }: Leaf, record: StoredRecord | undefined): Promise<void> {
    if (blockOf(leafIndex) !== this.#block) await this.#readBlock(blockOf(leafIndex));
    const rows = this.#ofBlock.get(leafIndex) ?? [];
    if (record === undefined) {
      if (rows.some(({ isReliedOn }) => !isReliedOn) || (kind !== "registration" && rows.length > 0))
        this.#wrong(leafIndex);
      return;
    }
    const { key, indexedTo } = this.#rows;
    const registered = leafIndex < indexedTo ? registrationsOf(leafIndex, record) : new Map<string, Registration>();
    const expected = [...registered].map(([name, registration]) => {
      return { artifact: key && storedArtifact(key, name), name, registration };
    });
    const found = rows.filter((row) => expected.some(({ artifact }) => isSame(artifact, row.artifact)));
    if (found.length < rows.length) this.#wrong(leafIndex);
    for (const { artifact, name, registration } of expected) {
      if (artifact === undefined) this.#missing(leafIndex);
      else if (found.some((row) => isSame(row.artifact, artifact))) await this.#checkLast(leafIndex, artifact, name);
      else await this.#checkAbsent(registration, artifact, name);
    }
  }

  async #readBlock(block: number): Promise<void> {
    const first = block * blockLeaves;
    this.#block = block;
    this.#ofBlock = Map.groupBy(await this.#rows.within(first, first + blockLeaves), ({ leafIndex }) => leafIndex);
  }

  /** Checks all rows of an artifact at its last one. */
  async #checkLast(leafIndex: number, artifact: Uint8Array, name: string): Promise<void> {
    if ((await this.#rows.lastOf(artifact)) !== leafIndex) return;
    const rows = await this.#rows.of(artifact);
    const registrations = rows.flatMap((row) => readRegistration(row, name) ?? []);
    // The effect of an erased registration on the others is unknown.
    if (registrations.length < rows.length) return;
    const counting = countingRegistrations(registrations);
    const relied = reliedOn(counting).map((one) => one.leafIndex);
    for (const row of rows) {
      const counts = counting.some((one) => one.leafIndex === row.leafIndex);
      if (!counts || relied.includes(row.leafIndex) !== row.isReliedOn) this.#wrong(row.leafIndex);
    }
  }

  async #checkAbsent(registration: Registration, artifact: Uint8Array, name: string): Promise<void> {
    const rows = await this.#rows.of(artifact);
    const registrations = rows.flatMap((row) => readRegistration(row, name) ?? []);
    // Nothing is known of such an artifact, and no more rows are added.
    if (registrations.length < rows.length) return;
    const before = registrations.filter(({ leafIndex }) => leafIndex < registration.leafIndex);
    const relied = new Set(reliedOn(countingRegistrations(before)).map(({ leafIndex }) => leafIndex));
    const read = rows.filter(({ leafIndex }) => relied.has(leafIndex));
    const sizeBytes = read.reduce((sum, { leaf, sealed }) => sum + leaf.length + sealed.length, 0);
    if (read.length > maxReliedOn || sizeBytes > maxReliedOnBytes) return;
    if (countingRegistrations([...before, registration]).includes(registration)) this.#missing(registration.leafIndex);
  }

  #missing(leafIndex: number): void {
    this.report(`leaf ${leafIndex} is not found by the artifact that it registers: ${remedy}`, leafIndex);
  }

  #wrong(leafIndex: number): void {
    this.report(`leaf ${leafIndex} stands for an artifact as it does not register it: ${remedy}`, leafIndex);
  }
}

const remedy = "ledger reindex rebuilds the index";

/** Undefined if the record is erased or damaged, which the walk over the log reports. */
function readRegistration({ leafIndex, leaf, sealed, opening }: StoredEntry, name: string): Registration | undefined {
  if (opening === undefined) return undefined;
  try {
    const record = parseJson(Buffer.from(open(sealed, opening, parseLeaf(leaf).commitment)).toString("utf8"));
    return registrationsOf(leafIndex, record as StoredRecord).get(name);
  } catch {
    return undefined;
  }
}

function isSame(one: Uint8Array | undefined, other: Uint8Array): boolean {
  return one !== undefined && Buffer.compare(one, other) === 0;
}
