/**
 * Cosignatures, C2SP tlog-cosignature v1 with Ed25519: a witness states that, at a time, a checkpoint was the largest
 * that it had seen of a log, and that all it had seen before is consistent with it.
 */
import { verify } from "node:crypto";
import { formatSignature, NoteError, type NoteSignature, parseSignatures } from "./note.ts";
import { cosignatureType, parseNamedKey } from "./note-keys.ts";

const timestampBytes = 8;
/** Of a cosigner whose clock goes fast. Seconds. */
const maxClockSkewSeconds = 300;

/** Checks the cosignatures of one witness. */
export interface CosignatureVerifier {
  readonly name: string;
  /** 8 hexadecimal digits. */
  readonly keyId: string;
  /**
   * Seconds since the Unix epoch at which the text was cosigned; undefined where the signature is not this key's, or
   * has no time.
   */
  verify(text: string, signature: Uint8Array): number | undefined;
}

/** Reads a witness's `vkey` of type 4. Returns undefined for any other text. */
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

/** What is signed: header, time, and the whole text of the checkpoint (C2SP tlog-cosignature, "Ed25519 signed message"). */
export function cosignedText(text: string, seconds: number): string {
  return `cosignature/v1\ntime ${seconds}\n${text}`;
}

/**
 * Finds the witness's cosignature of the text among lines that a witness answered, and gives its line back, with its
 * newline. Lines of other keys are ignored, as the specification asks. Throws a NoteError where the lines are
 * malformed, there is none of this key, it does not verify, or its time is over five minutes ahead.
 */
export function findCosignature(lines: string, text: string, verifier: CosignatureVerifier, nowMs: number): string {
  const own = parseSignatures(lines).filter(({ name, keyId }) => name === verifier.name && keyId === verifier.keyId);
  const [signature] = own;
  if (signature === undefined) throw new NoteError("there is no cosignature of the witness's key");
  const times = own.map((each: NoteSignature) => verifier.verify(text, each.signature));
  if (times.some((seconds) => seconds === undefined)) throw new NoteError("the cosignature does not verify");
  if (times.some((seconds = 0) => seconds > nowMs / 1_000 + maxClockSkewSeconds))
    throw new NoteError("the cosignature is of a time to come");
  return formatSignature(signature);
}
