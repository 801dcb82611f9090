/** Receipts of a log as the service writes it, and false receipts: the same for every language. */
import type { GivenReceipt } from "../../../src/ledger/record/receipt.ts";
import { formatVerifierKey } from "../../../src/ledger/tlog/note-keys.ts";
import { formatPath } from "../../../src/ledger/tlog/tlog-proof.ts";
import { leafHash, nodeHash, Tree } from "../../../src/ledger/tlog/tree.ts";
import { type MemoryLog, memoryLog } from "./pack/memory-log.ts";
import { decision, evidence } from "./pack/records.ts";
import { forgedReceipts } from "./receipt-forgeries.ts";

export interface ReceiptVector {
  readonly name: string;
  readonly log_key: string;
  readonly receipt: Readonly<Record<string, unknown>>;
  /** Why it must be refused; absent where it holds. */
  readonly refused?: string;
}

export interface ConsistencyVector {
  /** Names of two vectors that hold. */
  readonly earlier: string;
  readonly later: string;
  readonly proof: string;
  readonly continues: boolean;
}

/** What RFC 8785 is about: order by UTF-16 units, escapes, and numbers as ECMAScript writes them. */
const awkward = {
  kind: "decision",
  request: {
    operation: "protect",
    text: 'grüße \u2028 " \\ / \b\f\n\r\t \u001f \u007f 😀',
    numbers: [0, -1, 0.1, 1e21, 1e-7, 123456789012345680000, 9007199254740991, 5e-324],
    "😀": "an astral letter comes before",
    "\ufb33": "a later one of the first plane",
    "": { deep: [[[]], {}, null, true, false] },
  },
  outcome: { allow: false, policy_revision: "sha256:0123", reasons: ["tenant/no"] },
  policyRevision: "sha256:0123",
} as const;

export function receiptVectors(): { receipts: readonly ReceiptVector[]; consistency: readonly ConsistencyVector[] } {
  const log = memoryLog();
  const held: ReceiptVector[] = [];
  const consistency: ConsistencyVector[] = [];
  const sizes: number[] = [];
  const appends = [decision(true), evidence("protect", {}, "success"), decision(false), awkward];
  while (sizes.length < 8) {
    log.append(appends[sizes.length % appends.length] as ReturnType<typeof decision>);
    const { size } = log.head();
    sizes.push(size);
    const log_key = log.vkey();
    held.push({ name: `brief, leaf 0 of ${size}`, log_key, receipt: { ...briefOf(log.receipt(0)) } });
    for (const leaf of new Set([size >> 1, size - 1])) {
      held.push({ name: `whole, leaf ${leaf} of ${size}`, log_key, receipt: { ...log.receipt(leaf) } });
    }
    for (const from of sizes) {
      const names = { earlier: `brief, leaf 0 of ${from}`, later: `brief, leaf 0 of ${size}` };
      const proof = formatPath(treeOf(log).consistencyProof(from));
      consistency.push({ ...names, proof, continues: true });
      if (proof !== "") consistency.push({ ...names, proof: proof.slice(proof.indexOf("\n") + 1), continues: false });
      consistency.push({ ...names, proof: `${proof}${formatPath([treeOf(log).root()])}`, continues: false });
      if (from < size) consistency.push({ earlier: names.later, later: names.earlier, proof, continues: false });
    }
  }
  return { receipts: [...held, ...changed(log), ...forgedReceipts()], consistency };
}

function briefOf({ leaf: _leaf, opening: _opening, record: _record, ...brief }: GivenReceipt): GivenReceipt {
  return brief;
}

export function treeOf({ entries, head }: MemoryLog): Tree {
  const nodeAt = (height: number, index: number): Uint8Array =>
    height === 0
      ? leafHash(entries[index]?.leaf ?? new Uint8Array(0))
      : nodeHash(nodeAt(height - 1, 2 * index), nodeAt(height - 1, 2 * index + 1));
  return new Tree(head().size, nodeAt);
}

/** The receipt of a leaf, changed after it was given out. */
function changed(log: MemoryLog): ReceiptVector[] {
  const [index, other] = [3, 5];
  const good = log.receipt(index);
  const brief = briefOf(good);
  const another = log.receipt(other);
  const key = log.vkey();
  const { origin, size } = log.head();
  const vector = (name: string, receipt: object, refused?: string, log_key = key): ReceiptVector => ({
    name,
    log_key,
    receipt: { ...receipt },
    ...(refused !== undefined && { refused }),
  });
  const proof = (edit: (text: string) => string) => ({ ...good, proof: edit(good.proof) });
  const [head = "", note = ""] = good.proof.split(/\n\n(.*)/s);
  const [text = "", signature = ""] = note.split(/\n\n(.*)/s);
  const stranger = formatVerifierKey(origin, new Uint8Array(32).fill(7));
  const notOurs = `— witness.example AAAAAUJhc2U2NA==\n`;
  const loose = (base64: string) => `${base64.slice(0, -2)}${base64.endsWith("==") ? "" : "X"}${base64.slice(-2)}`;
  return [
    vector("retired at this size", good, undefined, `${key}@${size}`),
    vector("retired before", good, "its key counts for smaller trees only", `${key}@${size - 1}`),
    vector(
      "an extra line that is not signed",
      proof((of) => of.replace("\nindex", "\nextra AAAA\nindex")),
    ),
    vector(
      "a signature of a key that is not looked at",
      proof((of) => of + notOurs),
    ),
    vector("another key of that name", good, "its key is not the one that is trusted", stranger),
    vector(
      "a key of another name",
      good,
      "it is of another log",
      formatVerifierKey(`${origin}0`, new Uint8Array(32).fill(7)),
    ),
    vector("another leaf's proof", { ...good, proof: another.proof }, "its proof is another leaf's"),
    vector("another leaf's hash", { ...good, leaf_hash: another.leaf_hash }, "leaf_hash is another leaf's"),
    vector("another leaf's hash, brief", { ...brief, leaf_hash: another.leaf_hash }, "leaf_hash is another leaf's"),
    vector("another index", { ...good, leaf_index: other }, "leaf_index is not the proof's"),
    vector("another size", { ...good, tree_size: size + 1 }, "tree_size is not the proof's"),
    vector("another origin", { ...good, log_origin: `${origin}0` }, "log_origin is not the proof's"),
    vector("another record id", { ...good, record_id: another.record_id }, "record_id is not the record's"),
    vector("another leaf", { ...good, leaf: another.leaf }, "leaf_hash is not the leaf's"),
    vector("another opening", { ...good, opening: another.opening }, "the record is not the one committed to"),
    vector("another record", { ...good, record: another.record }, "the record is not the one committed to"),
    vector("a part: no leaf", { ...good, leaf: undefined }, "leaf, opening and record come together"),
    vector("a part: no opening", { ...good, opening: undefined }, "leaf, opening and record come together"),
    vector("a part: no record", { ...good, record: undefined }, "leaf, opening and record come together"),
    vector("a member more", { ...good, note: "x" }, "a receipt has no other members"),
    vector("no leaf_hash", { ...good, leaf_hash: "" }, "leaf_hash is no hash"),
    vector("loose base64", { ...good, record: `${good.record}\n` }, "there is one base64 text of every value"),
    vector("base64 without padding", { ...good, leaf_hash: good.leaf_hash.replace("=", "") }, "base64 has padding"),
    vector("base64 with bits left over", { ...good, leaf_hash: oddBits(good.leaf_hash) }, "bits left over are zero"),
    vector(
      "a proof of another version",
      proof((of) => of.replace("@v1", "@v2")),
      "it is no tlog-proof v1",
    ),
    vector(
      "no index",
      proof((of) => of.replace(/index .*\n/, "")),
      "the proof has no index",
    ),
    vector(
      "an index with a zero before",
      proof((of) => of.replace("index ", "index 0")),
      "there is one text of every number",
    ),
    vector(
      "an index with a plus",
      proof((of) => of.replace("index ", "index +")),
      "there is one text of every number",
    ),
    vector(
      "a hash less",
      proof((of) => of.replace(/(index .*\n)[^\n]+\n/, "$1")),
      "the path is too short",
    ),
    vector(
      "a hash more",
      proof((of) => of.replace(/(index .*\n)([^\n]+\n)/, "$1$2$2")),
      "the path is too long",
    ),
    vector(
      "a path turned round",
      { ...good, proof: `${reversed(head)}\n\n${note}` },
      "the path does not lead to the root",
    ),
    vector(
      "a changed root",
      proof((of) => of.replace(`\n${size}\n`, `\n${size}\nA`)),
      "the checkpoint is malformed",
    ),
    vector(
      "a changed size",
      proof((of) => of.replace(`\n${size}\n`, `\n${size + 1}\n`)),
      "the signature does not verify",
    ),
    vector(
      "a line more in the checkpoint",
      { ...good, proof: `${head}\n\n${text}\nmore\n\n${signature}` },
      "the signature does not verify",
    ),
    vector(
      "a signature that stands twice",
      proof((of) => of + signature),
      "the trusted key signs once",
    ),
    vector("no signature", { ...good, proof: `${head}\n\n${text}\n\n` }, "nobody signed"),
    vector(
      "a wrong signature",
      { ...good, proof: `${head}\n\n${text}\n\n${loose(signature.trimEnd())}\n` },
      "the signature does not verify",
    ),
    vector(
      "a second, wrong signature",
      { ...good, proof: `${good.proof}${wrongBit(signature)}` },
      "every signature of the key must verify",
    ),
    vector(
      "a signature line without its newline",
      proof((of) => of.trimEnd()),
      "the note is malformed",
    ),
    vector(
      "Windows' line ends",
      proof((of) => of.replaceAll("\n", "\r\n")),
      "lines end with a newline",
    ),
    vector(
      "too large",
      proof((of) => of + notOurs.repeat(65)),
      "a note has 64 signatures at most",
    ),
  ];
}

function reversed(head: string): string {
  const [version, index, ...path] = head.split("\n");
  return [version, index, ...path.reverse()].join("\n");
}

/** The same bytes in base64, with bits set behind the last byte. */
function oddBits(base64: string): string {
  const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  return `${base64.slice(0, -2)}${alphabet[alphabet.indexOf(base64.at(-2) ?? "") + 1]}=`;
}

/** The signature line, one bit of the signature turned. */
function wrongBit(line: string): string {
  const [dash, name, encoded = ""] = line.trimEnd().split(" ");
  const bytes = Buffer.from(encoded, "base64");
  bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) ^ 1;
  return `${dash} ${name} ${bytes.toString("base64")}\n`;
}
