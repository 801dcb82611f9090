/** Tiles of a log: files and their names in C2SP tlog-tiles. */

/** Height of a tile: 2^8 = 256 hashes if it is full. */
export const tileHeight = 8;
export const tileWidth = 2 ** tileHeight;

/** Entries of a tlog-tiles entry bundle have a 16-bit length (C2SP tlog-tiles, "Log entries"). */
export const maxLeafBytes = 65_535;

export interface TilePlace {
  /** Level 0 has hashes of leaves; each further level has roots of full tiles of the level below. */
  readonly level: number;
  readonly index: number;
}

/** A tile. Its width is 256 if it is full. */
export interface TileCoordinate extends TilePlace {
  readonly width: number;
}

/** A path under `tile/`: a tile of hashes, or a bundle of entries. */
export interface TileName extends Omit<TileCoordinate, "level"> {
  readonly level: number | "entries";
}

const namePattern = /^(entries|0|[1-9][0-9]?)\/((?:x[0-9]{3}\/)*)([0-9]{3})(?:\.p\/([1-9][0-9]{0,2}))?$/;

/** Path of a tile or bundle below `tile/`, such as `0/x001/234` or `entries/000.p/17`. */
export function tilePath({ level, index, width }: TileName): string {
  const digits = String(index);
  const groups = digits.padStart(Math.ceil(digits.length / 3) * 3, "0").match(/[0-9]{3}/g) ?? [];
  const name = groups.map((group, position) => (position < groups.length - 1 ? `x${group}` : group)).join("/");
  return `${level}/${name}${width === tileWidth ? "" : `.p/${width}`}`;
}

/** Parses a path below `tile/`. Undefined for any text that `tilePath` does not write. */
export function parseTilePath(path: string): TileName | undefined {
  const [, level, upper = "", last, partial] = namePattern.exec(path) ?? [];
  if (level === undefined || last === undefined) return undefined;
  const name: TileName = {
    level: level === "entries" ? level : Number(level),
    index: Number(upper.replaceAll(/[x/]/g, "") + last),
    width: partial === undefined ? tileWidth : Number(partial),
  };
  // The round trip refuses what the pattern accepts: leading zeros, widths over 255, indices beyond 2^53.
  return tilePath(name) === path && (name.level === "entries" || name.level < 64) ? name : undefined;
}

/** Number of hashes of a tree of this size on a level of tiles. */
export function hashesOnLevel(level: number, size: number): number {
  return Math.floor(size / tileWidth ** level);
}

/** The partial tiles of a tree of this size, at most one per level, from level 0 up. */
export function partialTiles(size: number): TileCoordinate[] {
  const tiles: TileCoordinate[] = [];
  for (let level = 0, count = size; count > 0; level++, count = hashesOnLevel(level, size)) {
    const width = count % tileWidth;
    if (width > 0) tiles.push({ level, index: Math.floor(count / tileWidth), width });
  }
  return tiles;
}

/** Every tile of a tree of this size, level by level, full ones first. */
export function* allTiles(size: number): Generator<TileCoordinate> {
  for (let level = 0, count = size; count > 0; level++, count = hashesOnLevel(level, size)) {
    const full = Math.floor(count / tileWidth);
    for (let index = 0; index < full; index++) yield { level, index, width: tileWidth };
    if (count % tileWidth > 0) yield { level, index: full, width: count % tileWidth };
  }
}

/** The entries of a bundle, in order. */
export function* entriesIn(bundle: Uint8Array): Generator<Uint8Array> {
  const bytes = Buffer.from(bundle.buffer, bundle.byteOffset, bundle.byteLength);
  for (let at = 0; at < bytes.length; ) {
    const end = at + 2 + bytes.readUInt16BE(at);
    yield bytes.subarray(at + 2, end);
    at = end;
  }
}

/** A bundle of entries: each follows its length as a big-endian 16-bit number. */
export function encodeEntries(entries: readonly Uint8Array[]): Uint8Array {
  const bundle = Buffer.alloc(entries.reduce((sum, { length }) => sum + 2 + length, 0));
  let offset = 0;
  for (const entry of entries) {
    if (entry.length > maxLeafBytes) throw new RangeError("The entry is too long for a bundle.");
    bundle.writeUInt16BE(entry.length, offset);
    bundle.set(entry, offset + 2);
    offset += 2 + entry.length;
  }
  return bundle;
}
