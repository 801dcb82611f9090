/** Writes the lines of a pack. */
import { createHash, type Hash as Digest } from "node:crypto";
import { isCleanText } from "../../base/ids.ts";
import { formatBase64 } from "../../base/text-forms.ts";
import type { StoredEntry } from "../ports/archive.ts";
import type { LogState } from "../ports/store.ts";
import { parseLeaf } from "../record/leaf.ts";
import { leafHash, sameHash } from "../tlog/tree.ts";
import { contentAddress, formatLine, maxLineBytes, PackError, type PackLine, packFormat } from "./format.ts";
import { openBytes, type PackSource } from "./found.ts";
import { type PackSelection, selectionMembers } from "./selection.ts";
import { GrowingTree, type SubtreeReader, subtreeReader, subtreesBetween } from "./subtrees.ts";

export interface PackRequest {
  /** The packed state; the source must hold it. */
  readonly head: LogState;
  /** Its signed checkpoint. */
  readonly checkpoint: string;
  readonly selection: PackSelection;
  /** Milliseconds since the Unix epoch. */
  readonly nowMs: number;
  /** Called for each policy revision whose stored text is left out, with the reason. */
  readonly onUnshown?: (revision: string, reason: string) => void;
}

/** An entry, and whether more than its leaf is shown. */
export interface Shown {
  readonly entry: StoredEntry;
  readonly shows: "record" | "leaf";
}

/** Keeps the state that the next line needs, and a digest of earlier lines. Its methods throw PackErrors. */
export class PackWriter {
  readonly #source: PackSource;
  readonly #request: PackRequest;
  readonly #subtree: SubtreeReader;
  readonly #tree = new GrowingTree();
  readonly #digest: Digest = createHash("sha256");
  readonly #revisions = new Set<string>();
  #entries = 0;

  constructor(source: PackSource, request: PackRequest) {
    this.#source = source;
    this.#request = request;
    this.#subtree = subtreeReader(source.log(request.head));
  }

  /** Index of the last entry; -1 before the first. */
  get newest(): number {
    return this.#tree.size - 1;
  }

  header(): string {
    const { head, checkpoint, selection, nowMs } = this.#request;
    return this.#line({
      type: "header",
      format: packFormat,
      checkpoint,
      made_at: new Date(nowMs).toISOString(),
      selection: selectionMembers(selection),
      tenant_id: head.tenantId,
    });
  }

  /** The line of an entry, after that of its policy revision if that is new. */
  async entry({ entry, shows }: Shown): Promise<readonly string[]> {
    const { leafIndex } = entry;
    const leaf = textOf(entry.leaf, leafIndex);
    const revision = shows === "leaf" ? undefined : parseLeaf(entry.leaf).policy_revision;
    const policies = revision === undefined ? [] : await this.#policy(revision);
    const gap = await this.#gapBefore(leafIndex);
    this.#tree.append(leafHash(entry.leaf));
    this.#entries += 1;
    const material = shows === "leaf" ? {} : materialOf(entry);
    const line = this.#line({
      type: "entry",
      leaf_index: leafIndex,
      leaf,
      ...(gap.length > 0 && { gap }),
      ...material,
    });
    return [...policies, line];
  }

  end(): string {
    const { size, root } = this.#request.head;
    if (this.#tree.size !== size || !sameHash(this.#tree.root(), root))
      throw new PackError("the store's leaves and tiles do not lead to the log's root: verify the log");
    return formatLine({ type: "end", entries: this.#entries, sha256: this.#digest.digest("hex") });
  }

  /** The line of a revision that was not written yet. A text that verifiers would refuse is left out. */
  async #policy(revision: string): Promise<readonly string[]> {
    if (this.#revisions.has(revision)) return [];
    this.#revisions.add(revision);
    const content = await this.#source.policyRevision(revision);
    const problem = content === undefined ? undefined : textProblem(content, revision);
    if (problem !== undefined) this.#request.onUnshown?.(revision, problem);
    const isShown = content !== undefined && problem === undefined;
    return [this.#line({ type: "policy", revision, ...(isShown && { content }) })];
  }

  async #gapBefore(leafIndex: number): Promise<readonly string[]> {
    const gap: string[] = [];
    for (const subtree of subtreesBetween(this.#tree.size, leafIndex)) {
      const hash = await this.#subtree(subtree);
      gap.push(formatBase64(hash));
      this.#tree.append(hash, subtree.height);
    }
    return gap;
  }

  #line(line: PackLine): string {
    const text = formatLine(line);
    this.#digest.update(text, "utf8");
    return text;
  }
}

function textProblem(content: string, revision: string): string | undefined {
  if (contentAddress(content) !== revision) return "the text in the store is not that of the revision: verify the log";
  if (!isCleanText(content)) return "the text cannot be written in canonical JSON";
  // As a member of a line it needs escapes.
  const lineBytes = Buffer.byteLength(JSON.stringify({ content, revision, type: "policy" })) + 1;
  return lineBytes > maxLineBytes ? "the text is too long for a pack" : undefined;
}

function materialOf(entry: StoredEntry): { readonly opening: string; readonly record: string } | { erased: true } {
  if (entry.opening === undefined) return { erased: true };
  return { opening: formatBase64(entry.opening), record: textOf(openBytes(entry), entry.leafIndex) };
}

/** The bytes as text, exactly. */
function textOf(bytes: Uint8Array, leafIndex: number): string {
  const text = Buffer.from(bytes).toString("utf8");
  if (Buffer.compare(Buffer.from(text, "utf8"), bytes) !== 0)
    throw new PackError(`leaf ${leafIndex} or its record is not UTF-8: verify the log`);
  return text;
}
