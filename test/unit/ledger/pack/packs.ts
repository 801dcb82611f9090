/** Packs taken apart and put together again, as a forger would do. */
import { createHash } from "node:crypto";
import type { CheckedEntry } from "../../../../src/ledger/pack/entry-checks.ts";
import { formatLine, type PackEntry, type PackLine, parseLine } from "../../../../src/ledger/pack/format.ts";
import { type VerifiedPack, verifyPack } from "../../../../src/ledger/pack/verify.ts";
import type { NoteVerifier } from "../../../../src/ledger/tlog/note-keys.ts";

export function verifyText(
  text: string | Uint8Array,
  keys: readonly NoteVerifier[],
  onEntry?: (entry: CheckedEntry) => void,
): Promise<VerifiedPack> {
  return verifyPack(chunksOf(Buffer.from(text)), keys, onEntry);
}

/** `accepted`, or why the pack is refused. */
export function verdictOf(text: string | Uint8Array, keys: readonly NoteVerifier[]): Promise<string> {
  return verifyText(text, keys).then(
    () => "accepted",
    (error: Error) => (error.name === "PackError" ? error.message : `${error.name}: ${error.message}`),
  );
}

/** Cut at odd places, as files and sockets do. */
async function* chunksOf(bytes: Uint8Array): AsyncGenerator<Uint8Array> {
  for (let begin = 0; begin < bytes.length; begin += 1_021) yield bytes.subarray(begin, begin + 1_021);
}

export function linesIn(text: string): PackLine[] {
  return text.trimEnd().split("\n").map(parseLine);
}

/** The entry without its record. */
export function leafAlone({ opening: _, record: __, ...others }: PackEntry): PackEntry {
  return others;
}

/** The text of lines, with an end that fits them. */
export function sealLines(lines: readonly PackLine[]): string {
  const body = lines.filter(({ type }) => type !== "end");
  const text = body.map(formatLine).join("");
  const sha256 = createHash("sha256").update(text).digest("hex");
  const entries = body.filter(({ type }) => type === "entry").length;
  return text + formatLine({ type: "end", entries, sha256 });
}
