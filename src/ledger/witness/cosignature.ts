/**
 * Cosignatures, C2SP tlog-cosignature v1 with Ed25519: a witness states that, at a time, a checkpoint was the largest
 * that it had seen of a log, and that all it had seen before is consistent with it.
 */
import { verify } from "node:crypto";
import { formatSignature, NoteError, type NoteSignature, parseNote, parseSignatures } from "../tlog/note.ts";
import { cosignatureType, parseNamedKey } from "../tlog/note-keys.ts";

const timestampBytes = 8;
/** Tolerance for a cosigner's fast clock. Seconds. */
const maxClockSkewSeconds = 300;

/** Verifies the cosignatures of one witness. */
export interface CosignatureVerifier {
  readonly name: string;
  /** 8 hexadecimal digits. */
  readonly keyId: string;
  /** Time of the cosignature in seconds since the Unix epoch; undefined if it is not this key's, or has no time. */
  verify(text: string, signature: Uint8Array): number | undefined;
}

/** Parses a witness's `vkey` of type 4. Undefined for any other text. */
export function parseCosignerKey(vkey: string): CosignatureVerifier | undefined {
  const parsed = parseNamedKey(vkey, cosignatureType);
  if (parsed === undefined) return undefined;
  const { name, keyId, key } = parsed;
  return {
    name,
    keyId,
    verify(text, signature) {
      if (signature.length <= timestampBytes) return undefined;
      const bytes = Buffer.from(signature);
      const seconds = Number(bytes.readBigUInt64BE());
      if (seconds === 0 || !Number.isSafeInteger(seconds)) return undefined;
      const signed = Buffer.from(cosignedText(text, seconds), "utf8");
      return verify(null, signed, key, bytes.subarray(timestampBytes)) ? seconds : undefined;
    },
  };
}

/** The text to sign: header, time, and the checkpoint (C2SP tlog-cosignature, "Ed25519 signed message"). */
export function cosignedText(text: string, seconds: number): string {
  return `cosignature/v1\ntime ${seconds}\n${text}`;
}

/**
 * Finds the witness's cosignature of the text in its answer, and returns the line with its newline. Lines of other keys
 * are ignored, as the specification requires. Throws a NoteError if the lines are malformed, none is of this key, it
 * does not verify, or its time is over five minutes ahead.
 */
export function findCosignature(lines: string, text: string, verifier: CosignatureVerifier, nowMs: number): string {
  const [own] = cosignaturesOf(parseSignatures(lines), text, verifier, nowMs);
  if (own === undefined) throw new NoteError("there is no cosignature of the witness's key");
  return formatSignature(own.signature);
}

/** The cosignatures of one witness, with their times in seconds. Throws like `findCosignature`. */
function cosignaturesOf(
  signatures: readonly NoteSignature[],
  text: string,
  { name, keyId, verify: timeOf }: CosignatureVerifier,
  nowMs: number,
): readonly { readonly signature: NoteSignature; readonly seconds: number }[] {
  return signatures
    .filter((signature) => signature.name === name && signature.keyId === keyId)
    .map((signature) => {
      const seconds = timeOf(text, signature.signature);
      if (seconds === undefined) throw new NoteError("the cosignature does not verify");
      if (seconds > nowMs / 1_000 + maxClockSkewSeconds) throw new NoteError("the cosignature's time is in the future");
      return { signature, seconds };
    });
}

/** Trusted witnesses, and how many of them must have cosigned. */
export interface WitnessQuorum {
  readonly witnesses: readonly CosignatureVerifier[];
  readonly quorum: number;
}

export interface Cosigned {
  readonly name: string;
  readonly keyId: string;
  /** By the witness's clock. RFC 3339. */
  readonly cosignedAt: string;
}

/**
 * Returns the witnesses that cosigned a checkpoint. Throws a NoteError if they are fewer than the quorum, and if a line
 * with the name and id of any of them does not verify or has a future time.
 */
export function requireQuorum(note: string, { witnesses, quorum }: WitnessQuorum, nowMs: number): readonly Cosigned[] {
  const { text, signatures } = parseNote(note);
  const cosigned = witnesses.flatMap((witness) => {
    const { name, keyId } = witness;
    const [own] = orNamed(name, () => cosignaturesOf(signatures, text, witness, nowMs));
    return own === undefined ? [] : [{ name, keyId, cosignedAt: new Date(own.seconds * 1_000).toISOString() }];
  });
  if (cosigned.length < quorum)
    throw new NoteError(
      `The checkpoint is cosigned by ${cosigned.length} of the ${witnesses.length} witnesses that are trusted, not by ${quorum}.`,
    );
  return cosigned;
}

function orNamed<Value>(witness: string, check: () => Value): Value {
  try {
    return check();
  } catch (error) {
    if (error instanceof NoteError) throw new NoteError(`Witness ${witness}: ${error.message}.`);
    throw error;
  }
}
