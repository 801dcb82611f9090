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
  const { at, sizeBytes, count } = await findDirectory(source);
  if (count !== 2 || sizeBytes > maxDirectoryBytes) throw malformed("its container has other entries");
  const directory = await readAt(source, at, sizeBytes);
  const entries = new Map<string, { readonly at: number; readonly sizeBytes: number }>();
  for (let place = 0, n = 0; n < count; n++) {
    const entry = directory.subarray(place);
    if (entry.length < 46 || entry.readUInt32LE(0) !== 0x02014b50) throw malformed("its directory is no directory");
    const [nameBytes, extraBytes, commentBytes] = [28, 30, 32].map((where) => entry.readUInt16LE(where));
    const name = entry.subarray(46, 46 + (nameBytes as number)).toString("latin1");
    const extra = entry.subarray(46 + (nameBytes as number), 46 + (nameBytes as number) + (extraBytes as number));
    // Encrypted or compressed entries are not what a TDF has.
    if ((entry.readUInt16LE(8) & 1) !== 0 || entry.readUInt16LE(10) !== 0)
      throw malformed("its entries are not stored");
    const [plainBytes, storedBytes, headerAt] = widened(
      extra,
      [24, 20, 42].map((where) => entry.readUInt32LE(where)),
    );
    if (plainBytes !== storedBytes) throw malformed("its entries are not stored");
    const header = await readAt(source, headerAt as number, 30);
    if (header.readUInt32LE(0) !== 0x04034b50) throw malformed("an entry is not in its place");
    const dataAt = (headerAt as number) + 30 + header.readUInt16LE(26) + header.readUInt16LE(28);
    if (dataAt + (storedBytes as number) > at) throw malformed("an entry is longer than the container");
    entries.set(name, { at: dataAt, sizeBytes: storedBytes as number });
    place += 46 + (nameBytes as number) + (extraBytes as number) + (commentBytes as number);
  }
  const [payload, manifest] = [entries.get(payloadName), entries.get(manifestName)];
  if (payload === undefined || manifest === undefined) throw malformed("its container has other entries");
  if (manifest.sizeBytes > maxManifestBytes) throw malformed("its manifest is too long");
  return {
    payloadAt: payload.at,
    payloadBytes: payload.sizeBytes,
    manifestAt: manifest.at,
    manifest: await readAt(source, manifest.at, manifest.sizeBytes),
  };
}

async function findDirectory(source: RandomAccess) {
  const end = await readAt(source, source.sizeBytes - 22, 22);
  if (end.readUInt32LE(0) !== 0x06054b50) throw malformed("it is no ZIP file, or has a comment");
  const [count, sizeBytes, at] = [end.readUInt16LE(10), end.readUInt32LE(12), end.readUInt32LE(16)];
  if (count !== 0xffff && sizeBytes !== inZip64 && at !== inZip64) return { count, sizeBytes, at };
  const locator = await readAt(source, source.sizeBytes - 42, 20);
  if (locator.readUInt32LE(0) !== 0x07064b50) throw malformed("its directory cannot be found");
  const wide = await readAt(source, Number(locator.readBigUInt64LE(8)), 56);
  if (wide.readUInt32LE(0) !== 0x06064b50) throw malformed("its directory cannot be found");
  const [wideCount, wideBytes, wideAt] = [32, 40, 48].map((where) => Number(wide.readBigUInt64LE(where)));
  return { count: wideCount as number, sizeBytes: wideBytes as number, at: wideAt as number };
}

/** Replaces what does not fit into 32 bits by the ZIP64 field's values, which are in the same order. */
function widened(extra: Buffer, values: readonly number[]): readonly number[] {
  let wide = Buffer.alloc(0);
  for (let at = 0; at + 4 <= extra.length; at += 4 + extra.readUInt16LE(at + 2))
    if (extra.readUInt16LE(at) === 1) wide = Buffer.from(extra.subarray(at + 4, at + 4 + extra.readUInt16LE(at + 2)));
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
