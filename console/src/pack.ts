/**
 * Verification of evidence packs, as `ledger pack verify` does it (docs/reference/ledger-formats.md). Of a selection by
 * value it checks every record and its place, and leaves to the command how much of the selection the pack proves.
 */
import { parseJson } from "@client/json.ts";
import { openCheckpoint, parseLogKey } from "@client/receipts/note.ts";
import { canonicalText, verifyMaterial } from "@client/receipts/record.ts";
import { formatHex, parseBase64, sameBytes, sha256 } from "@client/receipts/text-forms.ts";
import { hashBytes, hashLeaf, hashNode } from "@client/receipts/tree.ts";
import { type LedgerRecord, objectOf } from "./verify.ts";

type Members = Readonly<Record<string, unknown>>;

export interface VerifiedPack {
  readonly origin: string;
  readonly size: number;
  /** Hexadecimal. */
  readonly root: string;
  readonly tenant: string;
  readonly selection: Members;
  readonly madeAt: string;
  readonly erased: number;
  readonly records: readonly { readonly leafIndex: number; readonly record: LedgerRecord }[];
  /** For a selection by time alone: whether the log goes on after it, so that it can get no more records. */
  readonly range: { readonly isClosed: boolean } | undefined;
  readonly policies: number;
}

export function isPack(text: string): boolean {
  return text.startsWith('{"') && text.slice(0, text.indexOf("\n")).includes('"format":"evidence-pack/');
}

/** Records of these kinds may be erased. */
const erasable = ["decision", "registration", "evidence"];
const progressEvery = 256;

/** Rejects with the line and the reason if the pack does not verify. Nothing of it is proven until it resolves. */
export async function verifyPack(
  text: string,
  keys: readonly string[],
  onProgress: (entries: number) => void = () => {},
): Promise<VerifiedPack> {
  if (keys.length === 0) throw new Error("paste the key of the log first");
  if (!text.endsWith("\n")) throw new Error("the pack is cut off");
  const lines = text.slice(0, -1).split("\n");
  let number = 0;
  try {
    const header = lineOf(lines[0] ?? "", "header");
    const { origin, size, root } = await openCheckpoint(
      textOf(header.checkpoint),
      await Promise.all(keys.map(parseLogKey)),
    );
    if (header.format !== "evidence-pack/v1") fail("is of a format that is not known here");
    const madeAt = momentOf(header.made_at) ?? fail("a time of it is missing");
    const body = new Body(origin, size, header);
    for (number = 1; number < lines.length - 1; number++) {
      await body.next(lineOf(lines[number] ?? ""));
      if (number % progressEvery === 0) onProgress(number);
    }
    const end = lineOf(lines[number] ?? "", "end");
    const before = text.slice(0, text.length - (lines[number] ?? "").length - 1);
    if (end.sha256 !== formatHex(await sha256(bytesOf(before)))) fail("the pack was changed: its sha256 is another");
    await body.end(end, root);
    await requireCurrentKey(textOf(header.checkpoint), keys, body.replacedKeys);
    return { ...body.verified(), root: formatHex(root), madeAt };
  } catch (error) {
    throw new Error(`line ${number + 1}: ${error instanceof Error ? error.message : String(error)}`);
  }
}

class Body {
  readonly #origin: string;
  readonly #size: number;
  readonly #tenant: string;
  readonly #selection: Members;
  readonly #range: Range | undefined;
  readonly #tree = new GrowingTree();
  readonly #records: { readonly leafIndex: number; readonly record: LedgerRecord }[] = [];
  readonly #policies = new Set<unknown>();
  /** The policy revision that the next entry must have. */
  #announced: unknown;
  /** Leaves of records that are said to be erased, until their erasure. */
  readonly #claims = new Map<unknown, number>();
  readonly replacedKeys: string[] = [];
  #newest = "";
  #entries = 0;
  #erased = 0;

  constructor(origin: string, size: number, { tenant_id, selection }: Members) {
    this.#origin = origin;
    this.#size = size;
    this.#tenant = textOf(tenant_id);
    this.#selection = objectOf(selection);
    const { from, to, ...value } = this.#selection;
    if (Object.keys(value).length === 0) this.#range = new Range(momentOf(from), momentOf(to), size);
  }

  async next(line: Members): Promise<void> {
    if (line.type === "policy") return this.#policy(line);
    if (line.type !== "entry") fail("is not a line of a pack here");
    const { leaf_index: index, gap = [], erased = false } = line;
    if (line.erased !== undefined && erased !== true) fail("its erasure is malformed");
    if (typeof index !== "number" || index < this.#tree.size || index >= this.#size)
      fail("its leaf is out of order, there twice, or beyond the log");
    const leafBytes = bytesOf(textOf(line.leaf));
    const leaf = objectOf(parseJson(textOf(line.leaf)));
    const hash = await hashLeaf(leafBytes);
    await this.#tree.appendGap(index, Array.isArray(gap) ? gap.map(hashOf) : fail("its gap is malformed"));
    await this.#tree.append(hash, 0);
    if (textOf(leaf.recorded_at) < this.#newest) fail("is older than the entry before it");
    this.#newest = textOf(leaf.recorded_at);
    const record = await this.#record(line, leafBytes, hash);
    if (erased === true) {
      if (record !== undefined || !erasable.includes(textOf(leaf.kind))) fail("cannot be erased");
      if (this.#claims.has(leaf.record_id)) fail("has the id of another erased record");
      this.#claims.set(leaf.record_id, index);
      this.#erased += 1;
    }
    const erases =
      record?.kind === "erasure" && this.#claims.get(record.request.record_id) === record.outcome.leaf_index;
    if (erases) this.#claims.delete(record?.request.record_id);
    const revision = record !== undefined || erased === true ? leaf.policy_revision : undefined;
    if (revision !== undefined && !this.#policies.has(revision)) fail("its policy revision is not named before it");
    if (this.#announced !== undefined && this.#announced !== revision)
      fail("was not decided by the policy revision before it");
    this.#announced = undefined;
    this.#range?.next(index, this.#newest, { isShown: record !== undefined, isErased: erased === true, erases });
    if (record !== undefined) this.#records.push({ leafIndex: index, record });
    if (record?.kind === "key_rotation") this.replacedKeys.push(textOf(record.outcome.previous_public_key));
    this.#entries += 1;
  }

  async #policy({ revision, content }: Members): Promise<void> {
    if (content !== undefined && revision !== `sha256:${formatHex(await sha256(bytesOf(textOf(content))))}`)
      fail("the policy text is not that of its revision");
    if (this.#policies.has(textOf(revision)) || this.#announced !== undefined)
      fail("the policy revision is there twice, or decided nothing");
    this.#policies.add(revision);
    this.#announced = revision;
  }

  async #record({ opening, record }: Members, leaf: Uint8Array<ArrayBuffer>, hash: Uint8Array) {
    if (opening === undefined && record === undefined) return undefined;
    const key = parseBase64(textOf(opening)) ?? fail("its opening is malformed");
    const shown = await verifyMaterial({ leaf, opening: key, record: bytesOf(textOf(record)) }, hash);
    if (shown.tenant_id !== this.#tenant || shown.log !== this.#origin) fail("its record is of another tenant or log");
    return shown as unknown as LedgerRecord;
  }

  async end({ entries }: Members, root: Uint8Array): Promise<void> {
    if (this.#announced !== undefined) fail("the policy revision before it decided nothing");
    if (entries !== this.#entries) fail(`there are ${this.#entries} entries, not ${String(entries)}`);
    if (this.#tree.size !== this.#size) fail("the log's last leaf is not shown");
    if (!sameBytes(await this.#tree.root(), root)) fail("the entries are not the log's: they lead to another root");
    for (const index of this.#claims.values())
      fail(`leaf ${index} is said to be erased, and no erasure of it is shown`);
  }

  verified() {
    return {
      ...{ origin: this.#origin, size: this.#size, tenant: this.#tenant, selection: this.#selection },
      ...{ records: this.#records, erased: this.#erased, policies: this.#policies.size },
      range: this.#range && { isClosed: this.#range.isClosed },
    };
  }
}

/** Leaves of a period have no gap, and an older and a younger neighbour: times never go back within a log. */
class Range {
  readonly #from: string | undefined;
  readonly #to: string | undefined;
  readonly #size: number;
  #newest: number | undefined;
  isClosed = false;

  constructor(from: string | undefined, to: string | undefined, size: number) {
    this.#from = from;
    this.#to = to;
    this.#size = size;
  }

  next(
    index: number,
    time: string,
    of: { readonly isShown: boolean; readonly isErased: boolean; readonly erases: boolean },
  ) {
    const isBefore = this.#from !== undefined && time < this.#from;
    const isAfter = this.#to !== undefined && time >= this.#to;
    if (isBefore && this.#newest !== undefined) fail("is one too many before the period");
    if (!isBefore && !this.isClosed && index !== (this.#newest ?? -1) + 1) fail("a leaf before it is left out");
    this.#newest = index;
    if (!isBefore && !isAfter) {
      if (!of.isShown && !of.isErased) fail("is of the period, and its record is left out");
      return;
    }
    const isNeeded = !this.isClosed || of.erases || index === this.#size - 1;
    if (of.isErased || (of.isShown && !of.erases) || !isNeeded) fail("is not of the period");
    this.isClosed ||= isAfter;
  }
}

/** A tree that grows from left to right by leaves and whole subtrees. */
class GrowingTree {
  readonly #roots: { readonly height: number; readonly hash: Uint8Array }[] = [];
  size = 0;

  /** Adds the largest subtrees up to a leaf. */
  async appendGap(end: number, hashes: readonly Uint8Array[]): Promise<void> {
    for (const hash of hashes) {
      let height = 0;
      while (this.size % 2 ** (height + 1) === 0 && this.size + 2 ** (height + 1) <= end) height += 1;
      if (this.size >= end) fail("its gap has too many hashes");
      await this.append(hash, height);
    }
    if (this.size !== end) fail("its gap has too few hashes");
  }

  async append(hash: Uint8Array, height: number): Promise<void> {
    let node = { height, hash };
    for (let last = this.#roots.at(-1); last?.height === node.height; last = this.#roots.at(-1)) {
      this.#roots.pop();
      node = { height: node.height + 1, hash: await hashNode(last.hash, node.hash) };
    }
    this.#roots.push(node);
    this.size += 2 ** height;
  }

  async root(): Promise<Uint8Array> {
    const [last, ...others] = this.#roots.toReversed();
    let hash = last?.hash ?? (await sha256());
    for (const { hash: left } of others) hash = await hashNode(left, hash);
    return hash;
  }
}

/** A key that a rotation of the pack replaced counts only beside the newer one. */
async function requireCurrentKey(note: string, keys: readonly string[], replaced: readonly string[]): Promise<void> {
  if (replaced.length === 0) return;
  const publicKeyOf = (key: string) => parseBase64(/\+[0-9a-f]{8}\+([^@]+)/.exec(key)?.[1] ?? "")?.subarray(1);
  const isReplaced = (key: string) =>
    replaced.some((old) => sameBytes(parseBase64(old) ?? new Uint8Array(), publicKeyOf(key) ?? new Uint8Array(1)));
  const current = keys.filter((key) => !isReplaced(key));
  if (current.length === 0) fail("the key was replaced by a rotation that the pack shows: paste the newest key");
  await openCheckpoint(note, await Promise.all(current.map(parseLogKey)));
}

const membersOf: Readonly<Record<string, readonly string[]>> = {
  header: ["checkpoint", "format", "made_at", "selection", "tenant_id", "type"],
  policy: ["content", "revision", "type"],
  entry: ["erased", "gap", "leaf", "leaf_index", "opening", "record", "type"],
  end: ["entries", "sha256", "type"],
};

/** The members of a line, which must be in canonical form and have no others. */
function lineOf(text: string, type?: string): Members {
  const value = objectOf(parseJson(text));
  const known = membersOf[textOf(value.type)] ?? [];
  if (!Object.keys(value).every((name) => known.includes(name))) fail("has an unknown member");
  if (canonicalText(value as Parameters<typeof canonicalText>[0]) !== text) fail("is not in canonical form");
  if (type !== undefined && value.type !== type) fail(`is not the ${type} of a pack`);
  return value;
}

function hashOf(value: unknown): Uint8Array {
  const hash = parseBase64(textOf(value));
  return hash?.length === hashBytes ? hash : fail("a hash of its gap is malformed");
}

/** In the form of records. Years have four digits: only then is the order of texts that of times. */
function momentOf(value: unknown): string | undefined {
  if (value === undefined) return undefined;
  const text = textOf(value);
  const isMoment = /^\d{4}-/.test(text) && new Date(text).toISOString() === text;
  return isMoment ? text : fail("a time of it is malformed");
}

function textOf(value: unknown): string {
  return typeof value === "string" ? value : fail("a member is missing, or is no text");
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return new TextEncoder().encode(text);
}

function fail(problem: string): never {
  throw new Error(problem);
}
