/**
 * What must be true, whatever fails. The oracle sees the committed state of the store after every step, and everything
 * that leaves a gateway: answers, refusals, and whatever is signed.
 */
import type { RecordId, TenantId } from "../../src/base/ids.ts";
import type { StoredEntry } from "../../src/ledger/ports/archive.ts";
import type { Appended } from "../../src/ledger/ports/ledger.ts";
import type { StoredRecord } from "../../src/ledger/ports/record.ts";
import type { TimedLog } from "../../src/ledger/ports/store.ts";
import { parseLeaf } from "../../src/ledger/record/leaf.ts";
import { readErasure, readFirstKey, readRotation } from "../../src/ledger/record/operator-records.ts";
import { verifyReceipt } from "../../src/ledger/record/receipt.ts";
import { open } from "../../src/ledger/record/sealing.ts";
import { openCheckpoint, parseCheckpoint } from "../../src/ledger/tlog/checkpoint.ts";
import { formatVerifierKey, type NoteVerifier, parseVerifierKey } from "../../src/ledger/tlog/note-keys.ts";
import { RightEdge } from "../../src/ledger/tlog/right-edge.ts";
import { checkpointOfProof } from "../../src/ledger/tlog/tlog-proof.ts";
import { leafHash, sameHash } from "../../src/ledger/tlog/tree.ts";
import { type CosignatureVerifier, requireQuorum } from "../../src/ledger/witness/cosignature.ts";
import { givenOf } from "../contract/ledger-records.ts";

/** A store's committed state, read past everything that is simulated. */
export interface Truth {
  /** Changes with whatever is committed. */
  version(): number;
  heads(): readonly TimedLog[];
  /** Leaves from `first` on. */
  entries(tenantId: TenantId, first: number): readonly StoredEntry[];
  /** What is left of a record that could still be opened. */
  remains(tenantId: TenantId, recordId: RecordId, leafIndex: number): readonly string[];
  /** The key that signs now, if all logs have been handed over to it at once. */
  newestKey(): Uint8Array | undefined;
  /** Leaves of a log that its anchor has noted; undefined where there is no such anchor. */
  anchored(tenantId: TenantId): number | undefined;
}

/** Something that must not be. */
export class Violation extends Error {
  override readonly name = "Violation";
}

/** What a client has asked for. */
export interface Call {
  readonly tenantId: TenantId;
  /** Stands for the idempotency key, and in the record itself. */
  readonly key: string;
  readonly payload: string;
  /** Leaves that an append must come after, as its client knew when it asked. */
  readonly bound: number;
  /** Whether a retry is recognized; without that a client never asks again. */
  readonly isRetried: boolean;
  /** Whether its record had been erased when it was asked for. */
  readonly wasErased: boolean;
}

interface Leaf {
  readonly recordId: RecordId;
  readonly hash: Uint8Array;
  /** Of a client's record: its key and payload. */
  readonly key: string | undefined;
  readonly payload: string | undefined;
}

interface History {
  readonly origin: string;
  readonly leaves: Leaf[];
  /** By tree size. */
  readonly roots: Uint8Array[];
  edge: RightEdge;
  /** Keys in their order, with the size up to which each counts. */
  keys: { readonly publicKey: Uint8Array; maxSize: number }[];
  /** Leaves that were acknowledged, signed or relied on by an answer: they can never go. */
  settled: number;
  /** Leaves that every later append must come after, and every later checkpoint must have. */
  bound: number;
  readonly byKey: Map<string, number>;
  recordedAt: string;
}

export interface Fate {
  readonly tenantId: TenantId;
  readonly recordId: RecordId;
  readonly leafIndex: number;
  readonly key: string;
  readonly isRetried: boolean;
  /** `asked`: an erasure was begun, and may have happened. */
  erasure: "none" | "asked" | "done";
  isHeld: boolean;
  /** Whether a hold was asked for whose outcome is not known. */
  holdUnknown: boolean;
  /** Its opening was put back, as a backup does, and not removed since. */
  isBack: boolean;
}

export class Oracle {
  /** By tenant. */
  readonly histories = new Map<TenantId, History>();
  /** Acknowledged records, by tenant and key. */
  readonly acknowledged = new Map<string, Fate>();
  readonly #verifiers = new Map<string, NoteVerifier>();
  /** Notes that left while the store could not be read: between a loss of power and the next start. */
  readonly #unchecked: [note: string, to: string][] = [];
  #version = -1;
  /** While another copy of the store stands in its place, the history is what it was. */
  truth: Truth | undefined;
  acknowledgements = 0;
  /** Called with each change, for traces. */
  onChange: ((tenantId: TenantId, size: number) => void) | undefined;
  onAnswer: ((tenantId: TenantId, leafIndex: number, treeSize: number) => void) | undefined;
  /** Whether a quorum has cosigned a tree of a tenant's log; where answers wait for that. */
  witnesses: () => readonly CosignatureVerifier[] = () => [];
  cosigned: ((tenantId: TenantId, size: number) => boolean) | undefined;

  fail(message: string): never {
    throw new Violation(message);
  }

  /** Looks at what was committed since. */
  look(): void {
    const { truth } = this;
    if (truth === undefined) return;
    const version = truth.version();
    if (version === this.#version) return;
    this.#version = version;
    const heads = truth.heads();
    for (const [tenantId, { settled, origin }] of this.histories)
      if (settled > 0 && !heads.some((head) => head.tenantId === tenantId && head.origin === origin))
        this.fail(`log ${origin} of ${tenantId} is gone, with ${settled} leaves that were answered`);
    for (const head of heads) this.#follow(head, truth);
  }

  /** The truth is another connection's now. */
  lookAgain(truth: Truth | undefined): void {
    this.truth = truth;
    this.#version = -1;
    this.look();
    if (truth !== undefined) for (const [note, to] of this.#unchecked.splice(0)) this.signed(note, to);
  }

  #follow(head: TimedLog, truth: Truth): void {
    const { tenantId, origin, size, root } = head;
    let history = this.histories.get(tenantId);
    if (history === undefined || (history.origin !== origin && history.settled === 0)) {
      history = newHistory(origin);
      this.histories.set(tenantId, history);
    }
    if (history.origin !== origin) this.fail(`${tenantId} has another log`);
    // What was never answered may be lost with the power, or rolled back late.
    const kept = Math.min(size, history.leaves.length);
    if (kept < history.settled)
      this.fail(`${tenantId} had ${history.settled} leaves that were answered, and has ${kept}`);
    if (size > 0 && size === history.leaves.length && sameHash(root, history.roots[size] as Uint8Array)) return;
    if (size <= history.leaves.length || !this.#extend(history, head, truth)) {
      this.#rebuild(history, head, truth);
    }
    if (!sameHash(history.roots[size] as Uint8Array, root))
      this.fail(`${tenantId}: the head's root is not that of its leaves`);
    this.onChange?.(tenantId, size);
  }

  #extend(history: History, { tenantId, size }: TimedLog, truth: Truth): boolean {
    const first = history.leaves.length;
    const entries = truth.entries(tenantId, first);
    if (entries.length !== size - first)
      this.fail(`${tenantId}: ${first + entries.length} leaves, and the head says ${size}`);
    for (const entry of entries) this.#add(history, tenantId, entry);
    return history.edge.size === size;
  }

  /** Begins again with the leaves that are there now. What was settled must be among them. */
  #rebuild(history: History, head: TimedLog, truth: Truth): void {
    const { settled, roots, bound } = history;
    const next = { ...newHistory(history.origin), settled, bound: Math.min(bound, Math.max(settled, head.size)) };
    this.histories.set(head.tenantId, next);
    if (!this.#extend(next, head, truth)) this.fail(`${head.tenantId}: leaves are missing`);
    if (settled > 0 && !sameHash(next.roots[settled] as Uint8Array, roots[settled] as Uint8Array))
      this.fail(`${head.tenantId}: the first ${settled} leaves are not those that were answered`);
    Object.assign(history, next);
    this.histories.set(head.tenantId, history);
  }

  #add(history: History, tenantId: TenantId, entry: StoredEntry): void {
    const { leafIndex, recordId, leaf, sealed, opening } = entry;
    if (leafIndex !== history.leaves.length) this.fail(`${tenantId}: leaf ${history.leaves.length} is missing`);
    const { record_id, recorded_at, commitment } = parseLeaf(leaf);
    if (record_id !== recordId) this.fail(`${tenantId}: leaf ${leafIndex} is of another record`);
    if (recorded_at < history.recordedAt) this.fail(`${tenantId}: time goes back at leaf ${leafIndex}`);
    history.recordedAt = recorded_at;
    let key: string | undefined;
    let payload: string | undefined;
    if (opening !== undefined) {
      const record = JSON.parse(Buffer.from(open(sealed, opening, commitment)).toString("utf8")) as StoredRecord;
      if (typeof record.request.key === "string") {
        key = record.request.key;
        payload = String(record.request.payload);
        if (history.byKey.has(key))
          this.fail(`${tenantId}: ${key} stands in leaves ${history.byKey.get(key)} and ${leafIndex}`);
        history.byKey.set(key, leafIndex);
      }
      this.#readOwn(history, tenantId, record, leafIndex);
    }
    const hash = leafHash(leaf);
    history.leaves.push({ recordId: record_id, hash, key, payload });
    history.edge.append(hash);
    history.edge.takeTouched();
    history.roots[history.edge.size] = history.edge.tree().root();
  }

  #readOwn(history: History, tenantId: TenantId, record: StoredRecord, leafIndex: number): void {
    if (record.kind === "genesis") {
      const first = readFirstKey(record);
      if (!(first instanceof Uint8Array)) this.fail(`${tenantId}: the genesis record names no key`);
      history.keys = [{ publicKey: first, maxSize: Number.POSITIVE_INFINITY }];
    }
    const rotation = readRotation(record);
    if (rotation !== undefined) {
      const last = history.keys.at(-1);
      if (last === undefined || !sameHash(last.publicKey, rotation.previous))
        this.fail(`${tenantId}: leaf ${leafIndex} retires a key that was not the log's`);
      last.maxSize = leafIndex;
      history.keys.push({ publicKey: rotation.current, maxSize: Number.POSITIVE_INFINITY });
    }
    const erased = readErasure(record);
    if (erased !== undefined) {
      const target = history.leaves[erased.leafIndex];
      if (target?.recordId !== erased.recordId)
        this.fail(`${tenantId}: leaf ${leafIndex} erases a record that is not there`);
      const fate = target.key === undefined ? undefined : this.acknowledged.get(`${tenantId} ${target.key}`);
      if (fate?.isHeld === true && fate.erasure === "none") this.fail(`${tenantId}: a record that is held was erased`);
      if (fate !== undefined && fate.erasure === "none") this.fail(`${tenantId}: ${target.key} was erased unasked`);
    }
  }

  /** A signed note has left a gateway. */
  signed(note: string, to: string): void {
    if (this.truth === undefined) {
      this.#unchecked.push([note, to]);
      return;
    }
    this.look();
    const { origin, size, root } = parseCheckpoint(note);
    const history = [...this.histories.values()].find((one) => one.origin === origin);
    const committed = history?.roots[size];
    if (history === undefined || committed === undefined)
      this.fail(`a tree of ${size} leaves of ${origin} that is not committed was signed for ${to}`);
    if (!sameHash(committed, root)) this.fail(`another tree of ${size} leaves of ${origin} was signed for ${to}`);
    if (!this.#isValidlySigned(history, note, size))
      this.fail(`a tree of ${size} leaves was signed for ${to} with no key that counts`);
    history.settled = Math.max(history.settled, size);
  }

  #isValidlySigned({ origin, keys }: History, note: string, size: number): boolean {
    return keys.some(({ publicKey, maxSize }) => {
      if (size > maxSize) return false;
      try {
        openCheckpoint(note, this.#verifier(origin, publicKey));
        return true;
      } catch {
        return false;
      }
    });
  }

  #verifier(origin: string, publicKey: Uint8Array): NoteVerifier {
    const text = formatVerifierKey(origin, publicKey);
    const known = this.#verifiers.get(text) ?? (parseVerifierKey(text) as NoteVerifier);
    this.#verifiers.set(text, known);
    return known;
  }

  /** What a client knows of its tenant's log and of its key when it asks now. */
  known(tenantId: TenantId, key: string): Pick<Call, "bound" | "wasErased"> {
    const wasErased = this.acknowledged.get(`${tenantId} ${key}`)?.erasure === "done";
    return { bound: this.histories.get(tenantId)?.bound ?? 0, wasErased };
  }

  /** A checkpoint was published that was asked for when the log had at least `bound` leaves. */
  published(note: string, bound: number): void {
    this.signed(note, "a reader");
    const { origin, size } = parseCheckpoint(note);
    const [tenantId, history] = [...this.histories].find(([, one]) => one.origin === origin) as [TenantId, History];
    this.#requireAnchored(tenantId, note, size);
    if (size < bound) this.fail(`a reader is shown ${size} leaves of ${origin}, which had ${bound} when it asked`);
    history.bound = Math.max(history.bound, size);
  }

  /** An answer leaves its gateway. */
  leaves(tenantId: TenantId, { receipt: { treeSize, proof }, leafIndex }: Appended): void {
    this.look();
    this.#requireAnchored(tenantId, checkpointOfProof(proof), treeSize);
    this.onAnswer?.(tenantId, leafIndex, treeSize);
  }

  #requireAnchored(tenantId: TenantId, note: string, size: number): void {
    const anchored = this.truth?.anchored(tenantId);
    if (anchored !== undefined && anchored < size)
      this.fail(`${tenantId}: a tree of ${size} leaves is answered, and the anchor has noted ${anchored}`);
    if (this.cosigned?.(tenantId, size) === false)
      this.fail(`${tenantId}: a tree of ${size} leaves is answered, and no quorum of witnesses has cosigned it`);
    // Throws where a line of a witness does not verify.
    requireQuorum(note, { witnesses: this.witnesses(), quorum: 0 }, Number.MAX_SAFE_INTEGER);
  }

  /** A client has its answer. */
  answered({ tenantId, key, payload, bound, wasErased, isRetried }: Call, appended: Appended): void {
    const { receipt, leafIndex, recordId, log, earlierAnswer } = appended;
    this.acknowledgements += 1;
    this.signed(checkpointOfProof(receipt.proof), "a client");
    const history = this.histories.get(tenantId) as History;
    const leaf = history.leaves[leafIndex];
    if (log !== history.origin) this.fail(`${tenantId}: ${key} is acknowledged in the log of another tenant`);
    if (leaf === undefined) this.fail(`${tenantId}: ${key} is acknowledged at leaf ${leafIndex}, which is not there`);
    if (leaf.recordId !== recordId)
      this.fail(`${tenantId}: ${key} is acknowledged at leaf ${leafIndex}, where another record stands`);
    const earlier = this.acknowledged.get(`${tenantId} ${key}`);
    if (leaf.key !== undefined && (leaf.key !== key || leaf.payload !== payload))
      this.fail(`${tenantId}: ${key} with ${payload} is acknowledged at the leaf of ${leaf.key} with ${leaf.payload}`);
    if (earlier !== undefined && earlier.leafIndex !== leafIndex)
      this.fail(`${tenantId}: ${key} is acknowledged at leaves ${earlier.leafIndex} and ${leafIndex}`);
    if (wasErased) this.fail(`${tenantId}: ${key} was erased, and is answered again`);
    if (earlierAnswer === undefined && leafIndex < bound)
      this.fail(`${tenantId}: ${key} stands at leaf ${leafIndex}, and ${bound} were there before it was asked for`);
    if (earlierAnswer !== undefined && earlierAnswer.key !== key)
      this.fail(`${tenantId}: ${key} gets the answer of ${String(earlierAnswer.key)}`);
    this.#verify(history, appended);
    history.settled = Math.max(history.settled, leafIndex + 1);
    history.bound = Math.max(history.bound, leafIndex + 1);
    if (earlier === undefined)
      this.acknowledged.set(`${tenantId} ${key}`, {
        tenantId,
        recordId,
        leafIndex,
        key,
        isRetried,
        erasure: "none",
        isHeld: false,
        holdUnknown: false,
        isBack: false,
      });
  }

  #verify({ origin, keys }: History, { receipt }: Appended): void {
    const problems = keys.map(({ publicKey, maxSize }) => {
      try {
        if (receipt.treeSize > maxSize) return "the key was retired";
        verifyReceipt(givenOf(receipt), this.#verifier(origin, publicKey));
        return undefined;
      } catch (error) {
        return String(error);
      }
    });
    if (!problems.includes(undefined)) this.fail(`a receipt does not verify: ${problems.join("; ")}`);
  }

  /** A client was refused. Returns whether it may ask again. */
  refused({ tenantId, key, payload }: Call, reason: unknown, error: unknown): boolean {
    if (reason === "store_unavailable" || reason === "overloaded") return true;
    if (reason === "idempotency_conflict") {
      const history = this.histories.get(tenantId);
      const leaf = history?.leaves[history.byKey.get(key) ?? -1];
      const fate = this.acknowledged.get(`${tenantId} ${key}`);
      if (fate !== undefined && fate.erasure !== "none") return false;
      if (leaf !== undefined && leaf.payload !== payload) return false;
    }
    return this.fail(`${tenantId}: ${key} was refused: ${String(error)} ${String((error as Error).cause ?? "")}`);
  }

  /** A record was asked for. `erasure` is what had become of it when it was. */
  found(fate: Fate, erasure: Fate["erasure"], found: StoredRecord | "unknown" | "erased"): void {
    const { tenantId, key } = fate;
    if (found === "unknown") this.fail(`${tenantId}: ${key} was acknowledged, and is not found`);
    if (found === "erased" && fate.erasure === "none")
      this.fail(`${tenantId}: ${key} is found as erased, and was not erased`);
    if (found !== "erased" && erasure === "done") this.fail(`${tenantId}: ${key} was erased, and is found`);
    if (found !== "erased" && found.request.key !== key) this.fail(`${tenantId}: another record is found for ${key}`);
  }

  /** All that must hold of records that were acknowledged, held or erased. */
  lookAtRecords(): void {
    const { truth } = this;
    if (truth === undefined) return;
    const newest = truth.newestKey();
    for (const [tenantId, { keys }] of this.histories)
      if (newest !== undefined && !sameHash(keys.at(-1)?.publicKey ?? new Uint8Array(), newest))
        this.fail(`${tenantId}: the log was not handed over to the key that signs now`);
    for (const { tenantId, key, recordId, leafIndex, erasure, isHeld, isBack } of this.acknowledged.values()) {
      const remains = truth.remains(tenantId, recordId, leafIndex);
      if (erasure === "done" && !isBack && remains.length > 0)
        this.fail(`${tenantId}: ${key} was erased, and its ${remains.join(" and ")} can be read`);
      if (erasure === "none" && !remains.includes("opening"))
        this.fail(`${tenantId}: ${key} cannot be opened any more`);
      if (isHeld && erasure === "none" && !remains.includes("opening"))
        this.fail(`${tenantId}: ${key} is held, and gone`);
    }
  }
}

function newHistory(origin: string): History {
  return {
    origin,
    leaves: [],
    roots: [],
    edge: new RightEdge(),
    keys: [],
    settled: 0,
    bound: 0,
    byKey: new Map(),
    recordedAt: "",
  };
}
