/** Compares the index of registrations with the records. */
import { storedArtifact } from "../artifacts/registration-index.ts";
import {
  countingRegistrations,
  maxReliedOn,
  maxReliedOnBytes,
  type Registration,
  registrationsOf,
  reliedOn,
} from "../artifacts/registrations.ts";
import type { RegistrationRowOfLeaf, RegistrationRows, StoredEntry } from "../ports/archive.ts";
import type { StoredRecord } from "../ports/record.ts";
import type { Leaf } from "../record/leaf.ts";
import { parseLeaf } from "../record/leaf.ts";
import { open } from "../record/sealing.ts";
import { blockLeaves, blockOf } from "../search/search-index.ts";
import { Check } from "./check.ts";

/**
 * The index must have every registration that counts, under the names of its artifact, and no others, and must mark
 * which are relied on. An artifact's rows are read at its last one, and for a registration without a row, to confirm
 * that it does not count.
 */
export class RegistrationCheck extends Check {
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

  async end(): Promise<void> {}

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
    const record = JSON.parse(Buffer.from(open(sealed, opening, parseLeaf(leaf).commitment)).toString("utf8"));
    return registrationsOf(leafIndex, record as StoredRecord).get(name);
  } catch {
    return undefined;
  }
}

function isSame(one: Uint8Array | undefined, other: Uint8Array): boolean {
  return one !== undefined && Buffer.compare(one, other) === 0;
}
