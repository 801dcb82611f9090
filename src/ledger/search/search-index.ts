/**
 * The stored search index. Records are sealed, and an index of cleartext values would undo that. So a term is stored as
 * an HMAC with a random key of the tenant, which is stored and backed up with the openings.
 */
import { createHmac, createSecretKey, hash, type KeyObject } from "node:crypto";
import { LRUCache } from "lru-cache";
import type { SearchField, SearchTerm } from "../ports/search.ts";
import { canonicalTerm } from "./search-terms.ts";

export const searchKeyBytes = 32;
/** Size of a stored term: truncated HMAC-SHA-256. Opening the record resolves collisions. */
export const storedTermBytes = 16;

/** Leaves of a block. A search reads an index block by block. */
export const blockLeaves = 1_024;

export function blockOf(leafIndex: number): number {
  return Math.floor(leafIndex / blockLeaves);
}

/**
 * Indexed fields, and whether their values come again: callers, citations, and subjects of requests. Fields with few
 * values, such as an outcome, are checked on records that match the rest.
 */
const indexedFields: ReadonlyMap<SearchField, { readonly isRepeated: boolean }> = new Map([
  ["request_id", { isRepeated: false }],
  ["decision_id", { isRepeated: true }],
  ["artifact_digest", { isRepeated: false }],
  ["cid", { isRepeated: false }],
  ["resource_id", { isRepeated: true }],
  ["attribute", { isRepeated: true }],
  ["label", { isRepeated: true }],
  ["on_behalf_of", { isRepeated: true }],
  ["subject", { isRepeated: true }],
  ["principal", { isRepeated: true }],
]);

/** Digests and CIDs are indexed in one spelling. */
const spelledFields: ReadonlySet<SearchField> = new Set(["artifact_digest", "cid"]);

/** The indexed ones of the terms, in their indexed form. */
export function indexedOf(terms: readonly SearchTerm[]): readonly SearchTerm[] {
  const isFirst = ({ field, value }: SearchTerm, position: number, all: readonly SearchTerm[]) =>
    !spelledFields.has(field) || all.findIndex((other) => other.field === field && other.value === value) === position;
  return terms
    .filter(({ field }) => indexedFields.has(field))
    .map(canonicalTerm)
    .filter(isFirst);
}

/** Leaves to search, from `first` to before `end`. */
export interface LeafRange {
  readonly first: number;
  readonly end: number;
}

export function rangeOfBlock(block: number): LeafRange {
  return { first: block * blockLeaves, end: (block + 1) * blockLeaves };
}

/**
 * Adds the decision's own leaf, which stores find by record id, to the indexed leaves of its id.
 * @param leaves of the range, in order
 * @param decision leaf of the record with this id; undefined if there is none, or if it is not indexed
 */
export function withDecision(
  leaves: readonly number[],
  decision: number | undefined,
  { first, end }: LeafRange,
): readonly number[] {
  if (decision === undefined || decision < first || decision >= end || leaves.includes(decision)) return leaves;
  return [...leaves, decision].sort((one, other) => one - other);
}

/** Most cached terms, about 300 bytes each. */
const maxCached = 8_192;

/** Most prepared keys, about 600 bytes each. */
const maxKeys = 4_096;

/** A key prepared for HMAC, with cached terms. */
interface PreparedKey {
  /** Under the two pads of RFC 2104 §2. */
  readonly inner: Uint8Array;
  readonly outer: Uint8Array;
  readonly secret: KeyObject;
  /** By field and value. */
  readonly cached: Map<SearchField, Map<string, Uint8Array>>;
}

const blockBytes = 64;
/** Longer values use Node's HMAC, which costs twice as much. */
const maxMessageBytes = 256;
/** Input of HMAC: the padded key, then the message or its inner hash. */
const innerInput = Buffer.alloc(blockBytes + maxMessageBytes);
const outerInput = Buffer.alloc(blockBytes + 32);

/** Computes stored terms and caches repeated ones. */
export class StoredTerms {
  /** By key bytes: a store reads them again for every batch. */
  readonly #keys = new LRUCache<string, PreparedKey>({ max: maxKeys });
  /** Terms cached since the last clearing. */
  #cached = 0;

  /**
   * Returns a function for terms with this key: the first 16 bytes of HMAC-SHA-256 over the field's name, a zero byte and
   * the value in UTF-8.
   */
  under(key: Uint8Array): (term: SearchTerm) => Uint8Array {
    const prepared = this.#prepared(key);
    return (term) => this.#of(prepared, term);
  }

  #of(prepared: PreparedKey, term: SearchTerm): Uint8Array {
    const { field, value } = term;
    if (indexedFields.get(field)?.isRepeated !== true) return storedTerm(prepared, term);
    const known = prepared.cached.get(field)?.get(value);
    if (known !== undefined) return known;
    // A copy, because the other is of Node's pool: it would keep a block of that.
    const stored = new Uint8Array(storedTerm(prepared, term));
    // Clears everything, rarely: an LRU order costs more on every lookup than computing terms again.
    if (this.#cached === maxCached) {
      for (const { cached } of this.#keys.values()) cached.clear();
      this.#cached = 0;
    }
    this.#cached += 1;
    const ofField = prepared.cached.get(field) ?? new Map<string, Uint8Array>();
    prepared.cached.set(field, ofField.set(value, stored));
    return stored;
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

/** HMAC-SHA-256 of a short message is two one-shot hashes: an object for every term costs more than they do. */
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
