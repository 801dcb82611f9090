/**
 * A tenant's log in the forms of `docs/reference/ledger-formats.md`, with the records that a case wants. Uses none of the
 * service's code.
 */
import { createHash, createHmac, createPrivateKey, createPublicKey, hkdfSync, randomBytes, sign } from "node:crypto";
import type { JsonObject } from "@bufbuild/protobuf";
import canonicalize from "canonicalize";

/** Members of a record that the log does not add. */
export interface LoggedRecord {
  readonly kind: string;
  readonly record_id: string;
  /** Default: now. */
  readonly recorded_at?: string;
  readonly tenant_id: string;
  readonly caller: { readonly principal_id: string; readonly subject: string; readonly auth_source: string };
  readonly route: string;
  readonly request: JsonObject;
  readonly outcome: JsonObject;
}

/** Who signs a log. */
export interface LogKey {
  readonly origin: string;
  /** Verifier key (C2SP signed-note), for clients to trust. */
  readonly text: string;
  sign(text: string): string;
}

/** The same key for the same two words. */
export function logKey(origin: string, seed = origin): LogKey {
  // PKCS #8 of an Ed25519 key ends with its 32 bytes (RFC 8410 §7).
  const der = Buffer.concat([Buffer.from("302e020100300506032b657004220420", "hex"), sha256(seed)]);
  const key = createPrivateKey({ key: der, format: "der", type: "pkcs8" });
  const publicKey = createPublicKey(key).export({ format: "der", type: "spki" }).subarray(-32);
  const typed = Buffer.concat([Buffer.of(1), publicKey]);
  const id = sha256(`${origin}\n`, typed).subarray(0, 4);
  return {
    origin,
    text: `${origin}+${id.toString("hex")}+${typed.toString("base64")}`,
    sign: (text) => `— ${origin} ${Buffer.concat([id, sign(null, Buffer.from(text), key)]).toString("base64")}\n`,
  };
}

interface Entry {
  readonly recordId: string;
  readonly leaf: Buffer;
  readonly opening: Buffer;
  readonly record: Buffer;
}

/** A log that grows. Its first leaf belongs to no record, so that no path is empty. */
export class ScriptedLog {
  readonly #entries: Entry[] = [];
  readonly #key: LogKey;

  constructor(key: LogKey) {
    this.#key = key;
    const caller = { principal_id: "operator", subject: "operator", auth_source: "operator" };
    const record_id = "01890a5d-0000-7000-8000-000000000000";
    this.append({
      kind: "genesis",
      record_id,
      tenant_id: "tenant-a",
      caller,
      route: "genesis",
      request: {},
      outcome: {},
    });
  }

  /** Appends records; returns their whole receipts in the tree that holds all of them, in protobuf JSON. */
  appendAll(records: readonly LoggedRecord[]): JsonObject[] {
    const first = this.#entries.length;
    for (const record of records) this.#append(record);
    const tree = new Tree(this.#entries.map(({ leaf }) => leafHash(leaf)));
    return records.map((_, i) => this.#receipt(first + i, tree));
  }

  /** The same of one record. */
  append(record: LoggedRecord): JsonObject {
    return this.appendAll([record])[0] as JsonObject;
  }

  #append(given: LoggedRecord): void {
    const { kind, record_id, recorded_at = new Date().toISOString() } = given;
    const opening = randomBytes(32);
    const request_digest = `sha256:${sha256(canonical(given.request)).toString("hex")}`;
    const request_id = "request-42";
    const record = Buffer.from(canonical({ ...given, log: this.#key.origin, recorded_at, request_digest, request_id }));
    const key = Buffer.from(hkdfSync("sha256", opening, "", "platform-ledger/v1/commitment", 32));
    const commitment = `hmac-sha256:${createHmac("sha256", key).update(record).digest("hex")}`;
    const { policy_revision } = given.outcome;
    const revision = kind === "decision" && policy_revision !== undefined ? { policy_revision } : {};
    const leaf = Buffer.from(canonical({ v: 1, kind, record_id, recorded_at, commitment, ...revision }));
    this.#entries.push({ recordId: record_id, leaf, opening, record });
  }

  #receipt(index: number, tree: Tree): JsonObject {
    const { recordId, leaf, opening, record } = this.#entries[index] as Entry;
    const path = tree.path(index).map((hash) => `${hash.toString("base64")}\n`);
    const state = `${this.#key.origin}\n${tree.size}\n${tree.root().toString("base64")}\n`;
    const checkpoint = `${state}\n${this.#key.sign(state)}`;
    return {
      recordId,
      logOrigin: this.#key.origin,
      leafIndex: String(index),
      treeSize: String(tree.size),
      leafHash: leafHash(leaf).toString("base64"),
      proof: `c2sp.org/tlog-proof@v1\nindex ${index}\n${path.join("")}\n${checkpoint}`,
      leaf: leaf.toString("base64"),
      opening: opening.toString("base64"),
      record: record.toString("base64"),
    };
  }
}

/** What a brief receipt has of a whole one. */
export function briefOf({ leaf: _leaf, opening: _opening, record: _record, ...brief }: JsonObject): JsonObject {
  return brief;
}

function sha256(...parts: readonly (string | Buffer)[]): Buffer {
  const hash = createHash("sha256");
  for (const part of parts) hash.update(part);
  return hash.digest();
}

function canonical(value: object): string {
  return canonicalize(value) as string;
}

/** RFC 6962 §2.1. */
const leafHash = (leaf: Buffer) => sha256(Buffer.of(0), leaf);

/** A tree, each of whose inner hashes is made once. */
class Tree {
  readonly size: number;
  readonly #leaves: readonly Buffer[];
  readonly #made = new Map<string, Buffer>();

  constructor(leaves: readonly Buffer[]) {
    this.#leaves = leaves;
    this.size = leaves.length;
  }

  root(from = 0, to = this.size): Buffer {
    if (to - from === 1) return this.#leaves[from] as Buffer;
    const name = `${from} ${to}`;
    const made = this.#made.get(name);
    if (made !== undefined) return made;
    const middle = from + splitOf(to - from);
    const hash = sha256(Buffer.of(1), this.root(from, middle), this.root(middle, to));
    this.#made.set(name, hash);
    return hash;
  }

  /** RFC 6962 §2.1.1. */
  path(index: number, from = 0, to = this.size): Buffer[] {
    if (to - from === 1) return [];
    const middle = from + splitOf(to - from);
    return index < middle
      ? [...this.path(index, from, middle), this.root(middle, to)]
      : [...this.path(index, middle, to), this.root(from, middle)];
  }
}

/** The largest power of two below the number. */
function splitOf(count: number): number {
  return 2 ** Math.ceil(Math.log2(count) - 1);
}
