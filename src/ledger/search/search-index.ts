/**
 * The search index at rest. Records are sealed; an index of their values in the clear would undo that. So a term is
 * stored as what it is under a random key of the tenant's own, which is kept, and backed up, where openings are.
 */
import { createHmac, createSecretKey, hash, type KeyObject } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { SearchField, SearchTerm } from "../ports/search.ts";
import { canonicalTerm } from "./search-terms.ts";

/** Size of the key of an index. */
export const searchKeyBytes = 32;
/** Size of a stored term: HMAC-SHA-256, cut. Two values that share one are told apart when the record is opened. */
export const storedTermBytes = 16;

/** Leaves of a block. A search looks at an index block by block. */
export const blockLeaves = 1_024;

/** The block of a leaf. */
export function blockOf(leafIndex: number): number {
  return Math.floor(leafIndex / blockLeaves);
}

/**
 * Fields that an index has. `record_id` needs none; by what most records have in common, such as an outcome, every record
 * that has the rest is looked at.
 */
const indexedFields: ReadonlySet<SearchField> = new Set([
  "request_id",
  "decision_id",
  "artifact_digest",
  "cid",
  "resource_id",
  "attribute",
  "label",
  "on_behalf_of",
  "subject",
  "principal",
]);

/** Digests and CIDs: an index has them in one spelling, and not as each record spells them. */
const spelledFields: ReadonlySet<SearchField> = new Set(["artifact_digest", "cid"]);

/** Those of the terms that an index has, as it has them. */
export function indexedOf(terms: readonly SearchTerm[]): readonly SearchTerm[] {
  const isFirst = ({ field, value }: SearchTerm, position: number, all: readonly SearchTerm[]) =>
    !spelledFields.has(field) || all.findIndex((other) => other.field === field && other.value === value) === position;
  return terms
    .filter(({ field }) => indexedFields.has(field))
    .map(canonicalTerm)
    .filter(isFirst);
}

/** Where in a log to look: leaves from `first` up to and without `end`. */
export interface LeafRange {
  readonly first: number;
  readonly end: number;
}

/** The leaves of a block. */
export function rangeOfBlock(block: number): LeafRange {
  return { first: block * blockLeaves, end: (block + 1) * blockLeaves };
}

/**
 * The leaves that an index has of a decision's id, and the decision's own, which stores find by its record id.
 * @param leaves of the range, in order
 * @param decision leaf of the record with this id; undefined where there is none, or where nothing of it is indexed
 */
export function withDecision(
  leaves: readonly number[],
  decision: number | undefined,
  { first, end }: LeafRange,
): readonly number[] {
  if (decision === undefined || decision < first || decision >= end || leaves.includes(decision)) return leaves;
  return [...leaves, decision].sort((one, other) => one - other);
}

/** Values that come again and again: who calls, what is cited, and what requests are about. About 300 bytes each. */
const cachedFields: ReadonlySet<SearchField> = new Set([
  "subject",
  "principal",
  "decision_id",
  "resource_id",
  "label",
  "attribute",
  "on_behalf_of",
]);
const maxCached = 8_192;

/** Keys that are prepared at a time, about 600 bytes each. */
const maxKeys = 4_096;

/** A key as it is used: prepared for the HMAC, with what was made under it. */
interface PreparedKey {
  /** Under the two patterns of RFC 2104 §2. */
  readonly inner: Uint8Array;
  readonly outer: Uint8Array;
  readonly secret: KeyObject;
  /** By field and value. */
  readonly cached: Map<SearchField, Map<string, Uint8Array>>;
}

const blockBytes = 64;
/** Longer values are hashed by Node's HMAC, which costs twice as much. */
const maxMessageBytes = 256;
/** What HMAC hashes: the key under a pattern, then the message or its inner hash. */
const innerInput = Buffer.alloc(blockBytes + maxMessageBytes);
const outerInput = Buffer.alloc(blockBytes + 32);

/** Terms as they are stored. Remembers the ones that come again. */
export class StoredTerms {
  /** By their bytes: a store reads them anew with every batch. */
  readonly #keys = new LRUCache<string, PreparedKey>({ max: maxKeys });
  /** Terms that were kept since all were dropped. */
  #cached = 0;

  /** The first 16 bytes of HMAC-SHA-256 under the key, over the field's name, a zero byte and the value in UTF-8. */
  of(key: Uint8Array, term: SearchTerm): Uint8Array {
    return this.#of(this.#prepared(key), term);
  }

  /** As `of`, for many terms under one key. */
  under(key: Uint8Array): (term: SearchTerm) => Uint8Array {
    const prepared = this.#prepared(key);
    return (term) => this.#of(prepared, term);
  }

  #of(prepared: PreparedKey, term: SearchTerm): Uint8Array {
    const { field, value } = term;
    if (!cachedFields.has(field)) return storedTerm(prepared, term);
    const known = prepared.cached.get(field)?.get(value);
    if (known !== undefined) return known;
    const stored = storedTerm(prepared, term);
    // All at once, and seldom: an order in which each would go costs more at every look than making them anew does then.
    if (this.#cached === maxCached) this.#dropCached();
    this.#cached += 1;
    const ofField = prepared.cached.get(field) ?? new Map<string, Uint8Array>();
    prepared.cached.set(field, ofField.set(value, stored));
    return stored;
  }

  #dropCached(): void {
    for (const { cached } of this.#keys.values()) cached.clear();
    this.#cached = 0;
  }

  #prepared(key: Uint8Array): PreparedKey {
    const bytes = Buffer.from(key.buffer, key.byteOffset, key.length).toString("latin1");
    const known = this.#keys.get(bytes);
    if (known !== undefined) return known;
    const padded = new Uint8Array(blockBytes);
    padded.set(key);
    const prepared = {
      inner: padded.map((byte) => byte ^ 0x36),
      outer: padded.map((byte) => byte ^ 0x5c),
      secret: createSecretKey(key),
      cached: new Map(),
    };
    this.#keys.set(bytes, prepared);
    return prepared;
  }
}

/** HMAC-SHA-256 of a short message takes two hashes in one step each: an object for every term costs more than they do. */
function storedTerm({ inner, outer, secret }: PreparedKey, { field, value }: SearchTerm): Uint8Array {
  const message = `${field}\0${value}`;
  if (message.length * 3 > maxMessageBytes && Buffer.byteLength(message) > maxMessageBytes)
    return createHmac("sha256", secret).update(message, "utf8").digest().subarray(0, storedTermBytes);
  innerInput.set(inner);
  const size = innerInput.write(message, blockBytes, "utf8");
  outerInput.set(outer);
  outerInput.write(hash("sha256", innerInput.subarray(0, blockBytes + size), "binary"), blockBytes, "binary");
  return Buffer.from(hash("sha256", outerInput, "binary"), "binary").subarray(0, storedTermBytes);
}
