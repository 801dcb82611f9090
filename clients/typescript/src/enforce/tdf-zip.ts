/** The ZIP container of a TDF (APPNOTE.TXT): two stored entries, the payload and then the manifest. */
import { malformed } from "./header.ts";
import { type RandomAccess, readAt } from "./random-access.ts";

const [payloadName, manifestName] = ["0.payload", "0.manifest.json"];
/** In a 32-bit field: the value is in a ZIP64 field. */
const inZip64 = 0xffffffff;
/** Two entries with short names and a few extra fields. */
const maxDirectoryBytes = 65_536;
const maxManifestBytes = 268_435_456;

/** What the framing of an entry repeats of its bytes. */
export interface Stored {
  readonly crc: number;
  readonly sizeBytes: number;
}

/** Whether an entry of so many bytes, or of an unknown size, needs ZIP64. */
export function needsZip64(sizeBytes: number | undefined): boolean {
  return sizeBytes === undefined || sizeBytes >= inZip64;
}

/** Bytes before the payload, whose size and checksum follow it. */
export function beforePayload(isZip64: boolean): Buffer {
  return localHeader(payloadName, isZip64);
}

/** Bytes between payload and manifest. */
export function beforeManifest(payload: Stored, isZip64: boolean): Buffer {
  return Buffer.concat([descriptor(payload, isZip64), localHeader(manifestName, false)]);
}

/** Bytes after the manifest. */
export function afterManifest(payload: Stored, manifest: Stored, isZip64: boolean): Buffer {
  const payloadEnd = beforePayload(isZip64).length + payload.sizeBytes;
  const manifestAt = payloadEnd + descriptor(payload, isZip64).length;
  const end = descriptor(manifest, false);
  const directoryAt = manifestAt + localHeader(manifestName, false).length + manifest.sizeBytes + end.length;
  const directory = Buffer.concat([
    directoryEntry(payloadName, payload, 0, isZip64),
    directoryEntry(manifestName, manifest, manifestAt, false),
  ]);
  return Buffer.concat([end, directory, endOfDirectory(directoryAt, directory.length)]);
}

/** Integers of so many bytes each, little-endian. */
function fields(...values: readonly (readonly [sizeBytes: number, value: number])[]): Buffer {
  return Buffer.concat(
    values.map(([sizeBytes, value]) => {
      const bytes = Buffer.alloc(8);
      bytes.writeBigUInt64LE(BigInt(value));
      return bytes.subarray(0, sizeBytes);
    }),
  );
}

/** Version, flags (a descriptor follows the data), method (stored), and the first time of the format. */
const common = (isZip64: boolean) => fields([2, isZip64 ? 45 : 20], [2, 8], [2, 0], [2, 0], [2, 0x21]);

function localHeader(name: string, isZip64: boolean): Buffer {
  const extra = isZip64 ? fields([2, 1], [2, 16], [8, 0], [8, 0]) : Buffer.alloc(0);
  const sizeBytes = isZip64 ? inZip64 : 0;
  const rest = fields([4, 0], [4, sizeBytes], [4, sizeBytes], [2, name.length], [2, extra.length]);
  return Buffer.concat([fields([4, 0x04034b50]), common(isZip64), rest, Buffer.from(name), extra]);
}

function descriptor({ crc, sizeBytes }: Stored, isZip64: boolean): Buffer {
  const width = isZip64 ? 8 : 4;
  return fields([4, 0x08074b50], [4, crc], [width, sizeBytes], [width, sizeBytes]);
}

function directoryEntry(name: string, { crc, sizeBytes }: Stored, at: number, isZip64: boolean): Buffer {
  const large = [...(sizeBytes >= inZip64 ? [sizeBytes, sizeBytes] : []), ...(at >= inZip64 ? [at] : [])];
  const wide = large.map((value) => [8, value] as const);
  const extra = large.length > 0 ? fields([2, 1], [2, 8 * large.length], ...wide) : Buffer.alloc(0);
  const shownBytes = Math.min(sizeBytes, inZip64);
  const made = fields([4, 0x02014b50], [2, 45]);
  const sizes = fields([4, crc], [4, shownBytes], [4, shownBytes], [2, name.length], [2, extra.length]);
  const place = fields([2, 0], [2, 0], [2, 0], [4, 0], [4, Math.min(at, inZip64)]);
  return Buffer.concat([made, common(isZip64), sizes, place, Buffer.from(name), extra]);
}

function endOfDirectory(at: number, sizeBytes: number): Buffer {
  const end = fields([4, 0x06054b50], [4, 0], [2, 2], [2, 2], [4, sizeBytes], [4, Math.min(at, inZip64)], [2, 0]);
  if (at < inZip64) return end;
  const counts = fields([8, 44], [2, 45], [2, 45], [4, 0], [4, 0], [8, 2], [8, 2], [8, sizeBytes], [8, at]);
  const locator = fields([4, 0x07064b50], [4, 0], [8, at + sizeBytes], [4, 1]);
  return Buffer.concat([fields([4, 0x06064b50]), counts, locator, end]);
}

/** Places of the entries. The framing is not checked: other programs write it in other ways. */
export interface Container {
  readonly payloadAt: number;
  readonly payloadBytes: number;
  readonly manifestAt: number;
  readonly manifest: Buffer;
}

/** Finds the entries by the central directory. Rejects with `not_authentic`. */
export async function readContainer(source: RandomAccess): Promise<Container> {
  const { at, sizeBytes } = await findDirectory(source);
  let directory = await readAt(source, at, sizeBytes);
  const entries = new Map<string, { readonly at: number; readonly sizeBytes: number }>();
  for (let n = 0; n < 2; n++) {
    if (directory.length < 46 || directory.readUInt32LE(0) !== 0x02014b50)
      throw malformed("its directory is no directory");
    const lengths = [28, 30, 32].map((where) => directory.readUInt16LE(where));
    const [nameBytes, extraBytes, commentBytes] = lengths as [number, number, number];
    const name = directory.subarray(46, 46 + nameBytes);
    const [plainBytes, storedBytes, headerAt] = widened(
      directory.subarray(46 + nameBytes, 46 + nameBytes + extraBytes),
      [24, 20, 42].map((where) => directory.readUInt32LE(where)),
    ) as [number, number, number];
    const header = await readAt(source, headerAt, 30 + nameBytes);
    if (
      header.readUInt32LE(0) !== 0x04034b50 ||
      header.readUInt16LE(26) !== nameBytes ||
      !header.subarray(30).equals(name)
    )
      throw malformed("an entry is not in its place");
    // Encrypted or compressed entries are not what a TDF has.
    const isStored =
      (directory.readUInt16LE(8) & 1) === 0 && directory.readUInt16LE(10) === 0 && header.readUInt16LE(8) === 0;
    if (!isStored || plainBytes !== storedBytes) throw malformed("its entries are not stored");
    const dataAt = headerAt + 30 + nameBytes + header.readUInt16LE(28);
    if (dataAt + storedBytes > at) throw malformed("an entry is longer than the container");
    entries.set(name.toString("latin1"), { at: dataAt, sizeBytes: storedBytes });
    directory = directory.subarray(46 + nameBytes + extraBytes + commentBytes);
  }
  const [payload, manifest] = [entries.get(payloadName), entries.get(manifestName)];
  if (payload === undefined || manifest === undefined || directory.length > 0)
    throw malformed("its container has other entries");
  if (manifest.sizeBytes > maxManifestBytes) throw malformed("its manifest is too long");
  return {
    payloadAt: payload.at,
    payloadBytes: payload.sizeBytes,
    manifestAt: manifest.at,
    manifest: await readAt(source, manifest.at, manifest.sizeBytes),
  };
}

/**
 * Finds the directory of two entries, which ends at the records of the end. These end the file, and agree: otherwise
 * one reader could find another directory than the next.
 */
async function findDirectory(source: RandomAccess) {
  // A directory of two entries is longer than the two ZIP64 records that may follow it.
  const tail = await readAt(source, source.sizeBytes - 98, 98);
  const [wide, locator, end] = [tail.subarray(0, 56), tail.subarray(56, 76), tail.subarray(76)];
  if (end.readUInt32LE(0) !== 0x06054b50 || end.readUInt16LE(20) !== 0)
    throw malformed("it is no ZIP file, or has a comment");
  const isZip64 = locator.readUInt32LE(0) === 0x07064b50;
  const endAt = source.sizeBytes - (isZip64 ? 98 : 22);
  if (isZip64 && (wide.readUInt32LE(0) !== 0x06064b50 || Number(locator.readBigUInt64LE(8)) !== endAt))
    throw malformed("its directory cannot be found");
  const narrow = [end.readUInt16LE(8), end.readUInt16LE(10), end.readUInt32LE(12), end.readUInt32LE(16)];
  const values = isZip64 ? [24, 32, 40, 48].map((where) => Number(wide.readBigUInt64LE(where))) : narrow;
  const unset = [0xffff, 0xffff, inZip64, inZip64];
  const areSame = values.every((value, i) => narrow[i] === value || (isZip64 && narrow[i] === unset[i]));
  const [here, count, sizeBytes, at] = values as [number, number, number, number];
  if (here !== 2 || count !== 2 || sizeBytes > maxDirectoryBytes) throw malformed("its container has other entries");
  if (!areSame || at + sizeBytes !== endAt) throw malformed("its directory is not in its place");
  return { at, sizeBytes };
}

/** Replaces what does not fit into 32 bits by the only ZIP64 field's values, which are in the same order. */
function widened(extra: Buffer, values: readonly number[]): readonly number[] {
  const fields: Buffer[] = [];
  for (let rest = extra; rest.length >= 4; ) {
    const end = 4 + rest.readUInt16LE(2);
    if (end > rest.length) throw malformed("an extra field is cut");
    if (rest.readUInt16LE(0) === 1) fields.push(rest.subarray(4, end));
    rest = rest.subarray(end);
  }
  if (fields.length > 1) throw malformed("an entry has two sizes");
  let wide = fields[0] ?? Buffer.alloc(0);
  return values.map((value) => {
    if (value !== inZip64) return value;
    if (wide.length < 8) throw malformed("an entry has no size");
    const found = Number(wide.readBigUInt64LE());
    wide = wide.subarray(8);
    return found;
  });
}

/** Rejects with `not_authentic` unless every byte around payload and manifest is as `protect` writes it. */
export async function requireFraming(source: RandomAccess, found: Container, payload: Stored, manifest: Stored) {
  const { payloadAt, payloadBytes, manifestAt } = found;
  const manifestEnd = manifestAt + manifest.sizeBytes;
  const isZip64 = payloadAt !== beforePayload(false).length;
  const expected = [
    [0, payloadAt, beforePayload(isZip64)],
    [payloadAt + payloadBytes, manifestAt, beforeManifest(payload, isZip64)],
    [manifestEnd, source.sizeBytes, afterManifest(payload, manifest, isZip64)],
  ] as const;
  for (const [from, to, bytes] of expected)
    if (to - from !== bytes.length || !(await readAt(source, from, bytes.length)).equals(bytes))
      throw malformed("its container was changed");
}
