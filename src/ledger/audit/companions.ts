/**
 * Checks the rows beside a log in its store. They are not in the tree, so no signature covers them, but all can be
 * compared with the records. Problems are collected instead of thrown, so that one does not hide others, nor problems
 * of the log.
 */
import { orUndefined, parseJson } from "../../base/json.ts";
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
import { parseLeaf } from "../record/leaf.ts";
import { open } from "../record/sealing.ts";
import { blockLeaves, blockOf, indexedOf, StoredTerms } from "../search/search-index.ts";
import { indexedTermsOf } from "../search/search-terms.ts";
import type { AuditProblem, RecordCheck } from "./audit.ts";

/** Most problems of one kind that are reported. */
const maxProblems = 16;

const remedy = "ledger reindex rebuilds the index";

type Report = (message: string, leafIndex?: number) => void;
type Collecting<Check> = Check & { readonly problems: readonly AuditProblem[] };

/** A check and the problems that it reports. */
function collecting<Check>(make: (report: Report) => Check): Collecting<Check> {
  const problems: AuditProblem[] = [];
  const check = make((message, leafIndex) => {
    if (problems.length < maxProblems) problems.push({ message, ...(leafIndex !== undefined && { leafIndex }) });
  });
  return { ...check, problems };
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
): readonly Collecting<RecordCheck>[] {
  const { searchIndex, registrations, lastRecordedAtMs } = companions;
  return [
    collecting((report) => timeCheck(lastRecordedAtMs, nowMs, report)),
    collecting((report) => idempotencyCheck(companions, head, report)),
    ...(searchIndex === undefined ? [] : [collecting((report) => searchCheck(searchIndex, report))]),
    collecting((report) => registrationCheck(registrations, report)),
  ];
}

/** The index must have the terms of every record that is neither erased nor waiting, and no others. */
function searchCheck(rows: SearchRows, report: Report): RecordCheck {
  const stored = new StoredTerms().under(rows.key);
  let block = 0;
  let expected = new Map<string, number>();
  async function endBlock(): Promise<void> {
    const surplus = new Set<number>();
    for (const { leafIndex, term } of await rows.terms(block))
      if (!expected.delete(rowOf(leafIndex, term))) surplus.add(leafIndex);
    for (const leafIndex of new Set(expected.values()))
      if (leafIndex < rows.filledTo) report(`leaf ${leafIndex} is not found by all of its terms: ${remedy}`, leafIndex);
    for (const leafIndex of surplus)
      report(`leaf ${leafIndex} is found by terms that it does not have: ${remedy}`, leafIndex);
    expected = new Map();
    block += 1;
  }
  return {
    async next({ leafIndex }, _, record) {
      while (blockOf(leafIndex) > block) await endBlock();
      for (const term of record === undefined ? [] : indexedOf(indexedTermsOf(record)))
        expected.set(rowOf(leafIndex, stored(term)), leafIndex);
    },
    end: endBlock,
  };
}

function rowOf(leafIndex: number, term: Uint8Array): string {
  return `${leafIndex} ${Buffer.from(term).toString("hex")}`;
}

/** Tolerated clock difference, as at the start of the service. */
const maxClockSkewMs = 5 * 60_000;

/** The head's time must be that of the last leaf, and not in the future unless an operator accepted it. */
function timeCheck(lastRecordedAtMs: number, nowMs: number, report: Report): RecordCheck {
  let newest: string | undefined;
  let accepted: string | undefined;
  return {
    async next(_, { kind, recorded_at }) {
      newest = recorded_at;
      if (kind === "clock_acceptance") accepted = recorded_at;
    },
    async end() {
      const ofHead = new Date(lastRecordedAtMs).toISOString();
      if (newest !== undefined && newest !== ofHead) report(`the head says ${ofHead}, and the last leaf ${newest}`);
      const newestMs = Math.max(lastRecordedAtMs, Date.parse(newest ?? ofHead));
      if (newestMs > nowMs + maxClockSkewMs && new Date(newestMs).toISOString() !== accepted)
        report(`the log is ahead of the clock: its newest time is ${new Date(newestMs).toISOString()}`);
    },
  };
}

/** Idempotency records must belong to their record, and be erased with it. */
function idempotencyCheck(companions: Companions, head: LogState, report: Report): RecordCheck {
  return {
    async end() {
      for await (const row of companions.idempotencyRows()) {
        const problem = idempotencyProblem(row, head.size);
        if (problem !== undefined)
          report(`what is kept for retries of leaf ${row.leafIndex} ${problem}`, row.leafIndex);
      }
    },
  };
}

/** A content address: the name of a policy revision that the service created. */
const addressPattern = /^sha256:[0-9a-f]{64}$/;

/** Policy texts must exist and match their revisions. One check serves all logs of a store. */
export function policyCheck(policyRevision: (revision: string) => Promise<string | undefined>) {
  const seen = new Set<string>();
  return collecting((report) => {
    /** Checks one revision, named by a leaf or not. */
    async function look(revision: string, leafIndex?: number): Promise<void> {
      if (seen.has(revision) || !addressPattern.test(revision)) return;
      seen.add(revision);
      const content = await policyRevision(revision);
      if (content === undefined) report(`the text of the policy revision ${revision} is missing`, leafIndex);
      else if (revision !== contentAddress(content))
        report(`the text of the policy revision ${revision} was changed`, leafIndex);
    }
    const next: RecordCheck["next"] = async ({ leafIndex }, { policy_revision: revision }) => {
      if (revision !== undefined) await look(revision, leafIndex);
    };
    return { next, look };
  });
}

// Compares the index of registrations with the records.

/**
 * The index must have every registration that counts, under the names of its artifact, and no others, and must mark
 * which are relied on. An artifact's rows are read at its last one, and for a registration without a row, to confirm
 * that it does not count.
 */
function registrationCheck(rows: RegistrationRows, report: Report): RecordCheck {
  let block = -1;
  let ofBlock: ReadonlyMap<number, readonly RegistrationRowOfLeaf[]> = new Map();
  const missing = (leafIndex: number) =>
    report(`leaf ${leafIndex} is not found by the artifact that it registers: ${remedy}`, leafIndex);
  const wrong = (leafIndex: number) =>
    report(`leaf ${leafIndex} stands for an artifact as it does not register it: ${remedy}`, leafIndex);

  async function readBlock(next: number): Promise<void> {
    const first = next * blockLeaves;
    block = next;
    ofBlock = Map.groupBy(await rows.within(first, first + blockLeaves), ({ leafIndex }) => leafIndex);
  }

  /** The rows of an artifact, and its registrations; undefined if one was erased: its effect on the others is unknown. */
  async function known(artifact: Uint8Array, name: string) {
    const all = await rows.of(artifact);
    const registrations = all.flatMap((row) => readRegistration(row, name) ?? []);
    return registrations.length < all.length ? undefined : { all, registrations };
  }

  /** Checks all rows of an artifact. */
  async function checkAll(artifact: Uint8Array, name: string): Promise<void> {
    const found = await known(artifact, name);
    if (found === undefined) return;
    const counting = countingRegistrations(found.registrations);
    const relied = reliedOn(counting).map((one) => one.leafIndex);
    for (const row of found.all) {
      const counts = counting.some((one) => one.leafIndex === row.leafIndex);
      if (!counts || relied.includes(row.leafIndex) !== row.isReliedOn) wrong(row.leafIndex);
    }
  }

  async function checkAbsent(registration: Registration, artifact: Uint8Array, name: string): Promise<void> {
    // Without one that was erased: nothing is known of such an artifact, and no more rows are added.
    const found = await known(artifact, name);
    if (found === undefined) return;
    const before = found.registrations.filter(({ leafIndex }) => leafIndex < registration.leafIndex);
    const relied = new Set(reliedOn(countingRegistrations(before)).map(({ leafIndex }) => leafIndex));
    const read = found.all.filter(({ leafIndex }) => relied.has(leafIndex));
    const sizeBytes = read.reduce((sum, { leaf, sealed }) => sum + leaf.length + sealed.length, 0);
    if (read.length > maxReliedOn || sizeBytes > maxReliedOnBytes) return;
    if (countingRegistrations([...before, registration]).includes(registration)) missing(registration.leafIndex);
  }

  return {
    async next({ leafIndex }, { kind }, record) {
      if (blockOf(leafIndex) !== block) await readBlock(blockOf(leafIndex));
      const ofLeaf = ofBlock.get(leafIndex) ?? [];
      if (record === undefined) {
        if (ofLeaf.some(({ isReliedOn }) => !isReliedOn) || (kind !== "registration" && ofLeaf.length > 0))
          wrong(leafIndex);
        return;
      }
      const { key } = rows;
      const expected = [...registrationsOf(leafIndex, record)].map(([name, registration]) => {
        return { artifact: key && storedArtifact(key, name), name, registration };
      });
      const found = ofLeaf.filter((row) => expected.some(({ artifact }) => isSame(artifact, row.artifact)));
      if (found.length < ofLeaf.length) wrong(leafIndex);
      for (const { artifact, name, registration } of expected) {
        const row = found.find((one) => isSame(artifact, one.artifact));
        if (row?.isLast) await checkAll(row.artifact, name);
        if (artifact === undefined) missing(leafIndex);
        else if (row === undefined) await checkAbsent(registration, artifact, name);
      }
    },
  };
}

/** Undefined if the record is erased or damaged, which the walk over the log reports. */
function readRegistration({ leafIndex, leaf, sealed, opening }: StoredEntry, name: string): Registration | undefined {
  if (opening === undefined) return undefined;
  return orUndefined(() => {
    const record = parseJson(Buffer.from(open(sealed, opening, parseLeaf(leaf).commitment)).toString("utf8"));
    return registrationsOf(leafIndex, record as StoredRecord).get(name);
  });
}

function isSame(one: Uint8Array | undefined, other: Uint8Array): boolean {
  return one !== undefined && Buffer.compare(one, other) === 0;
}
